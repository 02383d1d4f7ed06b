package world_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

var (
	first   = fdb.Connection{Description: "sample", ID: "first", Coordinators: []fdb.Address{{Host: "10.1.0.1", Port: 4501}}}
	version = fdb.Version{Major: 7, Minor: 3, Patch: 69}
)

func server(n string) world.Server {
	return world.Server{Place: "disk-" + n, Server: sim.Server{
		Name: "storage-" + n + "/folder-" + n, Folder: "folder-" + n, Class: fdb.ClassStorage, Version: version, Connection: first,
		Addresses: []fdb.Address{{Host: "10.1.0." + n, Port: 4501}}, Locality: map[string]string{fdb.ZoneLocality: n, fdb.InstanceLocality: "storage-" + n},
	}}
}

func newWorld(t *testing.T, o world.Options) *world.World {
	w := world.New(o)
	t.Cleanup(w.Close)
	return w
}

// ask starts a program that ends with the test.
func ask(t *testing.T, w *world.World, r world.Request) *world.Peer {
	t.Helper()
	p := w.Pipe()
	t.Cleanup(func() { p.Close() })
	if err := p.Ask(r); err != nil {
		t.Fatal(err)
	}
	return p
}

func wait(t *testing.T, w *world.World, what string, holds func(*sim.Cluster) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := w.Wait(ctx, first, holds); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// run runs commands of fdbcli to their end.
func run(t *testing.T, w *world.World, from fdb.Connection, text string) (exit int, stdout, connection string) {
	t.Helper()
	p := ask(t, w, world.Request{Run: &sim.Run{Argv: []string{"--exec", text, "--timeout", "60"}, Version: version, Connection: from}})
	for {
		e, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		stdout += string(e.Stdout) + string(e.Stderr)
		if e.Ended {
			return e.Exit, stdout, e.Connection
		}
	}
}

// TestServer: a server takes part while it is connected, hears of coordinators and of its end, and keeps its folder.
func TestServer(t *testing.T) {
	w := newWorld(t, world.Options{Seed: 1, Speed: 100})
	a, b := server("1"), server("2")
	pa := ask(t, w, world.Request{Server: &a})
	pb := ask(t, w, world.Request{Server: &b})
	if e, err := pa.Next(); err != nil || e.Connection != first.String() {
		t.Fatal(e, err)
	}
	if exit, out, _ := run(t, w, first, "configure new single ssd"); exit != 0 {
		t.Fatal(out)
	}
	wait(t, w, "healthy", func(c *sim.Cluster) bool { return c.Available() && c.Unhealthy() == "" && c.Joined(b.Name) })
	if _, err := pb.Next(); err != nil {
		t.Fatal(err)
	}
	exit, out, connection := run(t, w, first, "coordinators 10.1.0.2:4501")
	if exit != 0 || !strings.HasSuffix(connection, "@10.1.0.2:4501") {
		t.Fatal(exit, out, connection)
	}
	for _, p := range []*world.Peer{pa, pb} {
		if e, err := p.Next(); err != nil || e.Connection != connection {
			t.Error(e, err)
		}
	}
	now, err := fdb.ParseConnection(connection)
	if err != nil {
		t.Fatal(err)
	}
	// Both ids name the same database.
	if _, out, _ := run(t, w, now, "coordinators"); !strings.Contains(out, "10.1.0.2:4501") {
		t.Error(out)
	}
	if _, out, _ = run(t, w, now, "kill; kill 10.1.0.1:4501; sleep 1"); !strings.Contains(out, "Attempted to kill 1 processes") {
		t.Error(out)
	}
	if e, err := pa.Next(); err != nil || !e.Ended || e.Exit != 0 {
		t.Error(e, err)
	}
	pa.Close()
	wait(t, w, "it is gone", func(c *sim.Cluster) bool { _, running := c.Running(a.Name); return !running })
	w.Do(first, func(c *sim.Cluster) {
		if c.Holds("folder-1").Shards == 0 {
			t.Error("a server that is away has lost its shards")
		}
	})
	// Another folder at the same place: what was there is lost.
	a.Name, a.Folder, a.Connection = "storage-1/folder-9", "folder-9", now
	ask(t, w, world.Request{Server: &a})
	wait(t, w, "the other folder is used", func(c *sim.Cluster) bool { return c.Joined(a.Name) })
	wait(t, w, "what only the wiped folder had is lost", func(c *sim.Cluster) bool {
		return strings.Contains(strings.Join(c.Transcript(), "\n"), "the data folder folder-1 is erased") && !c.Available()
	})
}

// TestRunKilled: a tool whose process is gone does nothing more.
func TestRunKilled(t *testing.T) {
	w := newWorld(t, world.Options{Seed: 1, Speed: 100})
	a := server("1")
	ask(t, w, world.Request{Server: &a})
	p := ask(t, w, world.Request{Run: &sim.Run{Argv: []string{"--exec", "sleep 3600; configure new single ssd"}, Version: version, Connection: first}})
	if e, err := p.Next(); err != nil || !strings.HasPrefix(string(e.Stdout), ">>> sleep 3600") {
		t.Fatal(e, err)
	}
	p.Close()
	for deadline := time.Now().Add(20 * time.Second); w.Connections() > 1; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the tool is still connected")
		}
	}
	w.Do(first, func(c *sim.Cluster) {
		c.Advance(2 * time.Hour)
		if c.Available() {
			t.Error("the killed tool has created the database")
		}
	})
}

