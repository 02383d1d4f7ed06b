package clustertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// full returns a change without an empty field.
func full() *cluster.Change {
	c := filled[cluster.Cluster]()
	c.ID, c.Revision = 0, 0
	node := filled[cluster.Node]()
	node.ID, node.ClusterID, node.Removed = 0, 0, time.Time{}
	row := filled[cluster.JournalRow]()
	row.ID, row.ClusterID, row.Revision = 0, 0, 0
	job := filled[cluster.Job]()
	job.ClusterID, job.Status = 0, cluster.JobFailed
	event := filled[cluster.Event]()
	details := filled[cluster.Details]()
	details.ClusterID = 0
	return &cluster.Change{Cluster: c, Nodes: []*cluster.Node{node}, Journal: []*cluster.JournalRow{row}, Jobs: []*cluster.Job{job},
		Details: details, Events: []*cluster.Event{event}}
}

func everyField(e suite) {
	check := func(c *cluster.Change) {
		e.Helper()
		b := e.record(c.Cluster.UUID)
		e.equal("cluster", c.Cluster, &b.Cluster)
		e.equal("nodes", []cluster.Node{*c.Nodes[0]}, b.Nodes)
		e.equal("journal", []cluster.JournalRow{*c.Journal[0]}, b.Journal)
		details, err := e.store.Details(e.Context(), c.Cluster.UUID)
		if err != nil {
			e.Fatal(err)
		}
		e.equal("details", c.Details, details)
		job, err := e.store.Job(e.Context(), c.Jobs[0].ID)
		if err != nil {
			e.Fatal(err)
		}
		e.equal("job", c.Jobs[0], job)
		events := e.events(cluster.EventQuery{Scope: everyone, After: c.Events[0].Seq - 1})
		e.equal("events", []cluster.Event{*c.Events[0]}, events)
		all, _ := e.list(cluster.ClusterQuery{Scope: everyone, UUID: c.Cluster.UUID})
		e.equal("listed cluster", []cluster.Cluster{*c.Cluster}, all)
		if err := e.store.Scan(e.Context(), cluster.ScanQuery{}, func(scanned *cluster.Record) error {
			if scanned.Cluster.UUID == c.Cluster.UUID {
				e.equal("scanned record", b, scanned)
			}
			return nil
		}); err != nil {
			e.Fatal(err)
		}
		rows, _ := e.rows(cluster.RowQuery{Cluster: c.Cluster.UUID})
		e.equal("rows", []cluster.OwnedRow{{JournalRow: *c.Journal[0], Cluster: c.Cluster.UUID, ClusterName: c.Cluster.Name,
			Provider: c.Cluster.Provider, Owner: c.Cluster.Owner, State: c.Cluster.State}}, rows)
	}
	c := full()
	e.commit(c)
	check(c)

	// The same with existing records: an update writes every field too.
	next := &cluster.Change{Cluster: filled[cluster.Cluster](), Nodes: []*cluster.Node{filled[cluster.Node]()}, Journal: []*cluster.JournalRow{filled[cluster.JournalRow]()},
		Details: &cluster.Details{ClusterID: c.Cluster.ID, NetworkCleanup: false}, Jobs: []*cluster.Job{newJob("other")}, Events: []*cluster.Event{{Type: "drift", At: now}}}
	next.Cluster.ID, next.Cluster.UUID, next.Cluster.Revision = c.Cluster.ID, c.Cluster.UUID, c.Cluster.Revision
	next.Cluster.Name, next.Cluster.Desired, next.Cluster.Request, next.Cluster.Recovery = "else", "", nil, cluster.Recovery{}
	next.Nodes[0].ID, next.Nodes[0].ClusterID, next.Nodes[0].Removed, next.Nodes[0].Name = c.Nodes[0].ID, c.Cluster.ID, time.Time{}, "else"
	next.Journal[0].ID, next.Journal[0].ClusterID, next.Journal[0].Revision, next.Journal[0].Name = c.Journal[0].ID, c.Cluster.ID, c.Journal[0].Revision, "else"
	e.commit(next)
	check(next)

	// And with empty values: an absent value stays absent, an empty policy stays
	// empty.
	empty := &cluster.Change{Cluster: &cluster.Cluster{UUID: "empty", State: cluster.Created}, Nodes: []*cluster.Node{{}}, Journal: []*cluster.JournalRow{{}},
		Details: &cluster.Details{}, Jobs: []*cluster.Job{{ID: "empty"}}, Events: []*cluster.Event{{}}}
	e.commit(empty)
	check(empty)
}

