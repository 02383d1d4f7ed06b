package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The guard stops a writer whose agent is frozen before another one writes. When the agent thaws,
// the engine does not write again, and comes back as a follower.
func TestAFrozenAgent(t *testing.T) {
	b := newFixture(t, Options{Lease: 3 * time.Second})
	b.create("a", "b", "c")
	b.manage("strict", "a", "b", "c")
	w := b.write("a", "b", "c")
	w.more(50)
	agent := b.agentOf("a")
	b.must(agent.Signal(syscall.SIGSTOP))
	b.newWriter("a")
	if b.engineOf("a").Running() {
		t.Error("the engine of a frozen agent lives while another writes")
	}
	w.more(50)
	b.must(agent.Signal(syscall.SIGCONT))
	b.until("a", "follows", func(s port.Status) bool { return s.Streaming && s.Upstream == b.writer })
	w.check(1, "a", "b", "c")
}

// A writer that is frozen together with its guard cannot answer a commit when it thaws, because
// its readers have left it.
func TestAFrozenWriter(t *testing.T) {
	b := newFixture(t, Options{Lease: 3 * time.Second})
	b.create("a", "b", "c")
	b.manage("strict", "a", "b", "c")
	w := b.write("a", "b", "c")
	w.more(50)
	frozen := processesIn(b.folder(c1, "instances", "a"))
	for _, child := range childrenOf(b.engineOf("a").PID) {
		frozen[child] = "a backend"
	}
	if len(frozen) < 5 {
		t.Fatalf("only %v would be frozen", frozen)
	}
	for pid := range frozen {
		b.must(syscall.Kill(pid, syscall.SIGSTOP))
	}
	b.newWriter("a")
	w.more(50)
	for pid := range frozen {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	b.until("a", "follows", func(s port.Status) bool { return s.Streaming && s.Upstream == b.writer })
	w.more(50)
	w.check(1, "a", "b", "c")
}

// When the instance of the writer is removed its data stay with the volume, and the next writer
// begins with them. A volume that is kept outlives its cluster.
func TestTheWritersDataStay(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b := newFixture(t, Options{Lease: 2 * time.Second})
	b.create("a")
	b.exec("a", "CREATE TABLE kept AS SELECT 'there' AS v")
	gone := func(name string) {
		b.must(b.ports.Instances.Remove(b.ctx(), c1, name))
		eventually(t, 30*time.Second, name+" is gone", func() error {
			all, err := b.ports.Instances.List(b.ctx(), c1)
			if err == nil && len(all) > 0 {
				err = fmt.Errorf("%s", all[0].State)
			}
			return err
		})
	}
	gone("a")
	b.must(b.ports.Storage.Release(b.ctx(), c1, true))
	if v, err := b.ports.Storage.Observe(b.ctx(), c1); err != nil || v.State != "" {
		t.Errorf("a volume that was given up: %+v, %v", v, err)
	}
	b.create("b")
	if got, err := b.query("b", "SELECT v FROM kept"); err != nil || got != "there" {
		t.Errorf("the row is %q, %v", got, err)
	}
	gone("b")
	b.must(b.ports.Storage.Release(b.ctx(), c1, false))
	if exists(b.folder(c1)) {
		t.Error("the folder of a deleted cluster is there")
	}
}

// An install that was interrupted continues when the agent comes back.
func TestAnInstallThatWasCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b := newFixture(t, Options{OneAddress: true}) // this fixture also covers ports instead of addresses
	b.create("a")
	b.exec("a", "CREATE TABLE big AS SELECT n, repeat('x', 500) FROM generate_series(1, 100000) n")
	b.instance("b", port.Reader)
	b.must(b.ports.Engine.Install(b.ctx(), c1.Of("b"), port.Source{From: "a"}, "install"))
	eventually(t, 20*time.Second, "the copy has begun", func() error {
		_, err := os.Stat(b.folder(c1, "instances", "b", "data.new"))
		return err
	})
	b.power("b")
	if exists(b.folder(c1, "instances", "b", "data")) {
		t.Skip("the copy was faster than the kill")
	}
	b.instance("b", port.Reader)
	b.until("b", "is installed", func(s port.Status) bool { return s.Installed })
	b.must(b.ports.Engine.Start(b.ctx(), c1.Of("b")))
	b.until("b", "streams", func(s port.Status) bool { return s.Streaming })
	if got, err := b.query("b", "SELECT count(*)::text FROM big"); err != nil || got != "100000" {
		t.Errorf("%s rows, %v", got, err)
	}
}

