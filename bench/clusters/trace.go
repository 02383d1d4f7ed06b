package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// trace records the writes to a store, in order and by cluster, so that they can be
// replayed on another store alone. So the rate of a store is measured with exactly
// the transactions of a service and with as many concurrent writers, but without
// service, provider or flow.
type trace struct {
	order      sync.Mutex // held during a write and its recording, so that the recorded order is that of the writes
	mu         sync.Mutex
	operations map[string][]operation // by uuid
	uuids      map[int64]string       // uuids of clusters, by key
	clusterOf  map[int64]string       // cluster of each node, by node id
	runs       map[string]string      // cluster of each run, by run id
	kinds      map[string]int
}

// operation is one write. prepare copies its data before the clock runs.
type operation struct {
	kind    string
	prepare func(*clusterReplay) func(context.Context) error
}

func newTrace() *trace {
	return &trace{operations: map[string][]operation{}, uuids: map[int64]string{}, clusterOf: map[int64]string{}, runs: map[string]string{}, kinds: map[string]int{}}
}

func (t *trace) add(uuid string, p operation) {
	t.operations[uuid] = append(t.operations[uuid], p)
	t.kinds[p.kind]++
}

// replay is a store on which a trace is replayed; clusterReplay is the part of one
// cluster.
type replay struct {
	store   sql.Store
	records *clusters.Store

	mu     sync.Mutex
	known  *sync.Cond
	nodes  map[int64]int64 // new ids
	failed bool            // a writer has failed
}

type clusterReplay struct {
	*replay
	id, revision int64
	rows         map[int64][2]int64 // new ids and revisions
	runs         map[string]*runtype.Run
}

// replayResult is the cost of a replay.
type replayResult struct {
	writes    float64
	took, cpu time.Duration
}

func (p replayResult) plus(q replayResult) replayResult {
	return replayResult{p.writes + q.writes, p.took + q.took, p.cpu + q.cpu}
}

// run replays a trace, with one writer for each cluster.
func (t *trace) run(ctx context.Context, dir string) (replayResult, error) {
	store, err := open(ctx, dir)
	if err != nil {
		return replayResult{}, err
	}
	defer store.Close()
	s := &replay{store: store, records: store.Clusters(), nodes: map[int64]int64{}}
	s.known = sync.NewCond(&s.mu)
	var parts [][]func(context.Context) error
	for _, operations := range t.operations {
		c := &clusterReplay{replay: s, rows: map[int64][2]int64{}, runs: map[string]*runtype.Run{}}
		var part []func(context.Context) error
		for _, p := range operations {
			part = append(part, p.prepare(c))
		}
		parts = append(parts, part)
	}
	errs := make(chan error, len(parts))
	before, began, spent := store.Stats().Writes, time.Now(), cpuTime()
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() {
			for i, write := range part {
				if err := write(ctx); err != nil {
					errs <- fmt.Errorf("write %d of a cluster, again: %w", i+1, err)
					s.mu.Lock()
					s.failed = true
					s.mu.Unlock()
					s.known.Broadcast()
					return
				}
			}
		})
	}
	all.Wait()
	p := replayResult{float64(store.Stats().Writes - before), time.Since(began), cpuTime() - spent}
	close(errs)
	return p, <-errs
}

// copyChange copies a change, except data that is never changed after the write.
func copyChange(c *cluster.Change) *cluster.Change {
	return &cluster.Change{
		Cluster: copied(c.Cluster), ClusterID: c.ClusterID, Details: copied(c.Details), Nodes: copyAll(c.Nodes), Journal: copyAll(c.Journal), Jobs: copyAll(c.Jobs), Events: copyAll(c.Events),
	}
}

func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	next := *v
	return &next
}

func copyAll[T any](list []*T) []*T {
	next := make([]*T, len(list))
	for i, v := range list {
		next[i] = copied(v)
	}
	return next
}

