package clustertest

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

func newestHeartbeatWins(e suite) {
	a := newCluster("a")
	nodes := []*cluster.Node{{Name: "n1", Version: "1.0"}, {Name: "n2"}, {Name: "n3", Removed: now}}
	e.commit(&cluster.Change{Cluster: a, Nodes: nodes})
	say := func(heartbeats ...cluster.NodeHeartbeat) {
		e.Helper()
		if err := e.store.Heartbeats(e.Context(), heartbeats); err != nil {
			e.Fatal(err)
		}
	}
	check := func(what string, want cluster.Node) {
		e.Helper()
		want.ID, want.ClusterID, want.Name = nodes[0].ID, a.ID, "n1"
		e.equal(what, want, e.record("uuid-a").Nodes[0])
	}
	t := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	n1 := nodes[0].ID

	say(cluster.NodeHeartbeat{NodeID: n1, At: t(1), NotReady: "kubelet starts"}, cluster.NodeHeartbeat{NodeID: 4711, At: t(1), Ready: true})
	check("not ready, with a reason", cluster.Node{Version: "1.0", HeartbeatAt: t(1), NotReady: "kubelet starts"})
	say(cluster.NodeHeartbeat{NodeID: n1, At: t(2)})
	check("not ready without a reason is not ready", cluster.Node{Version: "1.0", HeartbeatAt: t(2), NotReady: "not ready"})
	say(cluster.NodeHeartbeat{NodeID: n1, At: t(3), Ready: true, Address: "10.0.0.1", Version: "1.1"})
	check("ready", cluster.Node{Version: "1.1", Address: "10.0.0.1", ReadyAt: t(3), HeartbeatAt: t(3)})
	say(cluster.NodeHeartbeat{NodeID: n1, At: t(2), NotReady: "late", Address: "10.9.9.9"}, cluster.NodeHeartbeat{NodeID: n1, At: t(3), NotReady: "twice"})
	check("an older one changes nothing", cluster.Node{Version: "1.1", Address: "10.0.0.1", ReadyAt: t(3), HeartbeatAt: t(3)})
	say(cluster.NodeHeartbeat{NodeID: n1, At: t(6), NotReady: "disk full"}, cluster.NodeHeartbeat{NodeID: n1, At: t(5), Ready: true})
	check("the first ready one stays, the newest wins within one write", cluster.Node{Version: "1.1", Address: "10.0.0.1", ReadyAt: t(3), HeartbeatAt: t(6), NotReady: "disk full"})
	say(cluster.NodeHeartbeat{NodeID: nodes[2].ID, At: t(9), Ready: true})
	say()
	if got := e.record("uuid-a"); got.Cluster.Revision != 1 || len(got.Nodes) != 2 || !got.Nodes[1].HeartbeatAt.IsZero() {
		e.Errorf("heartbeats changed more than a node: %+v", got)
	}
}

func newerHeartbeatKept(e suite) {
	a := newCluster("a")
	e.commit(&cluster.Change{Cluster: a, Nodes: []*cluster.Node{{Name: "n1"}}})
	read := e.record("uuid-a").Nodes[0]
	if err := e.store.Heartbeats(e.Context(), []cluster.NodeHeartbeat{{NodeID: read.ID, At: now, Ready: true, Address: "10.0.0.1", Version: "1.1"}}); err != nil {
		e.Fatal(err)
	}
	read.VMID = "vm"
	e.commit(&cluster.Change{ClusterID: a.ID, Nodes: []*cluster.Node{&read}})
	want := cluster.Node{ID: read.ID, ClusterID: a.ID, Name: "n1", VMID: "vm", HeartbeatAt: now, ReadyAt: now, Address: "10.0.0.1", Version: "1.1"}
	e.equal("node", want, e.record("uuid-a").Nodes[0])
	want.Address, want.ReadyAt = "10.0.0.2", time.Time{} // read after the heartbeat: the committed values count
	e.commit(&cluster.Change{ClusterID: a.ID, Nodes: []*cluster.Node{with(&want, func(*cluster.Node) {})}})
	e.equal("node", want, e.record("uuid-a").Nodes[0])
}

