// Package program is the programs of FoundationDB, played for a simulated database.
//
//	fdbsim install ─▶ a folder a version: fdbserver, fdbcli, … are one file with several names
//	argv[0] ─▶ Main ─┬─ fdbserver, fdbcli, fdbbackup, fdbrestore, backup_agent ─▶ FDBSIM_WORLD (package world)
//	                 ├─ fdbmonitor, fdb-kubernetes-monitor ─▶ start fdbserver
//	                 └─ sidecar ─▶ HTTP
//
// Each reads the files, takes the arguments, prints the texts and ends with the exit codes of the program whose name
// it has, in the version it was installed as; what it refuses, the real one refuses. Where that was read stands in
// fdb/sim/testdata/SOURCES.md. Without a world a server reaches no coordinators, and a tool says so.
//
// Paths are those of FoundationDB's images: /usr/bin is the folder of the program itself, and other absolute paths
// are below CONTAINER_ROOT where that is set.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// Process is what a program is given when it starts.
type Process struct {
	Args           []string // the first names the program
	Environ        []string // name=value
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Terminal       bool        // Stdin is a terminal
	Version        fdb.Version // of the program
	Folder         string      // where the programs of its image are: /usr/bin
	// World reaches the world; nil: the one that FDBSIM_WORLD names.
	World func() (*world.Peer, error)
	// Signals delivers the signals that the programs hear; nil: those of this process.
	Signals chan os.Signal
}

// This returns the process of the operating system.
func This() *Process {
	p := &Process{
		Args: os.Args, Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Terminal: isTerminal(os.Stdin),
	}
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		p.Folder = filepath.Dir(self)
		p.Version = versionOf(self)
	}
	if text := p.env("FDBSIM_VERSION"); p.Version == (fdb.Version{}) && text != "" {
		if v, err := fdb.ParseVersion(text); err == nil {
			p.Version = v
		}
	}
	if p.Version == (fdb.Version{}) {
		p.Version = defaultVersion
	}
	return p
}

// defaultVersion is that of a program that was not installed.
var defaultVersion = fdb.Version{Major: 7, Minor: 3, Patch: 69}

// programs are the programs by their names.
var programs = map[string]func(*Process, context.Context) int{
	"world":                  (*Process).world,
	"install":                (*Process).install,
	"fdbserver":              (*Process).fdbserver,
	"fdbmonitor":             (*Process).fdbmonitor,
	"fdb-kubernetes-monitor": (*Process).launcher,
	"sidecar":                (*Process).sidecar,
	"fdbcli":                 (*Process).fdbcli,
	"fdbbackup":              (*Process).fdbbackup,
	"fdbrestore":             (*Process).fdbrestore,
	"backup_agent":           (*Process).backupAgent,
}

// Names are the programs that an image has.
var Names = []string{"fdbserver", "fdbmonitor", "fdb-kubernetes-monitor", "sidecar", "fdbcli", "fdbbackup", "fdbrestore", "backup_agent"}

// Is tells whether a name, or the path of a file, is one of the programs.
func Is(name string) bool {
	_, known := programs[programName(name)]
	return known
}

func programName(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".py"), ".bash")
}

// Main runs a program until it ends by itself or the context ends, and returns its exit code. The name is that of
// Args[0], or else Args[1].
func Main(ctx context.Context, p *Process) int {
	if len(p.Args) > 0 {
		if run := programs[programName(p.Args[0])]; run != nil {
			return run(p, ctx)
		}
	}
	if len(p.Args) > 1 {
		if run := programs[p.Args[1]]; run != nil {
			inner := *p
			inner.Args = p.Args[1:]
			return run(&inner, ctx)
		}
	}
	p.errorf("usage: fdbsim PROGRAM [ARGUMENTS]\n\n"+
		"  world --socket PATH [--seed N] [--speed X]   serve simulated databases\n"+
		"  install --version V --folder DIR             put the programs of a version into a folder\n"+
		"  %s\n", strings.Join(Names, " | "))
	return 2
}

