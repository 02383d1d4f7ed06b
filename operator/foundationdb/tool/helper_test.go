package tool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

const ms = time.Millisecond

// model is a model of a database that is available, and what a tool needs to reach it.
type model struct {
	*sim.Cluster
	version fdb.Version
	given   fdb.Connection
}

func newModel() *model {
	at := endpoint()
	w := &model{Cluster: sim.New(sim.Options{Seed: 1}), version: at.Version, given: at.Connection}
	populate(w.Cluster, at)
	return w
}

// populate starts the servers of a database, creates it, and waits until it is available.
func populate(c *sim.Cluster, at port.Endpoint) {
	for n, class := range []fdb.Class{fdb.ClassStorage, fdb.ClassStorage, fdb.ClassStorage, fdb.ClassLog, fdb.ClassLog, fdb.ClassStateless, fdb.ClassStateless} {
		name := fmt.Sprintf("%s-%d", class, n+1)
		c.Start(sim.Server{
			Name: name, Folder: name, Class: class, Version: at.Version, Connection: at.Connection,
			Addresses: []fdb.Address{{Host: fmt.Sprintf("10.1.0.%d", n+1), Port: 4501}},
			Locality:  map[string]string{fdb.InstanceLocality: name, fdb.ZoneLocality: name},
		})
	}
	c.Advance(5 * time.Second)
	c.Run(sim.Run{Argv: []string{"--exec", "configure new double ssd", "--timeout", "10"}, Version: at.Version, Connection: at.Connection})
	for !c.Available() {
		c.Advance(time.Second)
	}
}

// set writes a key as somebody else.
func (w *model) set(key, value string) {
	tr := w.Transaction()
	tr.Write(fdb.Set(key, []byte(value)))
	if err := tr.Commit(); err != nil {
		panic(err)
	}
}

// keysOf are the keys below the prefix that tests use.
func keysOf(c *sim.Cluster) map[string]string {
	tr := c.Transaction()
	found, err := tr.GetRange(fdb.PrefixRange(fdb.LockPrefix), 0)
	if err != nil {
		panic(err)
	}
	keys := map[string]string{}
	for _, kv := range found {
		keys[kv.Key] = string(kv.Value)
	}
	return keys
}

// endpoint is the database of the tests.
func endpoint() port.Endpoint {
	return port.Endpoint{Connection: connection("sample:first@10.1.0.1:4501,10.1.0.2:4501,10.1.0.3:4501"), Version: fdb.Version{Major: 7, Minor: 3, Patch: 69}}
}

func connection(text string) fdb.Connection {
	c, err := fdb.ParseConnection(text)
	if err != nil {
		panic(err)
	}
	return c
}

// group are the processes of a process group, without zombies.
func group(leader int) (list []string) {
	if err := syscall.Kill(-leader, 0); errors.Is(err, syscall.ESRCH) {
		return nil
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(leader) && fields[0][0] != 'Z' && fields[0][0] != 'X' {
			list = append(list, string(data))
		}
	}
	return list
}

// zombies are the children of this process that nobody has waited for.
func zombies() (list []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) && fields[0][0] == 'Z' {
			list = append(list, string(data))
		}
	}
	return list
}

// eventually fails unless something holds soon.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * ms)
	defer tick.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func commandIn(dir, program string, argv ...string) *exec.Cmd {
	return &exec.Cmd{Path: program, Args: append([]string{program}, argv...), Dir: dir, Env: []string{"HOME=" + dir}}
}
