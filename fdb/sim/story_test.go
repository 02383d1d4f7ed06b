package sim_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// TestStory: a short life that a person can read. Update it with UPDATE=1.
func TestStory(t *testing.T) {
	f := newFixture(t, shape{options: sim.Options{Seed: 7}, storage: 4, log: 3, stateless: 3})
	var told strings.Builder
	shown := 0
	tell := func(title string) {
		fmt.Fprintf(&told, "## %s\n\n", title)
		lines := f.Transcript()
		for _, line := range lines[shown:] {
			told.WriteString(line + "\n")
		}
		shown = len(lines)
		told.WriteString("\n")
	}
	run := func(text string) {
		a := f.cli(text, 10*time.Minute)
		fmt.Fprintf(&told, "$ fdbcli --exec '%s'\n", text)
		for line := range strings.Lines(a.Stdout) {
			told.WriteString("  " + line)
		}
		for line := range strings.Lines(a.Stderr) {
			told.WriteString("! " + line)
		}
		fmt.Fprintf(&told, "exit %d after %s\n\n", a.Exit, a.Took.Round(100*time.Millisecond))
	}
	tell("Ten servers start")
	run("configure new double ssd")
	f.settle()
	tell("The database is made")
	f.Crash("storage-2")
	f.Advance(time.Minute)
	tell("A storage server crashes: nothing but that happens")
	f.Crash("stateless-1")
	f.Advance(time.Minute)
	tell("A stateless server crashes: a recovery")
	run("exclude no_wait locality_instance_id:storage-1")
	f.Advance(2 * time.Second)
	run("coordinators 10.1.0.3:4501 10.1.0.4:4501 10.1.0.5:4501")
	run("exclude locality_instance_id:storage-1")
	tell("A storage server that is a coordinator is excluded")
	f.By("operator", func() {
		f.Stop("storage-1")
		f.Erase("storage-1")
	})
	f.Advance(11 * time.Minute)
	run("include locality_instance_id:storage-1")
	tell("It is removed and included")
	run("configure ssd-rocksdb-v1")
	run("configure storage_migration_type=aggressive ssd-rocksdb-v1 perpetual_storage_wiggle=1")
	f.settle()
	f.Advance(time.Hour)
	tell("Another storage engine")
	f.Cut("log-1", true)
	f.Cut("log-2", true)
	f.Advance(time.Minute)
	tell("Two of three logs are cut off: the recovery waits")
	f.Cut("log-1", false)
	f.settle()
	tell("One of them comes back")
	for _, v := range f.Violations() {
		t.Log(v)
	}

	const file = "testdata/story.md"
	text := "# A short life of a simulated database\n\n" + told.String()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), text); diff != "" {
		t.Error(diff)
	}
}

// upgrade prepares all servers for another version.
func (f *fixture) upgrade(to string) (addresses []string) {
	f.version = version(to)
	for _, p := range f.status().Cluster.Processes {
		name := p.Locality[fdb.InstanceLocality]
		f.Prepare(sim.Server{
			Name: name, Folder: name, Class: p.Class, Version: f.version, Addresses: p.Addresses()[:1],
			Locality: p.Locality, Connection: f.first,
		})
		addresses = append(addresses, p.Address.WithoutFlags())
	}
	slices.Sort(addresses)
	return addresses
}

// TestUpgrade: all servers restart at once with another protocol; one that does not is left out, and shown
// as incompatible.
func TestUpgrade(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.Advance(20 * time.Minute)
	f.Connect(sim.Client{Address: "10.9.0.1:5000", LogGroup: "app", Versions: []fdb.Version{version("7.3.69"), version("7.4.6")}, Writes: time.Second})
	old := f.Protocol()
	addresses := f.upgrade("7.4.6")
	kill := "kill " + strings.Join(addresses[:len(addresses)-1], " ")
	a := f.Run(sim.Run{Argv: []string{"--exec", "kill; " + kill + "; sleep 1; " + kill + "; sleep 5", "--timeout", "40"}, Version: old, Connection: f.first})
	if result := fdb.Judge(fdb.Kill(addresses[:len(addresses)-1], true), old, a.Exit, a.Stdout, a.Stderr); result.Outcome != fdb.Unknown {
		t.Error(result, a)
	}
	f.Advance(time.Minute)
	s := f.status()
	if !f.Available() || f.Protocol() != version("7.4.6") || len(s.Cluster.Processes) != len(addresses)-1 {
		t.Fatalf("%s\n%d processes", f.lines(), len(s.Cluster.Processes))
	}
	if want := addresses[len(addresses)-1]; !slices.Equal(s.Cluster.IncompatibleConnections, []string{want}) {
		t.Errorf("incompatible %v, want %s", s.Cluster.IncompatibleConnections, want)
	}
	if seen, _ := fdb.ParseStatus(f.Status(f.Connection(), old)); *seen.Client.Coordinators.QuorumReachable {
		t.Error("the old tools still reach a quorum")
	}
	if w := f.Written("10.9.0.1:5000"); len(w.Missing) > 0 || w.Gap > 20*time.Second || w.Acknowledged < 50 {
		t.Errorf("%d acknowledged, %d missing, gap %s", w.Acknowledged, len(w.Missing), w.Gap)
	}
	f.settle()
	f.clean()
}