// A follower is copied again when the writer does not keep its log any more.
func TestAFollowerLeftBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b := newFixture(t, Options{})
	b.create("a", "b")
	_, err := b.ports.Engine.Apply(b.ctx(), c1.Of("a"), map[string]string{"wal_keep_size": "0", "max_slot_wal_keep_size": "48MB", "max_wal_size": "32MB", "min_wal_size": "32MB"})
	b.must(err)
	b.must(b.ports.Engine.Stop(b.ctx(), c1.Of("b"), port.Fast))
	b.until("b", "is stopped", func(s port.Status) bool { return !s.Running })
	b.exec("a", "CREATE TABLE big AS SELECT n, repeat('x', 1000) FROM generate_series(1, 120000) n; CHECKPOINT; SELECT pg_switch_wal(); CHECKPOINT")
	b.must(b.ports.Engine.Start(b.ctx(), c1.Of("b")))
	eventually(t, time.Minute, "the rows", func() error {
		got, err := b.query("b", "SELECT count(*)::text FROM big")
		if err == nil && got != "120000" {
			err = errors.New(got)
		}
		return err
	})
	b.until("b", "streams", func(s port.Status) bool { return s.Streaming })
	if log, err := os.ReadFile(b.folder(c1, "instances", "b", "agent.log")); err != nil || !strings.Contains(string(log), "copied again") {
		t.Errorf("it was not copied again, or does not say so: %v", err)
	}
}

// A version selects a folder: the newest version that begins with it.
func TestVersions(t *testing.T) {
	s := &Placement{o: Options{Versions: map[string]string{"15.9": "/a", "15.18": "/b", "16.1": "/c"}}}
	for want, dir := range map[string]string{"": "/c", "15": "/b", "15.9": "/a", "16.1": "/c"} {
		if _, got, err := s.binaries(want); err != nil || got != dir {
			t.Errorf("%q is in %s, %v; want %s", want, got, err, dir)
		}
	}
	for _, want := range []string{"14", "15.1", "15.180"} {
		if _, got, err := s.binaries(want); !errors.Is(err, port.VersionUnsupported) {
			t.Errorf("%q is in %s, %v", want, got, err)
		}
	}
}

// An instance gets a node with the labels of its selector, and among those the one with the fewest
// instances.
func TestChooseNode(t *testing.T) {
	nodes := []port.Node{
		{Name: "a", Ready: true, Schedulable: true, Labels: map[string]string{"disk": "ssd"}},
		{Name: "b", Ready: true, Schedulable: true, Labels: map[string]string{"disk": "ssd"}},
		{Name: "c", Ready: true, Schedulable: true},
		{Name: "d", Ready: false, Schedulable: true},
		{Name: "e", Ready: true},
	}
	ssd := port.Instance{NodeSelector: map[string]string{"disk": "ssd"}}
	for _, c := range []struct {
		name string
		want port.Instance
		load map[string]int
		node string
		err  error
	}{
		{"the first", port.Instance{}, nil, "a", nil},
		{"the fewest", port.Instance{}, map[string]int{"a": 1, "b": 1}, "c", nil},
		{"by labels", ssd, map[string]int{"a": 2, "b": 1}, "b", nil},
		{"named", port.Instance{Node: "c"}, map[string]int{"c": 9}, "c", nil},
		{"named, not ready", port.Instance{Node: "d"}, nil, "", port.TargetNodeUnavailable},
		{"named, not schedulable", port.Instance{Node: "e"}, nil, "", port.TargetNodeUnavailable},
		{"nowhere", port.Instance{NodeSelector: map[string]string{"disk": "tape"}}, nil, "", port.NoAvailableNode},
	} {
		if got, err := choose(c.want, nodes, c.load); got != c.node || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.node, c.err)
		}
	}
}

// An engine that does not start reports why, and is tried again.
func TestAnEngineThatDoesNotStart(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a")
	b.must(b.ports.Engine.Stop(b.ctx(), c1.Of("a"), port.Fast))
	b.until("a", "is stopped", func(s port.Status) bool { return !s.Running })
	file := b.folder(c1, "instances", "a", "data", "global", "pg_control")
	b.must(os.Rename(file, file+".away"))
	b.must(b.ports.Engine.Start(b.ctx(), c1.Of("a")))
	s := b.until("a", "fails", func(s port.Status) bool { return s.Code != "" && !s.Running })
	if s.Code != string(port.StartFailed.Code) || !strings.Contains(s.Message, "pg_control") {
		t.Errorf("it says %s: %s", s.Code, s.Message)
	}
	b.must(os.Rename(file+".away", file))
	b.until("a", "writes", func(s port.Status) bool { return s.Ready && s.Role == port.Primary && s.Code == "" })
}

// Agents that knew the old manager obey a manager that was removed and created again.
func TestAManagerMadeAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b := newFixture(t, Options{Lease: 3 * time.Second})
	b.create("a", "b", "c")
	b.manage("strict", "a", "b", "c")
	b.must(b.ports.Manager.Remove(b.ctx(), c1, "c"))
	b.must(b.ports.Manager.Add(b.ctx(), c1, port.Member{Name: "c", ID: "c"}))
	_, err := b.ports.Manager.Ensure(b.ctx(), c1, port.ManagerSpec{})
	b.must(err)
	b.manage("strict", "a", "b")
	if s := b.watchState(); len(s.Sync.Want) != 1 || s.Sync.Want[0] != "b" {
		t.Errorf("the list is %v", s.Sync.Want)
	}
	b.power("a")
	b.newWriter("a")
}
