package sim_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

func TestCreate(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	t.Log(f.lines())
	s := f.status()
	if !*s.Client.DatabaseStatus.Available || len(s.Cluster.Processes) != 14 {
		t.Fatal(s)
	}
	for _, g := range []fdb.Gate{fdb.GateExclude, fdb.GateConfigure, fdb.GateInclude, fdb.GateBounce} {
		t.Log(g, fdb.Open(g, s, fdb.Limits{}, f.version))
	}
	f.Advance(20 * time.Minute)
	s = f.status()
	for _, g := range []fdb.Gate{fdb.GateExclude, fdb.GateConfigure, fdb.GateInclude, fdb.GateBounce} {
		t.Log(g, fdb.Open(g, s, fdb.Limits{}, f.version))
	}
	t.Log(fdb.FullFaultTolerance(s), len(f.Status(f.Connection(), f.version)))
	a := f.do("exclude locality_instance_id:storage-5")
	t.Log(a.Stdout, a.Stderr)
	a = f.do("exclude no_wait locality_instance_id:log-1 locality_instance_id:storage-1")
	t.Log(a.Stdout, a.Stderr)
	f.do("kill; kill 10.1.0.12:4501; sleep 5")
	f.settle()
	t.Log(f.lines())
	f.clean()
}
