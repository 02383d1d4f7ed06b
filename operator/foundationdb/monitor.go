package foundationdb

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// longestCommand is the number of characters that a start command may have.
const longestCommand = 10000

// launch is the file that the launcher of the unified image reads.
type launch struct {
	Version    string     `json:"version"`
	RunServers *bool      `json:"runServers,omitempty"` // nil: they run
	Arguments  []argument `json:"arguments,omitempty"`
}

// MonitorConf returns the file from which the servers of a pod are started: fdbmonitor.conf of the split image,
// with $VARIABLES that the sidecar replaces, or config.json of the unified one. Without a connection string no
// server runs: the file of the split image is empty. It fails with fdb.VersionInvalid.
func MonitorConf(c *v1beta2.FoundationDBCluster, class fdb.Class, image v1beta2.ImageType, servers int) (string, error) {
	version, err := fdb.ParseVersion(c.Spec.Version)
	if err != nil {
		return "", err
	}
	arguments := template(c, class, image, servers)
	if image == v1beta2.ImageTypeUnified {
		l := launch{Version: version.String(), Arguments: arguments}
		if c.Status.ConnectionString == "" || c.Spec.Buggify.EmptyMonitorConf {
			l.RunServers = new(bool)
		}
		encoded, err := json.Marshal(l)
		return string(encoded), err
	}
	if c.Status.ConnectionString == "" {
		return "", nil
	}
	lines := []string{"[general]", "kill_on_configuration_change = false", "restart_delay = 60"}
	if c.Spec.Buggify.EmptyMonitorConf {
		servers = 0
	}
	for n := range servers {
		lines = append(lines, "[fdbserver."+strconv.Itoa(n+1)+"]", "command = $"+envBinaryDir+"/fdbserver")
		for _, a := range arguments {
			line, err := a.expand(n+1, nil)
			if err != nil {
				return "", err
			}
			lines = append(lines, strings.Replace(strings.TrimPrefix(line, "--"), "=", " = ", 1))
		}
	}
	return strings.Join(lines, "\n"), nil
}

// StartCommands returns the command lines of the servers of a pod, with the variables of that pod; one that it
// does not have stays $NAME. fdbmonitor, of the split image, sorts the arguments by name. It fails with
// SpecInvalid for a command of more than 10,000 characters, and for a pod without an IP of the family that the
// spec asks for.
func StartCommands(c *v1beta2.FoundationDBCluster, class fdb.Class, image v1beta2.ImageType, servers int, variables map[string]string) ([]string, error) {
	return startCommands(template(c, class, image, servers), class, image, servers, variables)
}

func startCommands(arguments []argument, class fdb.Class, image v1beta2.ImageType, servers int, variables map[string]string) ([]string, error) {
	binary, err := joined(env(envBinaryDir), text("/fdbserver")).expand(0, variables)
	if err != nil {
		return nil, err
	}
	var commands []string
	for n := range max(1, servers) {
		parts := make([]string, 0, len(arguments)+1)
		for _, a := range arguments {
			part, err := a.expand(n+1, variables)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
		if image != v1beta2.ImageTypeUnified {
			slices.SortStableFunc(parts, byName)
		}
		command := strings.Join(slices.Insert(parts, 0, binary), " ")
		if len(command) > longestCommand {
			return nil, SpecInvalid.Errorf("spec.processes: the start command of class %s has %d characters, at most %d", class, len(command), longestCommand)
		}
		commands = append(commands, command)
	}
	return commands, nil
}

// byName orders arguments as fdbmonitor does. Source: foundationdb 7.3.69, fdbmonitor/fdbmonitor.cpp, Command,
// and fdbclient/include/fdbclient/SimpleIni.h, SI_GenericNoCase.
func byName(a, b string) int {
	x, _, _ := strings.Cut(a, "=")
	y, _, _ := strings.Cut(b, "=")
	return strings.Compare(strings.ToLower(x), strings.ToLower(y))
}
