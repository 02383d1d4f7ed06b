package main

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// What a store is given again is what it was given: as many writes, and
// afterwards the same clusters with the same nodes, rows and ended runs.
func TestATapeIsWrittenAgain(t *testing.T) {
	o := options{dir: t.TempDir(), clusters: 3, vms: 4}
	film := newTape()
	f, err := createOn(t.Context(), o, film)
	if err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for _, n := range film.kinds {
		recorded += n
	}
	// Locks and refused writes are counted and not recorded; the last writes may come after the count.
	if writes := f["writes"]; float64(recorded) < 0.8*writes || float64(recorded) > writes+5 {
		t.Errorf("%d writes are recorded of %v: %v", recorded, writes, film.kinds)
	}
	for range 2 { // a tape can be played again
		dir := t.TempDir()
		p, err := film.play(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if int(p.writes) != recorded || p.took <= 0 {
			t.Errorf("%v writes in %s, recorded were %d", p.writes, p.took, recorded)
		}
		same(t, dir, film, o)
	}
}

func same(t *testing.T, dir string, film *tape, o options) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, uuid := range slices.Sorted(maps.Keys(film.of)) {
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
	for id := range film.runs {
		if r, _, err := store.Load(ctx, id); err != nil || !r.Phase.Final() {
			t.Errorf("run %s: %v, %+v", id, err, r)
		}
	}
}