func rowsOwned(e suite) {
	a, b := newCluster("a"), newCluster("b")
	b.Owner, b.Provider, b.State = cluster.Owner{AccountID: "bob", DomainID: "west"}, "local", cluster.Expunge
	row := func(key string, kind cluster.Kind, phase cluster.Phase, after time.Duration) *cluster.JournalRow {
		return with(newRow(key), func(r *cluster.JournalRow) { r.Kind, r.Phase, r.IntentAt = kind, phase, now.Add(after) })
	}
	e.commit(&cluster.Change{Cluster: a, Journal: []*cluster.JournalRow{
		row("k1", cluster.VM, cluster.Present, 3), row("k2", cluster.Network, cluster.Leaked, 1)}})
	leaked := row("k4", cluster.VM, cluster.Leaked, 1)
	e.commit(&cluster.Change{Cluster: b, Journal: []*cluster.JournalRow{row("k3", cluster.VM, cluster.Forgotten, 0), leaked}})
	for _, test := range []struct {
		name  string
		q     cluster.RowQuery
		total int
		want  []string
	}{
		{"all, oldest intent first", cluster.RowQuery{}, 4, []string{"k3", "k2", "k4", "k1"}},
		{"phases", cluster.RowQuery{Phases: []cluster.Phase{cluster.Leaked, cluster.Forgotten}}, 3, []string{"k3", "k2", "k4"}},
		{"cluster", cluster.RowQuery{Cluster: "uuid-a"}, 2, []string{"k2", "k1"}},
		{"kind", cluster.RowQuery{Kind: cluster.VM}, 3, []string{"k3", "k4", "k1"}},
		{"kind and phase", cluster.RowQuery{Kind: cluster.VM, Phases: []cluster.Phase{cluster.Leaked}}, 1, []string{"k4"}},
		{"page", cluster.RowQuery{Offset: 1, Limit: 2}, 4, []string{"k2", "k4"}},
		{"past the end", cluster.RowQuery{Offset: 7}, 4, nil},
		{"unknown cluster", cluster.RowQuery{Cluster: "nobody"}, 0, nil},
	} {
		rows, n := e.rows(test.q)
		var got []string
		for _, r := range rows {
			got = append(got, r.Key)
		}
		e.equal(test.name, test.want, got)
		if n != test.total {
			e.Errorf("%s: total %d, want %d", test.name, n, test.total)
		}
	}
	rows, _ := e.rows(cluster.RowQuery{Kind: cluster.VM, Phases: []cluster.Phase{cluster.Leaked}})
	e.equal("owned row", cluster.OwnedRow{JournalRow: *leaked, Cluster: "uuid-b", ClusterName: "b", Provider: "local", Owner: b.Owner, State: cluster.Expunge}, rows[0])
}

func usageCounts(e suite) {
	add := func(name, account string, state string, nodes, control, cores, memory int) {
		c := newCluster(name)
		c.Owner.AccountID, c.NodeCount, c.ControlCount, c.Cores, c.MemoryMB = account, nodes, control, cores, memory
		if state != "" {
			c.State = cluster.Destroyed
		}
		e.commit(&cluster.Change{Cluster: c})
	}
	add("a", "amy", "", 3, 1, 8, 4096)
	add("b", "amy", "", 5, 3, 16, 8192)
	add("c", "amy", "destroyed", 50, 3, 100, 100)
	add("d", "bob", "", 1, 1, 2, 512)
	for account, want := range map[string]cluster.Usage{
		"amy": {Clusters: 2, Nodes: 12, Cores: 24, MemoryMB: 12288},
		"bob": {Clusters: 1, Nodes: 2, Cores: 2, MemoryMB: 512},
		"cid": {},
	} {
		got, err := e.store.Usage(e.Context(), cluster.Owner{AccountID: account, DomainID: "east"})
		if err != nil {
			e.Fatal(err)
		}
		e.equal("usage of "+account, want, got)
	}
}

const day = 24 * time.Hour

func (e suite) prune(at time.Time, keep cluster.Retention) int {
	e.Helper()
	n, err := e.store.Prune(e.Context(), at, keep)
	if err != nil {
		e.Fatalf("prune: %v", err)
	}
	return n
}