func fillsIn(e suite) {
	c := newCluster("a")
	first := &cluster.Change{Cluster: c, Nodes: []*cluster.Node{{Name: "n1"}, {Name: "n2"}}, Journal: []*cluster.JournalRow{newRow("k1"), newRow("k2")},
		Jobs: []*cluster.Job{newJob("j1")}, Details: &cluster.Details{}, Events: []*cluster.Event{{At: now}, {At: now}}}
	e.commit(first)
	switch {
	case c.ID == 0, c.Revision != 1:
		e.Errorf("the cluster has id %d and revision %d, want an id and 1", c.ID, c.Revision)
	case first.Nodes[0].ID == 0, first.Nodes[1].ID <= first.Nodes[0].ID, first.Nodes[0].ClusterID != c.ID:
		e.Errorf("nodes %+v %+v: want growing ids of cluster %d", *first.Nodes[0], *first.Nodes[1], c.ID)
	case first.Journal[0].ID == 0, first.Journal[1].ID <= first.Journal[0].ID, first.Journal[0].ClusterID != c.ID, first.Journal[0].Revision != 1:
		e.Errorf("rows %+v %+v: want growing ids and revision 1", *first.Journal[0], *first.Journal[1])
	case first.Details.ClusterID != c.ID:
		e.Errorf("details of cluster %d, want %d", first.Details.ClusterID, c.ID)
	}
	e.equal("job's cluster", []any{c.ID, c.UUID, c.Owner}, []any{first.Jobs[0].ClusterID, first.Jobs[0].Cluster, first.Jobs[0].Owner})
	event := first.Events[1]
	e.equal("event's cluster", []any{c.UUID, c.Owner, int64(1)}, []any{event.Cluster, event.Owner, event.Revision})
	if event.Seq != first.Events[0].Seq+1 {
		e.Errorf("events are numbered %d and %d, want one after the other", first.Events[0].Seq, event.Seq)
	}
	second := &cluster.Change{ClusterID: c.ID, Journal: []*cluster.JournalRow{first.Journal[0]}, Events: []*cluster.Event{{At: now}}, Jobs: []*cluster.Job{newJob("j2")}}
	e.commit(second)
	if got := first.Journal[0].Revision; got != 2 {
		e.Errorf("the row is at revision %d after its second write, want 2", got)
	}
	if got := e.record("uuid-a").Cluster.Revision; got != 1 {
		e.Errorf("a commit that leaves the cluster alone raised its revision to %d", got)
	}
	e.equal("event by cluster id", []any{c.UUID, c.Owner, int64(1)}, []any{second.Events[0].Cluster, second.Events[0].Owner, second.Events[0].Revision})
	e.equal("job by cluster id", []any{c.ID, c.UUID, c.Owner}, []any{second.Jobs[0].ClusterID, second.Jobs[0].Cluster, second.Jobs[0].Owner})

	// A change without a cluster stores jobs and events as they are.
	alone := &cluster.Change{Jobs: []*cluster.Job{newJob("j3")}, Events: []*cluster.Event{{At: now, Type: "audit"}}}
	e.commit(alone)
	if job, err := e.store.Job(e.Context(), "j3"); err != nil || job.Cluster != "" {
		e.Errorf("a job of no cluster is %+v, %v", job, err)
	}
}

func copies(e suite) {
	c := full()
	c.Cluster.UUID = "u"
	e.commit(c)
	c.Cluster.CIDRs[0], c.Cluster.Request.Victims[0], c.Journal[0].Spec.VMs[0], c.Cluster.Findings[0].Evidence = "x", "x", "x", "x"
	b := e.record("u")
	for _, got := range []string{b.Cluster.CIDRs[0], b.Cluster.Request.Victims[0], b.Journal[0].Spec.VMs[0], b.Cluster.Findings[0].Evidence} {
		if got == "x" {
			e.Error("what was committed changed with the caller's copy")
		}
	}
	b.Cluster.CIDRs[0], b.Cluster.Name, b.Journal[0].Name = "y", "y", "y"
	if again := e.record("u"); again.Cluster.CIDRs[0] == "y" || again.Cluster.Name == "y" || again.Journal[0].Name == "y" {
		e.Error("what was read changed with the reader's copy")
	}
}

