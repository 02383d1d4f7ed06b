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
	"github.com/pawl-dev/pawl/secretfile"
)

// Config is what an agent is given once: its instance, where it and its engine
// listen, and where it finds what belongs to the cluster.
type Config struct {
	Cluster port.Ref `json:"cluster"`        // with Instance
	Listen  string   `json:"listen"`         // host:port of the agent's HTTP
	Host    string   `json:"host"`           // where others reach the engine
	Bind    string   `json:"bind,omitempty"` // where the engine listens: Host
	Port    int32    `json:"port"`

	Binaries string `json:"binaries"`          // folder of postgres, initdb, pg_basebackup, pg_rewind, pg_controldata
	Version  string `json:"version,omitempty"` // as the adapter calls them: what postgres says of itself
	User     string `json:"user,omitempty"`    // who runs the engine when the agent is root: postgres, else nobody

	TokenFile    string `json:"tokenFile"`    // what callers of the agent show
	PasswordFile string `json:"passwordFile"` // of the superuser in all engines of the cluster
	CertFile     string `json:"certFile,omitempty"`
	KeyFile      string `json:"keyFile,omitempty"`

	GrantDir string `json:"grantDir,omitempty"` // folder of a GrantFile; empty: the caller of NewAgent gives Grants
	Seed     string `json:"seed,omitempty"`     // folder whose data a new writer begins with, if it is there

	Lease Duration `json:"lease,omitzero"` // of a writer: 6 s
	Grace Duration `json:"grace,omitzero"` // for the engine to stop when the agent is told to end: 25 s

	Durability string            `json:"durability,omitempty"` // until the cluster manager says: strict
	Parameters map[string]string `json:"parameters,omitempty"` // until Apply says; those of the class
	Command    []string          `json:"command,omitempty"`    // of an agent, without --dir: this program and "instance"
}

// Duration is a time.Duration that files write as text, such as "6s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// The durabilities.
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
		c.Lease = Duration(6 * time.Second)
	}
	if c.Lease < Duration(time.Second) {
		problems = append(problems, fmt.Errorf("a lease of %s is too short to be renewed in time: at least 1s", time.Duration(c.Lease)))
	}
	if c.Grace <= 0 {
		c.Grace = Duration(25 * time.Second)
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

// secret reads a file that holds one secret. Its mode is not judged: whoever
// wrote the configuration mounts it, in a pod with the mode of the volume.
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

// Runner is whom engines run as: nil for this user, another where this is root,
// whom PostgreSQL refuses. An empty name is postgres, or nobody.
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

// Reachable tells of a folder that the user of the engine cannot enter.
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
			return trouble(err)
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