func pruneKeeps(e suite) {
	add := func(name string, removed time.Time, phases ...cluster.Phase) *cluster.Cluster {
		c := newCluster(name)
		change := &cluster.Change{Cluster: c, Nodes: []*cluster.Node{{Name: "n"}}, Details: &cluster.Details{Username: "u", Password: "p"}}
		if !removed.IsZero() {
			c.State, c.Desired, c.Removed = cluster.Destroyed, cluster.WantDestroyed, removed
		}
		for i, phase := range phases {
			row := newRow(fmt.Sprint("k", i))
			row.Phase = phase
			change.Journal = append(change.Journal, row)
		}
		e.commit(change)
		return c
	}
	all := []cluster.Phase{cluster.Gone, cluster.NeverCreated, cluster.Leaked, cluster.Forgotten, cluster.Present}
	add("lives", time.Time{}, all...)
	add("young", now.Add(-90*day+time.Second), cluster.Gone)
	add("old", now.Add(-90*day), cluster.Gone, cluster.NeverCreated)
	add("leaky", now.Add(-100*day), all...)
	given := add("given", now.Add(-100*day), cluster.Gone)
	row := newRow("network")
	row.Phase, row.Origin = cluster.Present, cluster.OriginGiven // it belongs to the user and still exists
	e.commit(&cluster.Change{ClusterID: given.ID, Journal: []*cluster.JournalRow{row}})
	for id, completed := range map[string]time.Time{"open": {}, "young": now.Add(-day + time.Second), "old": now.Add(-day)} {
		job := newJob(id)
		if job.Completed = completed; !completed.IsZero() {
			job.Status = cluster.JobDone
		}
		e.commit(&cluster.Change{Jobs: []*cluster.Job{job}})
	}
	e.commit(&cluster.Change{Events: []*cluster.Event{{At: now.Add(-30 * day), Event: "old"}, {At: now.Add(-30*day + time.Second), Event: "young"}}})

	// Removed are, of old and given: cluster, node, details, two rows; of leaky:
	// node, details, two closed rows; a job; an event.
	if n := e.prune(now, cluster.Retention{}); n != 16 {
		e.Errorf("%d rows were removed, want 16", n)
	}
	e.names("clusters", cluster.ClusterQuery{WithDestroyed: true}, 3, "lives", "young", "leaky")
	count := func(uuid string) string {
		b := e.record(uuid)
		var phases []cluster.Phase
		for _, r := range b.Journal {
			phases = append(phases, r.Phase)
		}
		return fmt.Sprint(len(b.Nodes), phases)
	}
	e.equal("what lives", "1 [gone never_created leaked forgotten present]", count("uuid-lives"))
	e.equal("what is young", "1 [gone]", count("uuid-young"))
	e.equal("what leaked stays, with whose it was", "0 [leaked forgotten present]", count("uuid-leaky"))
	rows, _ := e.rows(cluster.RowQuery{Cluster: "uuid-leaky"})
	if len(rows) != 3 || rows[0].ClusterName != "leaky" || rows[0].Owner.AccountID != "amy" {
		e.Errorf("the rows of the leaky cluster are %+v", rows)
	}
	if d, err := e.store.Details(e.Context(), "uuid-leaky"); err != nil || d.Password != "" {
		e.Errorf("the secrets of a pruned cluster: %v %v", d, err)
	}
	jobs, _, err := e.store.Jobs(e.Context(), cluster.JobQuery{Scope: everyone})
	if err != nil || len(jobs) != 0 { // they have no owner but everyone sees them
		ids := map[string]bool{}
		for _, j := range jobs {
			ids[j.ID] = true
		}
		if len(ids) != 2 || !ids["open"] || !ids["young"] {
			e.Errorf("jobs %v, want open and young", ids)
		}
	} else {
		e.Error("no job is left")
	}
	events := e.events(cluster.EventQuery{Scope: everyone})
	if len(events) != 1 || events[0].Event != "young" {
		e.Errorf("events %+v, want the young one", events)
	}
	if n := e.prune(now, cluster.Retention{}); n != 0 {
		e.Errorf("once more removed %d rows", n)
	}

	floor, newest, err := e.store.Feed(e.Context())
	if err != nil || floor != events[0].Seq-1 || newest != events[0].Seq {
		e.Errorf("the feed stands at %d to %d, %v; want floor %d, newest %d", floor, newest, err, events[0].Seq-1, events[0].Seq)
	}

	// Event numbers continue, although the newest event was removed.
	e.prune(now.AddDate(1, 0, 0), cluster.Retention{})
	next := &cluster.Event{At: now}
	e.commit(&cluster.Change{Events: []*cluster.Event{next}})
	if next.Seq <= events[0].Seq {
		e.Errorf("number %d is used again behind %d", next.Seq, events[0].Seq)
	}
	if n := e.prune(now.Add(2*time.Minute), cluster.Retention{Clusters: time.Minute, Jobs: time.Minute, Events: time.Minute}); n == 0 {
		e.Error("a shorter keep removed nothing")
	}

	// After a leak is resolved, the rest of the cluster is removed.
	leaky := e.record("uuid-leaky")
	change := &cluster.Change{ClusterID: leaky.Cluster.ID}
	for i := range leaky.Journal {
		leaky.Journal[i].Phase = cluster.Gone
		change.Journal = append(change.Journal, &leaky.Journal[i])
	}
	e.commit(change)
	e.prune(now, cluster.Retention{})
	e.names("after the leaks were cleared", cluster.ClusterQuery{WithDestroyed: true, Name: "leaky"}, 0)
}

// noForeignKeys: jobs and events remain after their cluster is removed.
func noForeignKeys(e suite) {
	a := newCluster("a")
	a.State, a.Removed = cluster.Destroyed, now
	e.commit(&cluster.Change{Cluster: a, Jobs: []*cluster.Job{newJob("j")}, Events: []*cluster.Event{{At: now.Add(100 * day), Type: "cluster"}}})
	e.prune(now.Add(100*day), cluster.Retention{})
	e.names("clusters", cluster.ClusterQuery{WithDestroyed: true}, 0)
	job, err := e.store.Job(e.Context(), "j")
	if err != nil || job.Cluster != "uuid-a" || job.ClusterID != a.ID {
		e.Errorf("the job of a cluster that is gone: %+v %v", job, err)
	}
	if events := e.events(cluster.EventQuery{Scope: everyone, Cluster: "uuid-a"}); len(events) != 1 {
		e.Errorf("%d events of a cluster that is gone, want 1", len(events))
	}
	job.Status, job.Completed = cluster.JobFailed, now
	e.commit(&cluster.Change{Jobs: []*cluster.Job{job}}) // it can be completed
	e.commit(&cluster.Change{Cluster: newCluster("a")})  // its uuid is free
}