func allOrNothing(e suite) {
	a := newCluster("a")
	row, job := newRow("k"), newJob("done")
	job.Status = cluster.JobDone
	e.commit(&cluster.Change{Cluster: a, Journal: []*cluster.JournalRow{row}, Jobs: []*cluster.Job{job}})
	seq := func() int64 {
		marker := &cluster.Event{At: now, Type: "audit"}
		e.commit(&cluster.Change{Events: []*cluster.Event{marker}})
		return marker.Seq
	}
	before := seq()
	for name, spoil := range map[string]func(*cluster.Change){
		"old cluster":     func(c *cluster.Change) { c.Cluster.Revision-- },
		"unknown cluster": func(c *cluster.Change) { c.Cluster.ID += 1000 },
		"old row":         func(c *cluster.Change) { c.Journal[0].Revision-- },
		"unknown row":     func(c *cluster.Change) { c.Journal[0].ID += 1000 },
		"known key":       func(c *cluster.Change) { c.Journal[1].Key = "k" },
		"the same key":    func(c *cluster.Change) { c.Journal = append(c.Journal, newRow(c.Journal[1].Key)) },
		"the same row": func(c *cluster.Change) {
			c.Journal = append(c.Journal, with(c.Journal[0], func(*cluster.JournalRow) {}))
		},
		"unknown node":  func(c *cluster.Change) { c.Nodes[0].ID = 1000 },
		"completed job": func(c *cluster.Change) { c.Jobs = append(c.Jobs, newJob("done")) },
	} {
		stored := e.record("uuid-a")
		c := &cluster.Change{
			Cluster: with(&stored.Cluster, func(c *cluster.Cluster) { c.Name = "changed" }),
			Nodes:   []*cluster.Node{{Name: "node"}},
			Journal: []*cluster.JournalRow{with(&stored.Journal[0], func(r *cluster.JournalRow) { r.Name = "changed" }), newRow("new")},
			Jobs:    []*cluster.Job{newJob("new")},
			Details: &cluster.Details{Username: "changed"},
			Events:  []*cluster.Event{{At: now, Type: "cluster"}},
		}
		spoil(c)
		id, revision := c.Nodes[0].ID, c.Cluster.Revision
		e.conflict(c)
		if c.Nodes[0].ID != id || c.Cluster.Revision != revision || c.Journal[1].ID != 0 {
			e.Errorf("%s: a refused change was filled in", name)
		}
		e.equal(name+": record", stored, e.record("uuid-a"))
		if _, err := e.store.Job(e.Context(), "new"); !errors.Is(err, cluster.JobNotFound) {
			e.Errorf("%s: the job of a refused change: %v", name, err)
		}
		if d, err := e.store.Details(e.Context(), "uuid-a"); err != nil || d.Username != "" {
			e.Errorf("%s: details of a refused change: %+v %v", name, d, err)
		}
		if events := e.events(cluster.EventQuery{Scope: everyone, After: before}); len(events) > 0 {
			e.Errorf("%s: events of a refused change: %+v", name, events)
		}
	}
	if next := seq(); next <= before {
		e.Errorf("numbers go back from %d to %d", before, next)
	}
}

func clusterConflict(e suite) {
	a := newCluster("a")
	e.commit(&cluster.Change{Cluster: a})
	old := with(a, func(c *cluster.Cluster) { c.Name = "old" })
	e.commit(&cluster.Change{Cluster: a})
	if a.Revision != 2 {
		e.Errorf("revision %d, want 2", a.Revision)
	}
	e.conflict(&cluster.Change{Cluster: old})
	e.conflict(&cluster.Change{Cluster: with(a, func(c *cluster.Cluster) { c.Revision++ })})
	e.conflict(&cluster.Change{Cluster: newCluster("a")}) // the same uuid
	e.names("after refusals", cluster.ClusterQuery{}, 1, "a")
}

