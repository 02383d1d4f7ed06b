package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// step is one thing that happens in a random life, as a text that repeats it.
type step struct {
	kind   string
	target int
	number int
}

// kinds are what can happen. Those behind the bar lose data if they come in the wrong order.
var kinds = []string{
	"advance", "advance", "advance", "crash", "cut", "heal", "stop", "come back", "new address", "add", "exclude", "include",
	"kill", "configure", "coordinators", "maintenance", "upgrade", "fault", "clear", "status", "transaction", "lag", "report",
	"backup", "restore", "erase",
}

func drawSteps(t *rapid.T, from []string) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind:   rapid.SampledFrom(from).Draw(t, "kind"),
			target: rapid.IntRange(0, 15).Draw(t, "target"),
			number: rapid.IntRange(0, 7).Draw(t, "number"),
		}
	}), 1, 40).Draw(t, "steps")
}

// life is a random life of a database.
type life struct {
	*fixture
	servers []sim.Server
	stopped map[string]sim.Server
}

func newLife(t testing.TB, seed uint64) *life {
	f := newFixture(t, shape{options: sim.Options{Seed: seed, Shards: 12}, storage: 5, log: 4, stateless: 4, zones: 5})
	f.do("configure new double ssd")
	f.settle()
	f.Connect(sim.Client{Address: "10.9.0.1:5000", LogGroup: "app", Versions: []fdb.Version{version("7.3.69"), version("7.4.6")}, Writes: 30 * time.Second})
	l := &life{fixture: f, stopped: map[string]sim.Server{}}
	for _, p := range f.status().Cluster.Processes {
		name := p.Locality[fdb.InstanceLocality]
		l.servers = append(l.servers, sim.Server{
			Name: name, Folder: name, Class: p.Class, Version: f.version, Addresses: []fdb.Address{p.Address}, Locality: p.Locality, Connection: f.first,
		})
	}
	slices.SortFunc(l.servers, func(a, b sim.Server) int { return strings.Compare(a.Name, b.Name) })
	return l
}

var commands = []string{
	"exclude no_wait", "exclude", "include", "configure triple", "configure double", "configure logs=4", "configure single usable_regions=2",
	"configure ssd-redwood-1 storage_migration_type=aggressive",
}

func (l *life) take(s step) {
	server := &l.servers[s.target%len(l.servers)]
	name := server.Name
	run := func(text string) {
		l.Run(sim.Run{Argv: []string{"--exec", text, "--timeout", "30"}, Version: l.Protocol(), Connection: l.Connection()})
	}
	switch s.kind {
	case "advance":
		l.Advance([]time.Duration{time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}[s.number])
	case "crash":
		l.Crash(name)
	case "cut":
		l.Cut(name, true)
	case "heal":
		for _, other := range l.servers {
			l.Cut(other.Name, false)
		}
	case "stop":
		l.Stop(name)
	case "come back":
		l.Start(*server)
	case "new address":
		l.next++
		server.Addresses = []fdb.Address{{Host: fmt.Sprintf("10.2.0.%d", l.next), Port: 4501}}
		l.Start(*server)
	case "add":
		l.servers = append(l.servers, l.add([]fdb.Class{fdb.ClassStorage, fdb.ClassLog, fdb.ClassStateless, fdb.ClassCoordinator}[s.number%4], 100+l.next))
	case "exclude":
		run("exclude " + []string{"", "no_wait "}[s.number%2] + []string{"locality_instance_id:" + name, server.Addresses[0].Host, server.Addresses[0].WithoutFlags()}[s.number%3])
	case "include":
		run("include " + []string{"all", "locality_instance_id:" + name, server.Addresses[0].Host}[s.number%3])
	case "kill":
		run("kill; kill " + server.Addresses[0].WithoutFlags() + "; sleep 5")
	case "configure":
		run(commands[s.number])
	case "coordinators":
		var to []string
		for i := range 3 {
			to = append(to, l.servers[(s.target+i)%len(l.servers)].Addresses[0].String())
		}
		run("coordinators " + strings.Join(to, " "))
	case "maintenance":
		run([]string{"maintenance off", "maintenance on zone-1 600"}[s.number%2])
	case "upgrade":
		server.Version = version([]string{"7.3.69", "7.4.6"}[s.number%2])
		l.Prepare(*server)
	case "fault":
		faults := []sim.Fault{
			{Kind: sim.FaultStatusPartial}, {Kind: sim.FaultStatusDoubled}, {Kind: sim.FaultTimedOut, Before: true}, {Kind: sim.FaultReplyLost},
			{Kind: sim.FaultStuckMovement, For: time.Hour}, {Kind: sim.FaultPartition, Address: server.Addresses[0], For: time.Minute},
			{Kind: sim.FaultSecondRecovery}, {Kind: sim.FaultStatusStale, For: time.Minute},
		}
		l.Inject(faults[s.number])
	case "clear":
		l.Clear("")
	case "transaction":
		t := l.Transaction()
		if _, _, err := t.Get("key"); err == nil {
			t.Write(fdb.Set("key", []byte(name)))
			_ = t.Commit()
		}
	case "lag":
		l.SetLoad(sim.Load{DataLag: time.Duration(s.number) * time.Minute})
	case "report":
		l.Report(name, "io_error")
	case "erase":
		l.Stop(name)
		l.Erase(name)
	}
	if _, err := fdb.ParseStatus(l.Status(l.Connection(), l.Protocol())); err != nil {
		l.t.Fatalf("after %v: %v", s, err)
	}
}

