package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sqlstore"
	"github.com/pawl-dev/pawl/workflow"
)

// tape is what a store was given to write, by cluster and in its order, so that
// the same can be given to another store by itself. So a store's own rate is
// measured with the very transactions that a service makes, and as many
// writers: without service, provider or flow.
type tape struct {
	order sync.Mutex // held while a write is made and noted, so that the notes stand in its order
	mu    sync.Mutex
	of    map[string][]piece // by uuid
	uuids map[int64]string   // of clusters by their keys
	homes map[int64]string   // clusters of nodes by their ids
	runs  map[string]string  // clusters of runs by their ids
	kinds map[string]int
}

// piece is a write. prepare copies what it writes, before the clock runs.
type piece struct {
	kind    string
	prepare func(*scene) func(context.Context) error
}

func newTape() *tape {
	return &tape{of: map[string][]piece{}, uuids: map[int64]string{}, homes: map[int64]string{}, runs: map[string]string{}, kinds: map[string]int{}}
}

func (t *tape) add(uuid string, p piece) {
	t.of[uuid] = append(t.of[uuid], p)
	t.kinds[p.kind]++
}

// stage is a store into which a tape is played, scene what of it concerns one cluster.
type stage struct {
	store sqlstore.Store
	books *sqlstore.Clusters

	mu    sync.Mutex
	known *sync.Cond
	nodes map[int64]int64 // new ids
	ends  bool            // a writer has failed
}

type scene struct {
	*stage
	id, revision int64
	rows         map[int64][2]int64 // new ids and revisions
	runs         map[string]*workflow.Run
}

// played is what it took to write a tape.
type played struct {
	writes    float64
	took, cpu time.Duration
}

func (p played) plus(q played) played {
	return played{p.writes + q.writes, p.took + q.took, p.cpu + q.cpu}
}

// play writes a tape, each cluster by a writer of its own.
func (t *tape) play(ctx context.Context, dir string) (played, error) {
	store, err := open(ctx, dir)
	if err != nil {
		return played{}, err
	}
	defer store.Close()
	s := &stage{store: store, books: store.Clusters(), nodes: map[int64]int64{}}
	s.known = sync.NewCond(&s.mu)
	var parts [][]func(context.Context) error
	for _, pieces := range t.of {
		c := &scene{stage: s, rows: map[int64][2]int64{}, runs: map[string]*workflow.Run{}}
		var part []func(context.Context) error
		for _, p := range pieces {
			part = append(part, p.prepare(c))
		}
		parts = append(parts, part)
	}
	errs := make(chan error, len(parts))
	before, began, spent := store.(sqlstore.Admin).Stats().Writes, time.Now(), cpuTime()
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() {
			for i, write := range part {
				if err := write(ctx); err != nil {
					errs <- fmt.Errorf("write %d of a cluster, again: %w", i+1, err)
					s.mu.Lock()
					s.ends = true
					s.mu.Unlock()
					s.known.Broadcast()
					return
				}
			}
		})
	}
	all.Wait()
	p := played{float64(store.(sqlstore.Admin).Stats().Writes - before), time.Since(began), cpuTime() - spent}
	close(errs)
	return p, <-errs
}

// shot copies a change, but for what nobody changes once it is written.
func shot(c *cluster.Change) *cluster.Change {
	return &cluster.Change{
		Cluster: copied(c.Cluster), Book: c.Book, Details: copied(c.Details), Nodes: each(c.Nodes), Journal: each(c.Journal), Jobs: each(c.Jobs), Events: each(c.Events),
	}
}

func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	next := *v
	return &next
}

func each[T any](list []*T) []*T {
	next := make([]*T, len(list))
	for i, v := range list {
		next[i] = copied(v)
	}
	return next
}

// commit keeps a change as it was given; done is the same after it was stored.
func (t *tape) commit(given, done *cluster.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := done.Book
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
		t.homes[n.ID] = uuid
	}
	t.add(uuid, piece{"commit", func(s *scene) func(context.Context) error {
		c := shot(given)
		return func(ctx context.Context) error {
			if c.Cluster != nil && c.Cluster.ID != 0 {
				c.Cluster.ID, c.Cluster.Revision = s.id, s.revision
			}
			if c.Book != 0 {
				c.Book = s.id
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
			if err := s.books.Commit(ctx, c); err != nil {
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

// hellos keeps what nodes said, with the cluster of the first of them. Others
// may be of clusters that are not as far yet: they are waited for.
func (t *tape) hellos(said []cluster.NodeHello) {
	t.mu.Lock()
	defer t.mu.Unlock()
	said = slices.Clone(said)
	t.add(t.homes[said[0].NodeID], piece{"hello", func(s *scene) func(context.Context) error {
		mine := slices.Clone(said)
		return func(ctx context.Context) error {
			s.mu.Lock()
			for i, h := range said {
				for s.nodes[h.NodeID] == 0 && !s.ends {
					s.known.Wait()
				}
				mine[i].NodeID = s.nodes[h.NodeID]
			}
			s.mu.Unlock()
			return s.books.Heartbeats(ctx, mine)
		}
	}})
}

// filmed is a store of runs that is recorded.
type filmed struct {
	sqlstore.Store
	t *tape
}

// double copies a run with its records, those that are to be written marked.
func double(r *workflow.Run) *workflow.Run {
	next := *r
	var records []*workflow.StepRecord
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

func (f *filmed) keep(r *workflow.Run, kind string, prepare func(*scene) func(context.Context) error) {
	uuid, _ := cluster.OfSubject(r.Subject)
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	f.t.runs[r.ID] = uuid
	f.t.add(uuid, piece{kind, prepare})
}

// Create implements workflow.Store.
func (f *filmed) Create(ctx context.Context, r *workflow.Run, events []workflow.Event) (*workflow.Run, error) {
	f.t.order.Lock()
	defer f.t.order.Unlock()
	given, told := double(r), slices.Clone(events)
	got, err := f.Store.Create(ctx, r, events)
	if err == nil {
		f.keep(got, "run", func(s *scene) func(context.Context) error {
			r := double(given)
			return func(ctx context.Context) error {
				made, err := s.store.Create(ctx, r, told)
				s.runs[given.ID] = made
				return err
			}
		})
	}
	return got, err
}

// Save implements workflow.Store.
func (f *filmed) Save(ctx context.Context, save *workflow.Save) error {
	f.t.order.Lock()
	defer f.t.order.Unlock()
	given := *save
	given.Run, given.Consumed, given.Events, given.Mail = double(save.Run), slices.Clone(save.Consumed), slices.Clone(save.Events), slices.Clone(save.Mail)
	err := f.Store.Save(ctx, save)
	if err == nil {
		f.keep(save.Run, "save", func(s *scene) func(context.Context) error {
			again := given
			again.Run = double(given.Run)
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

// Send implements workflow.Store.
func (f *filmed) Send(ctx context.Context, id string, signal workflow.Signal) error {
	f.t.order.Lock()
	defer f.t.order.Unlock()
	err := f.Store.Send(ctx, id, signal)
	if err == nil {
		f.t.mu.Lock()
		defer f.t.mu.Unlock()
		f.t.add(f.t.runs[id], piece{"signal", func(s *scene) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := s.store.Send(ctx, id, signal); !errors.Is(err, workflow.ErrFinal) { // its last save may have been noted first
					return err
				}
				return nil
			}
		}})
	}
	return err
}