func rowConflict(e suite) {
	a, b, row := newCluster("a"), newCluster("b"), newRow("k")
	e.commit(&cluster.Change{Cluster: a, Journal: []*cluster.JournalRow{row}})
	e.commit(&cluster.Change{Cluster: b})
	old := with(row, func(*cluster.JournalRow) {})
	row.Phase = cluster.Accepted
	e.commit(&cluster.Change{ClusterID: a.ID, Journal: []*cluster.JournalRow{row}})
	e.conflict(&cluster.Change{ClusterID: a.ID, Journal: []*cluster.JournalRow{old}})
	e.conflict(&cluster.Change{ClusterID: b.ID, Journal: []*cluster.JournalRow{with(row, func(*cluster.JournalRow) {})}}) // not of this cluster
	if got := e.record("uuid-a").Journal[0]; got.Phase != cluster.Accepted || got.Revision != 2 {
		e.Errorf("the row is %+v", got)
	}
}

func uniqueKey(e suite) {
	a, b := newCluster("a"), newCluster("b")
	e.commit(&cluster.Change{Cluster: a, Journal: []*cluster.JournalRow{newRow("k")}})
	e.conflict(&cluster.Change{ClusterID: a.ID, Journal: []*cluster.JournalRow{newRow("k")}})
	e.commit(&cluster.Change{Cluster: b, Journal: []*cluster.JournalRow{newRow("k")}}) // of another cluster
	gone := e.record("uuid-a").Journal[0]
	gone.Phase = cluster.Gone
	e.commit(&cluster.Change{ClusterID: a.ID, Journal: []*cluster.JournalRow{&gone}})
	e.conflict(&cluster.Change{ClusterID: a.ID, Journal: []*cluster.JournalRow{newRow("k")}}) // never again
}

func jobStays(e suite) {
	a, job := newCluster("a"), newJob("j")
	e.commit(&cluster.Change{Cluster: a, Jobs: []*cluster.Job{job}})
	job.RunID = "r1"
	e.commit(&cluster.Change{ClusterID: a.ID, Jobs: []*cluster.Job{job}}) // an open job may change
	job.Status, job.Completed, job.Password = cluster.JobDone, now, "planted"
	e.commit(&cluster.Change{ClusterID: a.ID, Jobs: []*cluster.Job{job}})
	for _, next := range []*cluster.Job{
		with(job, func(j *cluster.Job) { j.Status = cluster.JobFailed }),
		with(job, func(j *cluster.Job) { j.Status = cluster.JobOpen }),
	} {
		e.conflict(&cluster.Change{ClusterID: a.ID, Jobs: []*cluster.Job{next}})
	}
	got, err := e.store.Job(e.Context(), "j")
	if err != nil {
		e.Fatal(err)
	}
	e.equal("job", job, got)
}

func jobIsOneRequest(e suite) {
	a := newCluster("a")
	e.commit(&cluster.Change{Cluster: a, Jobs: []*cluster.Job{newJob("j")}})
	e.conflict(&cluster.Change{Cluster: newCluster("b"), Jobs: []*cluster.Job{newJob("j")}}) // never a second cluster
	e.conflict(&cluster.Change{ClusterID: a.ID, Jobs: []*cluster.Job{with(newJob("j"), func(j *cluster.Job) { j.Digest = "other" })}})
	e.names("after refusals", cluster.ClusterQuery{}, 1, "a")
}

func unknown(e suite) {
	if _, err := e.store.Record(e.Context(), "nobody"); !errors.Is(err, cluster.NotFound) {
		e.Errorf("record: %v, want CLUSTER_NOT_FOUND", err)
	}
	if _, err := e.store.Details(e.Context(), "nobody"); !errors.Is(err, cluster.NotFound) {
		e.Errorf("details: %v, want CLUSTER_NOT_FOUND", err)
	}
	if _, err := e.store.Job(e.Context(), "nobody"); !errors.Is(err, cluster.JobNotFound) {
		e.Errorf("job: %v, want JOB_NOT_FOUND", err)
	}
	for name, c := range map[string]*cluster.Change{
		"an unknown cluster": {ClusterID: 4711, Journal: []*cluster.JournalRow{newRow("k")}},
		"no cluster":         {Journal: []*cluster.JournalRow{newRow("k")}},
		"no cluster, node":   {Nodes: []*cluster.Node{{Name: "n"}}},
		"no cluster, secret": {Details: &cluster.Details{}},
	} {
		if err := e.store.Commit(e.Context(), c); !errors.Is(err, cluster.NotFound) {
			e.Errorf("commit to %s: %v, want CLUSTER_NOT_FOUND", name, err)
		}
	}
	e.commit(&cluster.Change{})
}