// TestLives: no panic, every document can be read, and no data are lost while no data folder is erased.
func TestLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rapid.Uint64().Draw(rt, "seed"))
		erased := false
		for _, s := range drawSteps(rt, kinds) {
			l.take(s)
			erased = erased || s.kind == "erase"
		}
		for _, v := range l.Violations() {
			if !erased {
				rt.Fatalf("%s\n%s", v, l.lines())
			}
		}
		if w := l.Written("10.9.0.1:5000"); !erased && len(w.Missing) > 0 {
			rt.Fatalf("%d acknowledged keys are missing\n%s", len(w.Missing), l.lines())
		}
	})
}

// TestRecovers: when everything is back and included, the database becomes healthy.
func TestRecovers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rapid.Uint64().Draw(rt, "seed"))
		for _, s := range drawSteps(rt, kinds[:len(kinds)-1]) {
			l.take(s)
		}
		l.Clear("")
		for i := range l.servers {
			l.Cut(l.servers[i].Name, false)
			l.servers[i].Version = version("7.3.69")
			l.servers[i].Addresses = l.servers[i].Addresses[:1]
			l.Start(l.servers[i])
		}
		for range 20 {
			l.Advance(time.Minute)
			l.Run(sim.Run{Argv: []string{"--exec", "include all", "--timeout", "30"}, Version: l.Protocol(), Connection: l.Connection()})
			if l.Available() {
				break
			}
		}
		if moved := slices.ContainsFunc(l.Connection().Coordinators, func(a fdb.Address) bool {
			return !slices.ContainsFunc(l.servers, func(s sim.Server) bool { return slices.Contains(s.Addresses, a) })
		}); moved {
			return // a coordinator has another address: that needs a person
		}
		l.Advance(2 * time.Hour)
		if why := l.Unhealthy(); why != "" {
			rt.Fatalf("%s\n%s", why, l.lines())
		}
	})
}

// TestSameSeed: a life with the same seed has the same transcript.
func TestSameSeed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed, steps := rapid.Uint64().Draw(rt, "seed"), drawSteps(rt, kinds)
		var lines [2]string
		for i := range lines {
			l := newLife(t, seed)
			for _, s := range steps {
				l.take(s)
			}
			lines[i] = l.lines() + string(l.Status(l.Connection(), l.Protocol()))
		}
		if diff := cmp.Diff(lines[0], lines[1]); diff != "" {
			rt.Fatal(diff)
		}
	})
}