// TestNewAddress: a server that comes back with another address keeps its shards; a coordinator does not
// keep its place, unless it has a name.
func TestNewAddress(t *testing.T) {
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprint(named), func(t *testing.T) {
			f := newFixture(t, shape{options: sim.Options{Seed: 1}})
			var servers []sim.Server
			first := fdb.Connection{Description: "sample", ID: "first"}
			for n := range 6 {
				server := f.server([]fdb.Class{fdb.ClassStorage, fdb.ClassLog}[n%2], n+1)
				name := server.Name + ".sample.svc"
				if named {
					server.Locality[fdb.DNSNameLocality] = name
				}
				if n < 3 {
					at := server.Addresses[0]
					if named {
						at.Host = name
					}
					first.Coordinators = append(first.Coordinators, at)
				}
				servers = append(servers, server)
			}
			f.first = first
			for i := range servers {
				servers[i].Connection = first
				f.Start(servers[i])
			}
			f.Advance(5 * time.Second)
			f.do("configure new double ssd")
			f.settle()
			before := f.Holds(servers[0].Folder)
			for i := range servers {
				f.Stop(servers[i].Name)
			}
			f.Advance(time.Minute)
			for i := range servers {
				servers[i].Addresses = []fdb.Address{{Host: fmt.Sprintf("10.3.0.%d", i+1), Port: 4501}}
				f.Start(servers[i])
			}
			f.Advance(2 * time.Minute)
			if f.Available() != named {
				t.Fatalf("available: %t\n%s", f.Available(), f.lines())
			}
			if now := f.Holds(servers[0].Folder); now.Shards != before.Shards || now.Shards == 0 {
				t.Errorf("%d shards, before %d", now.Shards, before.Shards)
			}
			if named {
				s := f.status()
				if p := s.Cluster.Processes[0].Address.Host; !strings.HasPrefix(p, "10.3.") {
					t.Error(p)
				}
			}
		})
	}
}

// TestLostFolder: a server without its folder has lost its shards, and the database makes new copies, once it has noticed.
func TestLostFolder(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.Stop("storage-5")
	f.Erase("storage-5")
	for after, want := range []int{2, 1} { // the status does not know of it for a minute
		f.Advance(35 * time.Second)
		if got := *f.status().Cluster.Data.State.MinReplicasRemaining; got != want {
			t.Errorf("%d replicas remain, look %d", got, after)
		}
	}
	f.settle()
	if v := fdb.FullFaultTolerance(f.status()); !v.Open {
		t.Error(v)
	}
	f.clean()
}

// TestReactionTime: data move away from a silent server after a minute, and not at all while its zone is
// under maintenance.
func TestReactionTime(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.Stop("storage-4")
	f.Advance(55 * time.Second)
	if f.Moving() != 0 {
		t.Error("moves before a minute is over")
	}
	f.Advance(10 * time.Second)
	if f.Moving() == 0 {
		t.Error("does not move after a minute")
	}
	f.settle()
	f.do("maintenance on node-storage-5 600")
	f.Stop("storage-5")
	f.Advance(9 * time.Minute)
	if f.Holds("storage-5").Shards == 0 || f.Moving() != 0 {
		t.Error("moves in spite of the maintenance")
	}
	if got := *f.status().Cluster.Data.State.MinReplicasRemaining; got != 2 {
		t.Errorf("%d replicas remain under maintenance", got)
	}
	f.Advance(3 * time.Minute)
	if f.Holds("storage-5").Shards != 0 {
		t.Error("does not move after the maintenance")
	}
	f.clean()
}