// addCommit records a change as it was before the write; done is the same change
// after it.
func (t *trace) addCommit(given, done *cluster.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := done.ClusterID
	if done.Cluster != nil {
		key = done.Cluster.ID
		t.uuids[key] = done.Cluster.UUID
	}
	uuid := t.uuids[key]
	var rows, nodes []int64
	for _, r := range done.Journal {
		rows = append(rows, r.ID)
	}
	for _, n := range done.Nodes {
		nodes = append(nodes, n.ID)
		t.clusterOf[n.ID] = uuid
	}
	t.add(uuid, operation{"commit", func(s *clusterReplay) func(context.Context) error {
		c := copyChange(given)
		return func(ctx context.Context) error {
			if c.Cluster != nil && c.Cluster.ID != 0 {
				c.Cluster.ID, c.Cluster.Revision = s.id, s.revision
			}
			if c.ClusterID != 0 {
				c.ClusterID = s.id
			}
			for _, j := range c.Jobs {
				j.ClusterID = s.id
			}
			for i, r := range c.Journal {
				if r.ID != 0 {
					known := s.rows[rows[i]]
					r.ID, r.Revision = known[0], known[1]
				}
			}
			s.mu.Lock()
			for i, n := range c.Nodes {
				n.ID = s.nodes[nodes[i]]
			}
			s.mu.Unlock()
			if err := s.records.Commit(ctx, c); err != nil {
				return err
			}
			if c.Cluster != nil {
				s.id, s.revision = c.Cluster.ID, c.Cluster.Revision
			}
			for i, r := range c.Journal {
				s.rows[rows[i]] = [2]int64{r.ID, r.Revision}
			}
			s.mu.Lock()
			for i, n := range c.Nodes {
				s.nodes[nodes[i]] = n.ID
			}
			s.mu.Unlock()
			s.known.Broadcast()
			return nil
		}
	}})
}

// addHeartbeats records heartbeats under the cluster of the first one. A replay
// waits for the nodes of the others, whose clusters may not be created yet.
func (t *trace) addHeartbeats(said []cluster.NodeHeartbeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	said = slices.Clone(said)
	t.add(t.clusterOf[said[0].NodeID], operation{"hello", func(s *clusterReplay) func(context.Context) error {
		mine := slices.Clone(said)
		return func(ctx context.Context) error {
			s.mu.Lock()
			for i, h := range said {
				for s.nodes[h.NodeID] == 0 && !s.failed {
					s.known.Wait()
				}
				mine[i].NodeID = s.nodes[h.NodeID]
			}
			s.mu.Unlock()
			return s.records.Heartbeats(ctx, mine)
		}
	}})
}

// recordedStore is a store of runs whose writes are recorded.
type recordedStore struct {
	sql.Store
	trace *trace
}

// copyRun copies a run with its records, and marks those that are still to be
// written.
func copyRun(r *runtype.Run) *runtype.Run {
	next := *r
	var records []*runtype.StepRecord
	for s := range r.Steps() {
		records = append(records, copied(s))
	}
	next.Restore(records)
	for _, s := range r.Changed() {
		if again := next.Step(s.Name); again != nil {
			next.Put(again)
		}
	}
	return &next
}

func (f *recordedStore) record(r *runtype.Run, kind string, prepare func(*clusterReplay) func(context.Context) error) {
	uuid, _ := cluster.FromSubject(r.Subject)
	f.trace.mu.Lock()
	defer f.trace.mu.Unlock()
	f.trace.runs[r.ID] = uuid
	f.trace.add(uuid, operation{kind, prepare})
}

// Create implements runstore.Store.
func (f *recordedStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	f.trace.order.Lock()
	defer f.trace.order.Unlock()
	given, givenEvents := copyRun(r), slices.Clone(events)
	got, err := f.Store.Create(ctx, r, events)
	if err == nil {
		f.record(got, "run", func(s *clusterReplay) func(context.Context) error {
			r := copyRun(given)
			return func(ctx context.Context) error {
				created, err := s.store.Create(ctx, r, givenEvents)
				s.runs[given.ID] = created
				return err
			}
		})
	}
	return got, err
}

// Save implements runstore.Store.
func (f *recordedStore) Save(ctx context.Context, save *runstore.Save) error {
	f.trace.order.Lock()
	defer f.trace.order.Unlock()
	given := *save
	given.Run, given.Consumed, given.Events, given.Mail = copyRun(save.Run), slices.Clone(save.Consumed), slices.Clone(save.Events), slices.Clone(save.Mail)
	err := f.Store.Save(ctx, save)
	if err == nil {
		f.record(save.Run, "save", func(s *clusterReplay) func(context.Context) error {
			again := given
			again.Run = copyRun(given.Run)
			return func(ctx context.Context) error {
				last := s.runs[again.Run.ID]
				again.Run.Handle, again.Run.Revision = last.Handle, last.Revision
				s.runs[again.Run.ID] = again.Run
				return s.store.Save(ctx, &again)
			}
		})
	}
	return err
}

// Send implements runstore.Store.
func (f *recordedStore) Send(ctx context.Context, id string, signal runtype.Signal) error {
	f.trace.order.Lock()
	defer f.trace.order.Unlock()
	err := f.Store.Send(ctx, id, signal)
	if err == nil {
		f.trace.mu.Lock()
		defer f.trace.mu.Unlock()
		f.trace.add(f.trace.runs[id], operation{"signal", func(s *clusterReplay) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := s.store.Send(ctx, id, signal); !errors.Is(err, runstore.ErrFinal) { // the last save of the run may have been recorded first
					return err
				}
				return nil
			}
		}})
	}
	return err
}
