package postgres

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/secretfile"
)

// Config is the configuration of an agent: its instance, the addresses of agent and engine, and
// the files of the cluster. It does not change while the agent runs.
type Config struct {
	Cluster port.Ref `json:"cluster"`        // with Instance
	Listen  string   `json:"listen"`         // host:port of the agent's HTTP
	Host    string   `json:"host"`           // host of the engine for other processes
	Bind    string   `json:"bind,omitempty"` // address on which the engine listens; default Host
	Port    int32    `json:"port"`

	Binaries string `json:"binaries"`          // folder of postgres, initdb, pg_basebackup, pg_rewind, pg_controldata
	Version  string `json:"version,omitempty"` // name of the version at the adapter; default: what postgres reports
	User     string `json:"user,omitempty"`    // user who runs the engine when the agent is root; default postgres, or nobody

	TokenFile    string `json:"tokenFile"`        // token of the callers of the agent
	PasswordFile string `json:"passwordFile"`     // password of the superuser in all engines of the cluster
	TLSDir       string `json:"tlsDir,omitempty"` // folder with the certificates of the engine (CertificateFile, KeyFile, TrustFile) and of the agent (transport.Folder), which may come and change at any time; empty: none

	GrantDir string `json:"grantDir,omitempty"` // folder of a GrantFile; empty: the caller of NewAgent gives Grants
	Seed     string `json:"seed,omitempty"`     // folder whose data a new writer uses, if it exists

	Lease host.Duration `json:"lease,omitzero"` // duration of a writer's lease; default 6 s
	Grace host.Duration `json:"grace,omitzero"` // time for the engine to stop when the agent is told to end; default 25 s

	Node     string        `json:"node,omitempty"`    // node of the instance; needed for Failsafe
	Failsafe host.Duration `json:"failsafe,omitzero"` // how long a writer goes on at most without renewing its lease, if all members confirm (package failsafe); 0: it stops at its end

	QueriesFile string `json:"queriesFile,omitempty"` // file of queries of which /metrics has the results (package metrics); it need not exist

	HugePages bool `json:"hugePages,omitempty"` // the engine has huge pages: huge_pages is on, unless a parameter says otherwise

	Durability string            `json:"durability,omitempty"` // until the cluster manager sets it; default strict
	Parameters map[string]string `json:"parameters,omitempty"` // until Apply sets them: the parameters of the class
	Command    []string          `json:"command,omitempty"`    // command of an agent, without --dir; default this program and "instance"
}

// The values of durability.
const (
	Strict    = "strict"
	Available = "available"
)

func (c Config) filled() (Config, error) {
	var problems []error
	need := func(name, value string) {
		if value == "" {
			problems = append(problems, fmt.Errorf("%s is empty", name))
		}
	}
	need("cluster.name", c.Cluster.Name)
	need("cluster.instance", c.Cluster.Instance)
	need("host", c.Host)
	need("binaries", c.Binaries)
	need("tokenFile", c.TokenFile)
	need("passwordFile", c.PasswordFile)
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		problems = append(problems, fmt.Errorf("listen: %w", err))
	}
	if c.Port <= 0 || c.Port > 65535 {
		problems = append(problems, fmt.Errorf("port %d is none", c.Port))
	}
	if c.Bind == "" {
		c.Bind = c.Host
	}
	if c.Lease <= 0 {
		c.Lease = host.Duration(6 * time.Second)
	}
	if c.Lease < host.Duration(time.Second) {
		problems = append(problems, fmt.Errorf("a lease of %s is too short to be renewed in time: at least 1s", time.Duration(c.Lease)))
	}
	if c.Grace <= 0 {
		c.Grace = host.Duration(25 * time.Second)
	}
	if c.Durability == "" {
		c.Durability = Strict
	}
	if len(c.Command) == 0 {
		program, err := os.Executable()
		if err != nil {
			problems = append(problems, err)
		}
		c.Command = []string{program, "instance"}
	}
	return c, errors.Join(problems...)
}

// secret reads a file that holds one secret. It does not check the mode of the file: in a pod,
// that is the mode of the mounted volume.
func secret(file string) (string, error) {
	text, err := secretfile.ReadAnyMode(file)
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(text)
	if value == "" || strings.ContainsAny(value, "\n\r\x00") {
		return "", fmt.Errorf("%s holds no secret of one line", file)
	}
	return value, nil
}

// Runner returns the user who runs engines: nil for the present user; another one if this process
// is root, because PostgreSQL does not run as root. The default name is postgres, or nobody.
func Runner(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	names := []string{"postgres", "nobody"}
	if name != "" {
		names = []string{name}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uerr, gerr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, port.StorageFailed.Errorf("PostgreSQL refuses root, and there is no user %s to run it as", strings.Join(names, " or "))
}

// Reachable returns an error if the user of the engine cannot enter a folder.
func Reachable(dir string, as *syscall.Credential) error {
	if as == nil || as.Uid == 0 {
		return nil
	}
	for at := filepath.Clean(dir); at != "/" && at != "."; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return host.Trouble(err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		mode := info.Mode().Perm()
		switch {
		case stat.Uid == as.Uid && mode&0o100 != 0, stat.Uid != as.Uid && stat.Gid == as.Gid && mode&0o010 != 0,
			stat.Uid != as.Uid && stat.Gid != as.Gid && mode&0o001 != 0:
			continue
		}
		return port.StorageFailed.Errorf("user %d, who runs PostgreSQL for root, cannot enter %s (%s): choose a folder that all may enter, such as one in /var/lib", as.Uid, at, mode)
	}
	return nil
}