// concurrency: of several writers that have read the same revision of a cluster or
// concurrency, or that add the same key or job, one wins.
func concurrency(e suite) {
	a, row := newCluster("a"), newRow("k")
	e.commit(&cluster.Change{Cluster: a, Journal: []*cluster.JournalRow{row}})
	for round := range 5 {
		stored := e.record("uuid-a")
		for name, change := range map[string]func(i int) *cluster.Change{
			"cluster": func(i int) *cluster.Change {
				return &cluster.Change{Cluster: with(&stored.Cluster, func(c *cluster.Cluster) { c.Description = fmt.Sprint(i) })}
			},
			"row": func(i int) *cluster.Change {
				return &cluster.Change{ClusterID: a.ID, Journal: []*cluster.JournalRow{with(&stored.Journal[0], func(r *cluster.JournalRow) { r.JobID = fmt.Sprint(i) })}}
			},
			"key": func(int) *cluster.Change {
				return &cluster.Change{ClusterID: a.ID, Journal: []*cluster.JournalRow{newRow(fmt.Sprint("key", round))}}
			},
			"job": func(i int) *cluster.Change {
				return &cluster.Change{Cluster: newCluster(fmt.Sprint("new", round, "-", i)), Jobs: []*cluster.Job{newJob(fmt.Sprint("job", round))}}
			},
		} {
			const committers = 4
			var wins atomic.Int64
			var all sync.WaitGroup
			for i := range committers {
				all.Go(func() {
					switch err := e.store.Commit(e.Context(), change(i)); {
					case err == nil:
						wins.Add(1)
					case !errors.Is(err, fault.WriteConflict):
						e.Errorf("%s: %v, want WRITE_CONFLICT", name, err)
					}
				})
			}
			all.Wait()
			if wins.Load() != 1 {
				e.Errorf("%s: %d of %d committers won, want 1", name, wins.Load(), committers)
			}
		}
	}
	if b := e.record("uuid-a"); b.Cluster.Revision != 6 || b.Journal[0].Revision != 6 || len(b.Journal) != 6 {
		e.Errorf("after 5 rounds: cluster at %d, row at %d, %d rows; want 6, 6, 6", b.Cluster.Revision, b.Journal[0].Revision, len(b.Journal))
	}
	if _, n := e.list(cluster.ClusterQuery{Scope: everyone}); n != 6 {
		e.Errorf("%d clusters, want 6: one of each job", n)
	}
}

// manyAtOnce: changes of different clusters do not conflict.
func manyAtOnce(e suite) {
	const clusters, writes = 8, 10
	var all sync.WaitGroup
	for i := range clusters {
		all.Go(func() {
			c := newCluster(fmt.Sprint("c", i))
			if err := e.store.Commit(e.Context(), &cluster.Change{Cluster: c}); err != nil {
				e.Error(err)
				return
			}
			for n := range writes {
				if err := e.store.Commit(e.Context(), &cluster.Change{Cluster: c, Journal: []*cluster.JournalRow{newRow(fmt.Sprint(n))},
					Nodes: []*cluster.Node{{Name: fmt.Sprint(n)}}, Jobs: []*cluster.Job{newJob(fmt.Sprint(i, "-", n))}, Events: []*cluster.Event{{At: now}}}); err != nil {
					e.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range clusters {
		b := e.record(fmt.Sprint("uuid-c", i))
		if len(b.Journal) != writes || len(b.Nodes) != writes || b.Cluster.Revision != writes+1 {
			e.Errorf("cluster %d: %d rows, %d nodes, revision %d", i, len(b.Journal), len(b.Nodes), b.Cluster.Revision)
		}
	}
	events := e.events(cluster.EventQuery{Scope: everyone})
	if len(events) != clusters*writes {
		e.Errorf("%d events, want %d", len(events), clusters*writes)
	}
}

func cancelled(e suite) {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if err := e.store.Commit(ctx, &cluster.Change{Cluster: newCluster("a")}); !errors.Is(err, context.Canceled) {
		e.Errorf("commit: %v, want the error of the context", err)
	}
	if _, _, err := e.store.List(ctx, cluster.ClusterQuery{Scope: everyone}); !errors.Is(err, context.Canceled) {
		e.Errorf("list: %v, want the error of the context", err)
	}
	e.names("after that", cluster.ClusterQuery{}, 0)
}
