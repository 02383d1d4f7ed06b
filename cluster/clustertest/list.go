package clustertest

import (
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/cluster"
)

// workersAndVMs reads the workers and VMs of more clusters than one page has.
func workersAndVMs(e suite) {
	var ids []int64
	workers, vms := map[int64]int{}, map[int64][]string{}
	for i := range 600 {
		c := newCluster(fmt.Sprint("c", i))
		vm := func(n int) string { return fmt.Sprintf("vm-%d-%d", i, n) }
		nodes := []*cluster.Node{
			{Name: "w2", Role: cluster.Worker, Ordinal: 2, VMID: vm(2)},
			{Name: "w1", Role: cluster.Worker, Ordinal: 1, VMID: vm(1)},
			{Name: "w3", Role: cluster.Worker, Ordinal: 3, VMID: vm(3), Removed: now},
			{Name: "w10", Role: cluster.Worker, Ordinal: 10}, // has no VM yet
			{Name: "c5", Role: cluster.Control, Ordinal: 5, VMID: vm(5)},
			{Name: "c4", Role: cluster.Control, Ordinal: 4, VMID: vm(4)},
		}
		if i == 2 {
			nodes = nil
		}
		e.commit(&cluster.Change{Cluster: c, Nodes: nodes})
		if i == 1 { // it is not in the query
			continue
		}
		if ids = append(ids, c.ID); i != 2 {
			workers[c.ID], vms[c.ID] = 3, []string{vm(4), vm(5), vm(1), vm(2)}
		}
	}
	gotWorkers, err := e.store.Workers(e.Context(), ids)
	if err != nil {
		e.Fatal(err)
	}
	e.equal("workers", workers, gotWorkers)
	gotVMs, err := e.store.VMs(e.Context(), ids)
	if err != nil {
		e.Fatal(err)
	}
	e.equal("VMs", vms, gotVMs)
	for _, none := range [][]int64{nil, {4711000}} {
		counted, err := e.store.Workers(e.Context(), none)
		named, worse := e.store.VMs(e.Context(), none)
		if err != nil || worse != nil || len(counted)+len(named) > 0 {
			e.Errorf("of %v: %v %v, %v %v", none, counted, named, err, worse)
		}
	}
}

// totalsFollow: after a change, the next total contains it, even if its page does
// not show the cluster.
func totalsFollow(e suite) {
	all := e.createClusters("a", "b", "c")
	one := cluster.ClusterQuery{Limit: 1}
	alert := cluster.ClusterQuery{Limit: 1, State: cluster.Alert}
	last := cluster.ClusterQuery{Limit: 1, Offset: 3}
	for range 2 { // the second time the total may be cached
		e.names("first", one, 3, "a")
		e.names("first in alert", alert, 0)
	}
	e.createClusters("d")
	e.names("one more", one, 4, "a")
	all["b"].State = cluster.Alert
	e.commit(&cluster.Change{Cluster: all["b"]})
	all["c"].State = cluster.Alert
	e.commit(&cluster.Change{Cluster: all["c"]})
	e.names("two in alert", alert, 2, "b")
	e.names("the last", last, 4, "c")
	all["c"].State, all["c"].Removed = cluster.Destroyed, now
	e.commit(&cluster.Change{Cluster: all["c"]})
	e.names("one fewer", one, 3, "a")
	e.names("one in alert", alert, 1, "b")
	with := cluster.ClusterQuery{Limit: 1, WithDestroyed: true}
	e.names("with the destroyed one", with, 4, "a")
	if _, err := e.store.Prune(e.Context(), now.AddDate(1, 0, 0), cluster.Retention{}); err != nil {
		e.Fatal(err)
	}
	e.names("it is forgotten", with, 3, "a")
	stale := *all["b"]
	stale.Revision--
	e.conflict(&cluster.Change{Cluster: &stale})
	e.names("a refused change", one, 3, "a")
}

// totalsOfSeveral: totals are right after concurrent writers and readers have
// ended.
func totalsOfSeveral(e suite) {
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 25 {
				if err := e.store.Commit(e.Context(), &cluster.Change{Cluster: newCluster(fmt.Sprintf("c%d-%d", i, n))}); err != nil {
					e.Error(err)
				}
				if _, total, err := e.store.List(e.Context(), cluster.ClusterQuery{Scope: everyone, Limit: 1}); err != nil || total < n+1 {
					e.Errorf("after %d creates the total is %d, %v", n+1, total, err)
				}
			}
		})
	}
	all.Wait()
	if page, total := e.list(cluster.ClusterQuery{Scope: everyone, Limit: 1}); total != 100 || len(page) != 1 {
		e.Errorf("%d clusters in the page, %d in all, want 1 of 100", len(page), total)
	}
}
