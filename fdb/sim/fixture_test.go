package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// version parses a version that is known to be one.
func version(text string) fdb.Version {
	v, err := fdb.ParseVersion(text)
	if err != nil {
		panic(err)
	}
	return v
}

// fixture is a database with the means to work on it as an operator does.
type fixture struct {
	*sim.Cluster
	t       testing.TB
	version fdb.Version
	first   fdb.Connection // the cluster file of the beginning
	next    int            // number of the next address
}

// shape says which servers a fixture has.
type shape struct {
	options                       sim.Options
	version                       string // 7.3.69
	storage, log, stateless, test int
	zones                         int // 0: one a server
	datacenter, hall              string
}

// newFixture starts servers and waits until they have joined; the database is not made.
func newFixture(t testing.TB, s shape) *fixture {
	t.Helper()
	if s.version == "" {
		s.version = "7.3.69"
	}
	f := &fixture{Cluster: sim.New(s.options), t: t, version: version(s.version)}
	var servers []sim.Server
	for _, of := range []struct {
		class fdb.Class
		count int
	}{{fdb.ClassStorage, s.storage}, {fdb.ClassLog, s.log}, {fdb.ClassStateless, s.stateless}, {fdb.ClassTest, s.test}} {
		for n := 1; n <= of.count; n++ {
			servers = append(servers, f.server(of.class, n))
		}
	}
	f.first = fdb.Connection{Description: "sample", ID: "first"}
	for _, server := range servers {
		if server.Class.CoordinatorEligible() && len(f.first.Coordinators) < 3 {
			f.first.Coordinators = append(f.first.Coordinators, server.Addresses[0])
		}
	}
	for i, server := range servers {
		if s.zones > 0 {
			server.Locality[fdb.ZoneLocality] = fmt.Sprintf("zone-%d", i%s.zones+1)
		}
		f.Start(f.placed(server, s.datacenter, s.hall))
	}
	f.Advance(5 * time.Second)
	return f
}

// server returns a server that is not started.
func (f *fixture) server(class fdb.Class, n int) sim.Server {
	f.next++
	name := fmt.Sprintf("%s-%d", class, n)
	return sim.Server{
		Name: name, Folder: name, Class: class, Version: f.version,
		Addresses: []fdb.Address{{Host: fmt.Sprintf("10.1.%d.%d", f.next/250, f.next%250+1), Port: 4501}},
		Locality:  map[string]string{fdb.InstanceLocality: name, fdb.ZoneLocality: "node-" + name, "machineid": "node-" + name},
	}
}

func (f *fixture) placed(server sim.Server, datacenter, hall string) sim.Server {
	server.Connection = f.first
	if datacenter != "" {
		server.Locality[fdb.DatacenterLocality] = datacenter
	}
	if hall != "" {
		server.Locality[fdb.DataHallLocality] = hall
	}
	return server
}

// add starts another server.
func (f *fixture) add(class fdb.Class, n int) sim.Server {
	server := f.server(class, n)
	server.Connection = f.Connection()
	f.Start(server)
	return server
}

// cli runs commands of fdbcli as the operator.
func (f *fixture) cli(text string, timeout time.Duration) sim.Answer {
	f.t.Helper()
	var a sim.Answer
	f.By("operator", func() {
		a = f.Run(sim.Run{
			Argv: []string{"--exec", text, "--timeout", fmt.Sprint(int(timeout.Seconds()))}, Version: f.version, Connection: f.first,
		})
	})
	return a
}

// do runs a command that must succeed.
func (f *fixture) do(text string) sim.Answer {
	f.t.Helper()
	a := f.cli(text, 10*time.Minute)
	if a.Exit != 0 || strings.Contains(a.Stderr, "ERROR") {
		f.t.Fatalf("%s: exit %d\n%s%s", text, a.Exit, a.Stdout, a.Stderr)
	}
	return a
}

// status reads the status.
func (f *fixture) status() *fdb.Status {
	f.t.Helper()
	s, err := fdb.ParseStatus(f.Status(f.Connection(), f.Protocol()))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// settle waits until the database is healthy.
func (f *fixture) settle() {
	f.t.Helper()
	for range 3600 {
		f.Advance(time.Second)
		if f.Unhealthy() == "" {
			return
		}
	}
	f.t.Fatalf("not healthy after an hour: %s\n%s", f.Unhealthy(), f.lines())
}

func (f *fixture) lines() string { return strings.Join(f.Transcript(), "\n") }

// clean fails if an invariant was broken.
func (f *fixture) clean() {
	f.t.Helper()
	for _, v := range f.Violations() {
		f.t.Errorf("%s", v)
	}
	if f.t.Failed() {
		f.t.Log(f.lines())
	}
}

// broken fails unless exactly these invariants were broken.
func (f *fixture) broken(invariant int, text string) {
	f.t.Helper()
	for _, v := range f.Violations() {
		if v.Invariant == invariant && strings.Contains(v.Text, text) {
			return
		}
	}
	f.t.Errorf("invariant %d was not seen to be broken with %q: %v\n%s", invariant, text, f.Violations(), f.lines())
}

// sample is a database of the usual size, made and healthy.
func sample(t testing.TB, o sim.Options) *fixture {
	t.Helper()
	f := newFixture(t, shape{options: o, storage: 5, log: 4, stateless: 5})
	f.do("configure new double ssd")
	f.settle()
	return f
}
