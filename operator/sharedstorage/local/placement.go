// Package local implements the ports of the shared-storage operator on one machine: volumes are
// folders, instances are processes.
//
//	Dir/nodes/<node>.down                       a simulated node that is broken
//	Dir/<namespace>/<cluster>/volume/           size, grant, lease, data without an instance (seed)
//	                         /secret/           token of the agents, password of the engines
//	                         /instances/<name>/ configuration, agent, data, engine
//	                         /manager/          the cluster manager
//	                         /pooler/<name>/    a pooler and the files of its pgbouncer
//
// Each process has a session of its own and outlives the process that started it. It is found
// again by its folder and a file with its id and start time.
package local

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Options of Open. Only Dir is required.
type Options struct {
	Dir        string            // folder for everything below; the user who runs PostgreSQL must be able to enter it
	Nodes      []port.Node       // simulated nodes; default node-1 to node-3
	Versions   map[string]string // folders of the server programs by version; nil: the installed ones
	Program    []string          // the program of agents and managers, to which "instance" and "cluster-manager" are added; default os.Executable
	OneAddress bool              // all processes listen on 127.0.0.1, each on ports of its own
	User       string            // user who runs PostgreSQL when this process is root; default postgres, or nobody
	Lease      time.Duration     // duration of a writer's lease; default 6 s
	Every      time.Duration     // between two rounds of a cluster manager; default 1 s
	Env        []string          // of all processes, besides PATH
}

// Placement is everything in one folder.
type Placement struct {
	o        Options
	mu       sync.Mutex // with the lock of the folder: one process at a time changes it
	children map[int]struct{}
	seen     map[string]seenState
}

// Open returns the Placement of a folder. The folder is created when it is first needed.
func Open(o Options) (*Placement, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil || o.Dir == "" {
		return nil, errors.Join(errors.New("the options have no folder"), err)
	}
	o.Dir = dir
	if len(o.Nodes) == 0 {
		for i := range 3 {
			o.Nodes = append(o.Nodes, port.Node{Name: fmt.Sprintf("node-%d", i+1), Ready: true, Schedulable: true})
		}
	}
	if len(o.Program) == 0 {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o.Program = []string{program}
	}
	if o.Lease <= 0 {
		o.Lease = 6 * time.Second
	}
	if o.Versions == nil {
		if o.Versions, err = installedVersions(); err != nil {
			return nil, err
		}
	}
	return &Placement{o: o, children: map[int]struct{}{}, seen: map[string]seenState{}}, nil
}

// Storage returns the port of this name.
func (s *Placement) Storage() *Storage { return &Storage{s} }

// Instances returns the port of this name, which is also a postgres.Locator.
func (s *Placement) Instances() *Instances { return &Instances{s} }

// Engine returns the port of this name. It calls engines through their agents.
func (s *Placement) Engine() postgres.Engine { return postgres.Engine{Locator: s.Instances()} }

var plainName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// folder returns the folder of a cluster.
func (s *Placement) folder(c port.Ref, names ...string) string {
	return filepath.Join(append([]string{s.o.Dir, c.Namespace, c.Name}, names...)...)
}

// check rejects names that cannot be file names.
func check(names ...string) error {
	for _, name := range names {
		if !plainName.MatchString(name) || name == "nodes" {
			return fmt.Errorf("%q cannot be the name of a folder: lower case letters, digits, - and ., 63 at most", name)
		}
	}
	return nil
}

// locked runs do while no other process changes the folder.
func (s *Placement) locked(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(filepath.Join(s.o.Dir, "nodes"), 0o711); err != nil {
		return storageFault(err)
	}
	lock, err := host.Lock(filepath.Join(s.o.Dir, "placement.lock"))
	if err != nil {
		return storageFault(err)
	}
	defer lock.Close()
	s.reap()
	return do()
}

// ensureDirs creates the folders of a cluster.
func (s *Placement) ensureDirs(c port.Ref) error {
	if err := check(c.Namespace, c.Name); err != nil {
		return err
	}
	for _, folder := range []string{"volume", "secret", "instances"} {
		if err := os.MkdirAll(s.folder(c, folder), 0o711); err != nil {
			return storageFault(err)
		}
	}
	for _, name := range []string{"token", "password"} {
		file := s.folder(c, "secret", name)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			if err := host.WriteFile(file, []byte(random()+"\n")); err != nil {
				return storageFault(err)
			}
		}
	}
	return nil
}

func random() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// start starts a program that outlives this process.
func (s *Placement) start(dir, log string, args ...string) (host.Process, error) {
	f, err := os.OpenFile(filepath.Join(dir, log), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return host.Process{}, storageFault(err)
	}
	defer f.Close()
	args = append(slices.Clone(s.o.Program), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, f, f
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, s.o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return host.Process{}, err
	}
	p := host.ProcessOf(cmd.Process.Pid)
	s.children[p.PID] = struct{}{}
	_ = cmd.Process.Release() // reap waits for it by its id
	return p, nil
}

// reap waits for children that have ended, which would otherwise stay as zombies.
func (s *Placement) reap() {
	for pid := range s.children {
		switch got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil || got == pid:
			delete(s.children, pid)
		}
	}
}

func storageFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return port.StorageFull.Errorf("%w", err)
	}
	return port.StorageFailed.Errorf("%w", err)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
