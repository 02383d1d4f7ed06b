package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// TestAddresses: IPv6, TLS beside plain text, two servers of a pod on one IP.
func TestAddresses(t *testing.T) {
	f := newFixture(t, shape{options: sim.Options{Seed: 1}})
	var servers []sim.Server
	for pod := range 4 {
		for n := 1; n <= 2; n++ {
			server := f.server([]fdb.Class{fdb.ClassStorage, fdb.ClassStorage, fdb.ClassLog, fdb.ClassLog}[pod], pod*2+n)
			server.Addresses = fdb.AddressesOf(fmt.Sprintf("fd00::%d", pod+1), fdb.Required{TLS: true, NonTLS: true}, n)
			server.Locality["process_id"] = fmt.Sprintf("pod-%d-%d", pod, n)
			server.Locality[fdb.InstanceLocality] = fmt.Sprintf("pod-%d", pod)
			server.Locality[fdb.ZoneLocality] = fmt.Sprintf("node-%d", pod)
			servers = append(servers, server)
		}
		f.first.Coordinators = append(f.first.Coordinators, servers[pod*2].Addresses[0])
	}
	for _, server := range servers {
		server.Connection = f.first
		f.Start(server)
	}
	f.Advance(5 * time.Second)
	f.do("configure new double ssd")
	f.settle()
	s := f.status()
	if len(s.Cluster.Processes) != 8 {
		t.Fatalf("%d processes\n%s", len(s.Cluster.Processes), f.lines())
	}
	for _, p := range s.Cluster.Processes {
		if !p.Address.TLS || len(p.Addresses()) != 2 || !strings.HasPrefix(p.Locality["process_id"], "pod-") {
			t.Errorf("%+v", p)
		}
	}
	for _, tt := range []struct {
		target string
		lines  []string
		count  int // of processes that are excluded
	}{
		{"fd00::1", []string{"  fd00::1(Whole machine)  ---- "}, 2},
		{"[fd00::1]:4503", []string{"  [fd00::1]:4503  ---- "}, 1},
		{"[fd00::1]:4502", []string{"  [fd00::1]:4502  ---- WARNING: Missing from cluster!"}, 1}, // its second server's address with TLS
		{"locality_instance_id:pod-2", []string{"  [fd00::3]:4500  ---- ", "  [fd00::3]:4501  ---- ", "  [fd00::3]:4502  ---- ", "  [fd00::3]:4503  ---- "}, 2},
	} {
		a := f.do("exclude no_wait " + tt.target)
		for _, line := range tt.lines {
			if !strings.Contains(a.Stdout+a.Stderr, strings.TrimSuffix(line, "WARNING: Missing from cluster!")) {
				t.Errorf("%s: no %q in\n%s%s", tt.target, line, a.Stdout, a.Stderr)
			}
		}
		count := 0
		for _, p := range f.status().Cluster.Processes {
			if *p.Excluded {
				count++
			}
		}
		if count != tt.count {
			t.Errorf("%s: %d are excluded, want %d", tt.target, count, tt.count)
		}
		f.do("include " + tt.target)
		f.settle()
	}
	var killed []string
	for _, server := range servers[:2] {
		killed = append(killed, server.Addresses[1].WithoutFlags())
	}
	f.do("kill; kill " + strings.Join(killed, " "))
	f.settle()
	for _, server := range servers[:2] {
		if since, running := f.Running(server.Name); !running || f.Now().Sub(since) > time.Minute {
			t.Errorf("%s was not restarted", server.Name)
		}
	}
}

// TestExits: with a launcher from outside a server that is killed comes back when that starts it, and its
// cluster file follows the coordinators.
func TestExits(t *testing.T) {
	var ended []string
	f := newFixture(t, shape{options: sim.Options{Seed: 1, Exits: func(name string) { ended = append(ended, name) }}, storage: 4, log: 3, stateless: 2})
	f.do("configure new single ssd")
	f.settle()
	f.do("kill; kill 10.1.0.5:4501")
	f.Advance(time.Minute)
	if _, running := f.Running("storage-4"); running || len(ended) != 1 || ended[0] != "storage-4" {
		t.Fatal(ended)
	}
	f.do("coordinators 10.1.0.2:4501 10.1.0.3:4501 10.1.0.6:4501")
	if got := f.ClusterFile("storage-4"); got.ID != "first" {
		t.Error(got)
	}
	if got := f.ClusterFile("storage-1"); got.String() != f.Connection().String() {
		t.Error(got)
	}
	server := f.server(fdb.ClassStorage, 4)
	server.Connection = f.first
	f.Start(server)
	f.Advance(time.Minute)
	if got := f.ClusterFile("storage-4"); got.String() != f.Connection().String() {
		t.Error(got)
	}
	if got := f.ClusterFile("nothing"); len(got.Coordinators) > 0 {
		t.Error(got)
	}
}

// TestExitsOnBehalf: a server that was killed may be gone before the cluster controller misses it. Who has killed it has
// caused the recovery.
func TestExitsOnBehalf(t *testing.T) {
	for owner, want := range map[string]int{"": 0, "pawl": 1} {
		var f *fixture
		gone := func(name string) { f.After(0, func() { f.By("", func() { f.Stop(name) }) }) }
		f = newFixture(t, shape{options: sim.Options{Seed: 1, Exits: gone, Times: sim.Times{Detect: time.Minute}}, storage: 4, log: 4})
		f.do("configure new single ssd")
		f.settle()
		kill := "kill; kill"
		for n := range 8 {
			kill += fmt.Sprintf(" 10.1.0.%d:4501", n+2)
		}
		f.By(owner, func() {
			f.Run(sim.Run{Argv: []string{"--exec", kill, "--timeout", "10"}, Version: f.version, Connection: f.first})
		})
		f.Advance(time.Second)
		if n := f.CausedRecoveries(); n != want || f.Available() {
			t.Errorf("killed by %q: %d recoveries are the operator's, want %d", owner, n, want)
		}
	}
}

// TestBegin: two tools run at the same time, while time passes for both.
func TestBegin(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	exclude := f.Begin(sim.Run{Argv: []string{"--exec", "exclude 10.1.0.6", "--timeout", "600"}, Version: f.version, Connection: f.first})
	status := f.Begin(sim.Run{Argv: []string{"--exec", "status json", "--timeout", "10"}, Version: f.version, Connection: f.first})
	f.Advance(3 * time.Second)
	if _, ended := exclude.Answer(); ended {
		t.Error("exclude does not wait for the data")
	}
	if a, ended := status.Answer(); !ended || a.Exit != 0 {
		t.Errorf("status waits for exclude: %+v", a)
	}
	f.Advance(10 * time.Minute)
	if a, ended := exclude.Answer(); !ended || a.Exit != 0 {
		t.Errorf("%+v", a)
	}
	killed := f.Begin(sim.Run{Argv: []string{"--exec", "sleep 100"}, Version: f.version, Connection: f.first, Kill: 5 * time.Second})
	f.Advance(6 * time.Second)
	if a, ended := killed.Answer(); !ended || a.Exit != -1 || a.Took != 5*time.Second {
		t.Errorf("%+v", a)
	}
}