func (p *Process) printf(format string, args ...any) { fmt.Fprintf(p.Stdout, format, args...) }
func (p *Process) errorf(format string, args ...any) { fmt.Fprintf(p.Stderr, format, args...) }

// env returns a variable of the environment.
func (p *Process) env(name string) string {
	value, _ := p.lookup(name)
	return value
}

func (p *Process) lookup(name string) (string, bool) {
	for i := len(p.Environ) - 1; i >= 0; i-- {
		if value, is := strings.CutPrefix(p.Environ[i], name+"="); is {
			return value, true
		}
	}
	return "", false
}

// signals delivers some signals until stop is called.
func (p *Process) signals(list ...os.Signal) (c <-chan os.Signal, stop func()) {
	if p.Signals != nil {
		return p.Signals, func() {}
	}
	heard := make(chan os.Signal, 8)
	signal.Notify(heard, list...)
	return heard, func() { signal.Stop(heard) }
}

// The folders of FoundationDB's images (packaging/docker/Dockerfile at 7.3.69).
const (
	binaries   = "/usr/bin/"
	libraries  = "/usr/lib/fdb/multiversion/"
	libraries2 = "/var/fdb/lib/"
	versionAt  = "/var/fdb/version"
)

// path is where a file of the container is on this machine.
func (p *Process) path(name string) string {
	for _, from := range []string{binaries, libraries, libraries2, versionAt[:len(versionAt)-len("version")]} {
		if rest, is := strings.CutPrefix(name, from); is && rest != "" && !strings.Contains(rest, "/") && p.Folder != "" {
			if here := filepath.Join(p.Folder, rest); exists(here) {
				return here
			}
		}
	}
	root := p.env("CONTAINER_ROOT")
	if root == "" || !filepath.IsAbs(name) || name == root || strings.HasPrefix(name, root+"/") {
		return name
	}
	return filepath.Join(root, name)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// dial reaches the world; nil: there is none.
func (p *Process) dial() *world.Peer {
	if p.World != nil {
		if peer, err := p.World(); err == nil {
			return peer
		}
		return nil
	}
	address := p.env(world.AddressVariable)
	if address == "" {
		return nil
	}
	peer, err := world.Dial(address, 5*time.Second)
	if err != nil {
		return nil
	}
	return peer
}

// reach reaches the world, or else an empty one in which no coordinator answers; done ends it.
func (p *Process) reach() (peer *world.Peer, done func()) {
	if peer := p.dial(); peer != nil {
		return peer, func() { peer.Close() }
	}
	empty := world.New(world.Options{Model: sim.Options{}})
	peer = empty.Pipe()
	return peer, func() {
		peer.Close()
		empty.Close()
	}
}

// world runs the world.
func (p *Process) world(ctx context.Context) int {
	flags := p.flagSet("world")
	socket := flags.String("socket", p.env(world.AddressVariable), "the path of a Unix socket, or host:port")
	seed := flags.Uint64("seed", 1, "everything random comes from it")
	speed := flags.Float64("speed", 1, "how much faster than real time passes")
	if flags.Parse(p.Args[1:]) != nil {
		return 2
	}
	if *socket == "" {
		p.errorf("fdbsim world: --socket is missing: where programs find it, as %s says to them\n", world.AddressVariable)
		return 2
	}
	listener, err := world.Listen(*socket)
	if err != nil {
		p.errorf("fdbsim world: %v\n", err)
		return 1
	}
	w := world.New(world.Options{Seed: *seed, Speed: *speed})
	defer w.Close()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	p.printf("%s=%s\n", world.AddressVariable, listener.Addr())
	if err := w.Serve(listener); err != nil {
		p.errorf("fdbsim world: %v\n", err)
		return 1
	}
	return 0
}
