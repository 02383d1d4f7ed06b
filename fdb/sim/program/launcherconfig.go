package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// launcherConfig is what config.json says. Source: fdbkubernetesmonitor/api/config.go at 7.1.67, 7.3.69 and 7.4.6.
type launcherConfig struct {
	Version    string             `json:"version"`
	RunServers *bool              `json:"runServers,omitempty"`
	Arguments  []launcherArgument `json:"arguments,omitempty"`

	version fdb.Version
	binary  string
}

// launcherArgument is one argument, or a part of one.
type launcherArgument struct {
	Type       string             `json:"type,omitempty"` // Literal unless set
	Value      string             `json:"value,omitempty"`
	Values     []launcherArgument `json:"values,omitempty"`
	Source     string             `json:"source,omitempty"` // the name of a variable
	Multiplier int                `json:"multiplier,omitempty"`
	Offset     int                `json:"offset,omitempty"`
	IPFamily   int                `json:"ipFamily,omitempty"`
}

func (c *launcherConfig) runs() bool { return c != nil && (c.RunServers == nil || *c.RunServers) }

// text generates an argument for the nth process. lookup knows the variables.
func (a launcherArgument) text(number int, lookup func(string) (string, bool)) (string, error) {
	switch a.Type {
	case "", "Literal":
		return a.Value, nil
	case "Concatenate":
		var all strings.Builder
		for _, part := range a.Values {
			text, err := part.text(number, lookup)
			if err != nil {
				return "", err
			}
			all.WriteString(text)
		}
		return all.String(), nil
	case "ProcessNumber":
		if a.Multiplier != 0 {
			number *= a.Multiplier
		}
		return strconv.Itoa(number + a.Offset), nil
	case "Environment", "IPList":
		value, there := lookup(a.Source)
		if !there {
			return "", fmt.Errorf("missing environment variable %s", a.Source)
		}
		if a.Type == "Environment" {
			return value, nil
		}
		return ofFamily(value, a.IPFamily)
	}
	return "", fmt.Errorf("unsupported argument type %s", a.Type)
}

// ofFamily returns the first IP of a list that is of a family.
func ofFamily(list string, family int) (string, error) {
	for text := range strings.SplitSeq(list, ",") {
		ip := net.ParseIP(text)
		switch {
		case ip == nil:
		case family != 4 && family != 6:
			return "", fmt.Errorf("unsupported IP family %d", family)
		case (ip.To4() != nil) == (family == 4):
			return text, nil
		}
	}
	return "", fmt.Errorf("could not find IP with family %d", family)
}

// arguments generates the command line of the nth process.
func (c *launcherConfig) arguments(number int, lookup func(string) (string, bool)) ([]string, error) {
	argv := []string{c.binary}
	for _, a := range c.Arguments {
		text, err := a.text(number, lookup)
		if err != nil {
			return nil, err
		}
		argv = append(argv, text)
	}
	return argv, nil
}

// sources adds the variables that an argument uses, with their values.
func (a launcherArgument) sources(lookup func(string) (string, bool), into map[string]string) {
	if a.Source != "" {
		if value, err := (launcherArgument{Type: orEnvironment(a.Type), Source: a.Source, IPFamily: a.IPFamily}).text(1, lookup); err == nil {
			into[a.Source] = value
		}
	}
	for _, part := range a.Values {
		part.sources(lookup, into)
	}
}

func orEnvironment(kind string) string {
	if kind == "IPList" {
		return kind
	}
	return "Environment"
}

// readConfig reads the configuration; nil means that it is refused, and the old one is kept. Source:
// fdbkubernetesmonitor/monitor.go at 7.1.67, 7.3.69 and 7.4.6, readConfiguration.
func (l *launcher) readConfig() (*launcherConfig, []byte) {
	var c launcherConfig
	content, err := os.ReadFile(l.configFile)
	switch {
	case err != nil:
		l.log.fail(err, "Error reading monitor config file")
		return nil, nil
	case json.Unmarshal(content, &c) != nil:
		l.log.fail(json.Unmarshal(content, &c), "Error parsing monitor configuration")
		return nil, nil
	case c.Version == "":
		l.log.fail(nil, "Error could not parse configured version")
		return nil, nil
	}
	if c.version, err = fdb.ParseVersion(c.Version); err != nil {
		l.log.fail(err, "Error parsing monitor configuration")
		return nil, nil
	}
	c.binary = path.Join(l.flags.sharedBinaryDir, c.version.String(), "fdbserver")
	if c.version.ProtocolCompatible(l.containerVersion) {
		c.binary = l.flags.fdbserverPath
	}
	info, err := os.Stat(l.p.path(c.binary))
	if err == nil && info.Mode()&0o100 == 0 {
		err = errors.New("binary is not executable")
	}
	if err != nil {
		l.log.fail(err, "Error with binary path for latest configuration")
		return nil, nil
	}
	if _, err := c.arguments(1, l.lookup); err != nil {
		l.log.fail(err, "Error generating arguments for latest configuration")
		return nil, nil
	}
	if c.runs() && l.pod.isolated() {
		c.RunServers = new(false)
	}
	return &c, content
}
