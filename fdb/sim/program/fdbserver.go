package program

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// The exit codes of fdbserver. Source: flow/include/flow/Platform.h at 7.3.69.
const (
	exitSuccess   = 0
	exitError     = 1
	exitMainError = 10
)

// fdbserver is a server of a simulated database, until it is killed there or here. Source:
// fdbserver/fdbserver.actor.cpp at 7.1.67, 7.3.69 and 7.4.6, parseArgsInternal and main.
func (p *Process) fdbserver(ctx context.Context) int {
	o, exit := p.serverOptions()
	if o == nil {
		return exit
	}
	file, exit := o.clusterFile()
	if file == nil {
		return exit
	}
	if exit := o.buildAddresses(file.connection); exit >= 0 {
		return exit
	}
	folder, failed := o.openFolder()
	if failed != nil {
		p.errorf("Error: %s\n", failed.text)
		return exitMainError
	}
	defer folder.close()
	s := world.Server{Place: folder.place(), Server: sim.Server{
		Name: o.name(folder.id), Folder: folder.id, Addresses: o.addresses, Class: o.class, Version: p.Version, Locality: o.locality,
		CommandLine: strings.Join(p.Args, " "),
	}}
	return p.serve(ctx, s, file)
}

// redial is how long a server waits before it looks for the world again.
const redial = 500 * time.Millisecond

// serve takes part in the world until the server is killed.
func (p *Process) serve(ctx context.Context, s world.Server, file *clusterFile) int {
	for ctx.Err() == nil {
		peer := p.dial()
		if peer == nil {
			select {
			case <-ctx.Done():
			case <-time.After(redial):
			}
			continue
		}
		stop := context.AfterFunc(ctx, func() { peer.Close() })
		exit, killed := p.take(peer, s, file)
		stop()
		peer.Close()
		if killed {
			return exit
		}
	}
	return exitSuccess
}

// take takes part until the world has gone, or the server is killed.
func (p *Process) take(peer *world.Peer, s world.Server, file *clusterFile) (exit int, killed bool) {
	joined := false
	s.Connection = file.connection
	if peer.Ask(world.Request{Server: &s}) != nil {
		return 0, false
	}
	for {
		e, err := peer.Next()
		if err != nil {
			return 0, false
		}
		if e.Ended {
			return e.Exit, true
		}
		if c, err := fdb.ParseConnection(e.Connection); err == nil {
			if !joined {
				joined = true
				p.printf("FDBD joined cluster.\n")
			}
			if c.String() != file.connection.String() || !exists(file.path) {
				file.connection = c
				file.write(e.Connection)
			}
		}
	}
}

// name is what the transcript calls the server.
func (o *serverOptions) name(folder string) string {
	for _, key := range []string{"process_id", fdb.InstanceLocality} {
		if id := o.locality[key]; id != "" {
			return id + "/" + folder[:8]
		}
	}
	return "fdbserver/" + folder[:8]
}

// dataFolder is where a server keeps what it has: the file processId names the folder in the model, so a server that
// finds it has its shards again, and one that does not has lost them. The file is locked while the server runs
// (fdbserver/worker.actor.cpp at 7.3.69, createAndLockProcessIdFile).
type dataFolder struct {
	path, id string
	lock     *os.File
}

func (o *serverOptions) openFolder() (*dataFolder, *fdbError) {
	name := o.dataDir
	if name == "" {
		name = fmt.Sprintf("fdb/%d/", o.addresses[0].Port)
	}
	d := &dataFolder{path: o.p.path(name)}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return nil, &errIO
	}
	lock, err := os.OpenFile(filepath.Join(d.path, "processId"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &errIO
	}
	d.lock = lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, &errLock
	}
	text := make([]byte, 2*16)
	if n, _ := lock.ReadAt(text, 0); n < len(text) {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // it never fails
		text = []byte(hex.EncodeToString(id))
		if _, err := lock.WriteAt([]byte(string(text)+"\n"), 0); err != nil {
			lock.Close()
			return nil, &errIO
		}
	}
	d.id = string(text)
	return d, nil
}

func (d *dataFolder) close() { d.lock.Close() }

// place names where the folder is: its path below the device and the number of the folder above it, since containers
// may have other folders at the same path.
func (d *dataFolder) place() string {
	path, err := filepath.EvalSymlinks(d.path)
	if err != nil {
		return ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return ""
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return ""
	}
	if above, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d:%s", above.Dev, above.Ino, path)
	}
	return ""
}

// parseServerAddress reads an address as NetworkAddress::parse does: an IP with a port, and :tls.
func parseServerAddress(text string) (fdb.Address, bool) {
	a, err := fdb.ParseAddress(text)
	if err != nil || a.Port == 0 || a.FromHostname || net.ParseIP(a.Host) == nil {
		return fdb.Address{}, false
	}
	return a, true
}