// TestSession: a session prompts, answers line by line, and ends; --no-status leaves out how the database is.
func TestSession(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		w := newWorld(t, world.Options{Seed: 1, Virtual: true})
		w.Do(first, func(c *sim.Cluster) {
			for _, n := range []string{"1", "2"} {
				s := server(n)
				c.Start(s.Server)
			}
			c.Advance(10 * time.Second)
		})
		if exit, out, _ := run(t, w, first, "configure new single ssd"); exit != 0 {
			t.Fatal(out)
		}
		w.Do(first, func(c *sim.Cluster) { c.Advance(time.Minute) })
		p := ask(t, w, world.Request{Session: &world.Session{Version: version, Connection: first, File: "/x/fdb.cluster", NoStatus: quiet}})
		reply := func() (text string) {
			for {
				e, err := p.Next()
				if err != nil {
					t.Fatal(err)
				}
				text += string(e.Stdout) + string(e.Stderr)
				if e.Prompt || e.Ended {
					return text
				}
			}
		}
		want := "Using cluster file `/x/fdb.cluster'.\n\nWelcome to the fdbcli. For help, type `help'.\n"
		if !quiet {
			want = "Using cluster file `/x/fdb.cluster'.\n\nThe database is available.\n\nWelcome to the fdbcli. For help, type `help'.\n"
		}
		if got := reply(); got != want {
			t.Errorf("it greets with %q", got)
		}
		for _, step := range [][2]string{
			{"writemode on", ""}, {"begin", "Transaction started\n"}, {"set a 1", ""}, {"get a", "`a' is `1'\n"}, {"nonsense", "ERROR: Unknown command `nonsense'. Try `help'?\n"}, {"exit", ""},
		} {
			if err := p.Type(step[0]); err != nil {
				t.Fatal(err)
			}
			if got := reply(); got != step[1] {
				t.Errorf("%s: %q", step[0], got)
			}
		}
	}
}

// TestAgentAndWatch: an agent counts while it is connected, and the transcript tells so.
func TestAgentAndWatch(t *testing.T) {
	w := newWorld(t, world.Options{Seed: 1, Speed: 100})
	w.Do(first, func(*sim.Cluster) {})
	p := ask(t, w, world.Request{Watch: &world.Watch{Connection: first}})
	line := func() string {
		e, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Stdout)
	}
	if said := line(); said != "" {
		t.Error(said)
	}
	agent := ask(t, w, world.Request{Agent: &world.Agent{Connection: first}})
	if said := line(); !strings.Contains(said, "1 backup agents") {
		t.Error(said)
	}
	agent.Close()
	if said := line(); !strings.Contains(said, "0 backup agents") {
		t.Error(said)
	}
}

// TestForgotten: a database that a tool alone has asked for is not kept; two ids are two databases.
func TestForgotten(t *testing.T) {
	w := newWorld(t, world.Options{Seed: 1, Virtual: true})
	other := first
	other.ID = "other"
	if exit, out, _ := run(t, w, other, "status json"); exit != 0 || !strings.Contains(out, `"reachable":false`) {
		t.Error(exit, out)
	}
	w.Do(first, func(c *sim.Cluster) {
		s := server("1")
		c.Start(s.Server)
		c.Advance(time.Minute)
	})
	if _, out, _ := run(t, w, other, "status json"); !strings.Contains(out, `"reachable":false`) {
		t.Error(out)
	}
	if _, out, _ := run(t, w, first, "status json"); !strings.Contains(out, `"reachable":true`) {
		t.Error(out)
	}
	if world.SeedOf(1, first) == world.SeedOf(1, other) {
		t.Error("two databases have the same seed")
	}
}

// TestDial: a world behind a socket, and none.
func TestDial(t *testing.T) {
	w := newWorld(t, world.Options{Seed: 1, Virtual: true})
	l, err := world.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.Serve(l) }()
	p, err := world.Dial(l.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ask(world.Request{Run: &sim.Run{Argv: []string{"--version"}, Version: version}}); err != nil {
		t.Fatal(err)
	}
	if e, err := p.Next(); err != nil || !strings.Contains(string(e.Stdout), "7.3.69") {
		t.Error(e, err)
	}
	p.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := world.Dial(filepath.Join(t.TempDir(), "s"), time.Second); err == nil {
		t.Error("there is no world")
	}
}
