package main

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// A replay makes the same number of writes, and afterwards the store has the same
// clusters with the same nodes, rows and ended runs.
func TestTraceReplays(t *testing.T) {
	o := options{dir: t.TempDir(), clusters: 3, vms: 4}
	rec := newTrace()
	f, err := createOn(t.Context(), o, rec)
	if err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for _, n := range rec.kinds {
		recorded += n
	}
	// Locks and refused writes are counted but not recorded; the last writes may follow the count.
	if writes := f["writes"]; float64(recorded) < 0.8*writes || float64(recorded) > writes+5 {
		t.Errorf("%d writes are recorded of %v: %v", recorded, writes, rec.kinds)
	}
	for range 2 { // a trace can be replayed several times
		dir := t.TempDir()
		p, err := rec.run(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if int(p.writes) != recorded || p.took <= 0 {
			t.Errorf("%v writes in %s, recorded were %d", p.writes, p.took, recorded)
		}
		same(t, dir, rec, o)
	}
}

func same(t *testing.T, dir string, rec *trace, o options) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, uuid := range slices.Sorted(maps.Keys(rec.operations)) {
		b, err := store.Clusters().Record(ctx, uuid)
		if err != nil {
			t.Fatal(err)
		}
		present := 0
		for _, r := range b.Journal {
			if r.Kind == cluster.VM && r.Phase == cluster.Present {
				present++
			}
		}
		if b.Cluster.State != cluster.Running || len(b.Nodes) != o.vms || present != o.vms {
			t.Errorf("cluster %s is %s with %d nodes and %d VMs", b.Cluster.Name, b.Cluster.State, len(b.Nodes), present)
		}
	}
	for id := range rec.runs {
		if r, _, err := store.Load(ctx, id); err != nil || !r.Phase.Final() {
			t.Errorf("run %s: %v, %+v", id, err, r)
		}
	}
}
