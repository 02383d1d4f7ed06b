package service

import (
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// work is what one look at a step has in its hands: the run's task and input,
// and the cluster's book as it was when the look began.
type work struct {
	s        *Service
	t        *workflow.Task
	in       cluster.RunInput
	rec      *cluster.Record
	c        *cluster.Cluster // of the book
	d        *cluster.Details // read after the book, by who needs them first
	provider cluster.Provider
	caps     cluster.Capabilities
	now      time.Time // when the book was read
	began    time.Time // the look
}

// body is the work of a step. Everything it needs to remember is in the
// journal, so it may be called again at any time.
type body func(ctx context.Context, w *work) outcome.Outcome

// bounds are those of a step: of one try, and how many there are.
type bounds struct {
	timeout time.Duration
	tries   int
}

// step makes a step of a flow. A cancelled one is not stray before a call in
// flight can have ended. Steps that only wait have no tries of their own.
func (s *Service) step(name, text string, b bounds, do body) workflow.Step {
	return workflow.Step{
		Name: name, Description: text, Timeout: b.timeout, Grace: s.options.Settings.CallTimeout + 15*time.Second,
		Retry: workflow.Retry{Attempts: b.tries, First: time.Second, Longest: time.Minute},
		Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			w, err := s.open(ctx, t)
			if err == nil {
				err = w.current()
			}
			if err != nil {
				return outcome.Fail(err)
			}
			return do(ctx, w)
		},
	}
}

// ending makes a step that runs when its run ends, in whatever way: the
// cluster may have moved on. It never fails, for what it leaves undone others find.
func (s *Service) ending(name, text string, do body) workflow.Step {
	step := s.step(name, text, bounds{cluster.NodeRemoval, 5}, nil)
	step.Do = func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		w, err := s.open(ctx, t)
		if err != nil {
			return outcome.Fail(err)
		}
		out := do(ctx, w)
		if out.IsFail() && fault.Of(out.Err()).Class != fault.Transient {
			t.Logger().WarnContext(ctx, "the end of the run left something undone", "error", out.Err())
			return outcome.Done()
		}
		return out
	}
	return step
}

// when makes a step conditional on the run's input.
func when(step workflow.Step, text string, holds func(in cluster.RunInput) bool) workflow.Step {
	step.WhenText = text
	step.When = func(v workflow.View) (bool, error) {
		var in cluster.RunInput
		err := decodeInput(v, &in)
		return err == nil && holds(in), err
	}
	return step
}

// open gathers what a look needs.
func (s *Service) open(ctx context.Context, t *workflow.Task) (*work, error) {
	w := &work{s: s, t: t, began: s.options.Now()}
	if err := t.Input(&w.in); err != nil {
		return nil, err
	}
	if err := w.read(ctx); err != nil {
		return nil, err
	}
	var err error
	if w.provider, err = s.provider(w.c.Provider); err != nil {
		return nil, err
	}
	w.caps = w.provider.Capabilities()
	return w, nil
}

// read gets the newest book.
func (w *work) read(ctx context.Context) error {
	record, err := w.s.options.Records.Record(ctx, w.in.Cluster)
	if err != nil {
		return err
	}
	w.rec, w.c, w.d, w.now = record, &record.Cluster, nil, w.s.options.Now()
	return nil
}

// details are those of the cluster, as they were when this look asked first.
func (w *work) details(ctx context.Context) (*cluster.Details, error) {
	if w.d == nil {
		d, err := w.s.options.Records.Details(ctx, w.in.Cluster)
		if err != nil {
			return nil, err
		}
		w.d = d
	}
	return w.d, nil
}

// current refuses a run whose cluster has moved on: it stops before its next
// provider call.
func (w *work) current() error {
	p := w.c.Position
	if p.Run == w.t.RunID() || p.Run == "" && workflow.RunID(cluster.Subject(w.c.UUID), cluster.FlowOf[p.State], p.RequestID()) == w.t.RunID() {
		return nil
	}
	return cluster.StateRefused.Errorf("cluster %s is %s now: run %s stops", w.c.Name, w.c.State, w.t.RunID()).With("state", string(w.c.State))
}

// save writes rows and nodes that belong to the book.
func (w *work) save(ctx context.Context, change cluster.Change) error {
	if len(change.Journal)+len(change.Nodes) == 0 && change.Details == nil && change.Cluster == nil {
		return nil
	}
	if change.Cluster == nil {
		change.ClusterID = w.c.ID
	}
	return w.s.commit(ctx, &change)
}

const rewrites = 10 // of an amendment that loses its compare-and-set

// amendment edits a cluster and its details, and reports whether there is
// anything to write. It may be called again.
type amendment func(c *cluster.Cluster, d *cluster.Details) bool

// pair is a cluster with its details, read in this order. Details are written
// with their cluster only: so if it still is at its revision, they are the newest.
type pair struct {
	c *cluster.Cluster
	d *cluster.Details // nil: nobody needs them
}

// copy may be edited.
func (p pair) copy() pair {
	c := *p.c
	if p.d == nil {
		return pair{c: &c}
	}
	d := *p.d
	d.Credentials = maps.Clone(d.Credentials)
	return pair{&c, &d}
}

// changed are details that are to be written; nil if they are as they were.
func changed(before, after *cluster.Details) *cluster.Details {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return after
}

// pair reads a cluster and its details.
func (s *Service) pair(ctx context.Context, uuid string) (pair, error) {
	found, _, err := s.options.Records.List(ctx, cluster.ClusterQuery{Scope: everything, UUID: uuid, WithDestroyed: true, Limit: 1})
	if err != nil {
		return pair{}, err
	}
	if len(found) == 0 {
		return pair{}, cluster.NotFound.Errorf("no cluster has the id %q", uuid)
	}
	d, err := s.options.Records.Details(ctx, uuid)
	return pair{&found[0], d}, err
}

// amend changes a cluster and its details in one write, again if somebody was
// faster.
func (s *Service) amend(ctx context.Context, uuid string, edit amendment) error {
	_, err := s.amendFrom(ctx, uuid, pair{}, edit)
	return err
}

// amendFrom is amend that begins with a pair that was read a moment ago, and
// gives what is stored now. The empty pair is read anew.
func (s *Service) amendFrom(ctx context.Context, uuid string, p pair, edit amendment) (pair, error) {
	for try := 1; ; try++ {
		if p.c == nil {
			var err error
			if p, err = s.pair(ctx, uuid); err != nil {
				return pair{}, err
			}
		}
		next := p.copy()
		if !edit(next.c, next.d) {
			return p, nil
		}
		err := s.commit(ctx, &cluster.Change{Cluster: next.c, Details: changed(p.d, next.d)})
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, fault.WriteConflict) || try == rewrites {
			return pair{}, err
		}
		p = pair{}
	}
}

// amend is Service.amend of the cluster in hand, which has it afterwards.
func (w *work) amend(ctx context.Context, edit amendment) error {
	if _, err := w.details(ctx); err != nil {
		return err
	}
	p, err := w.s.amendFrom(ctx, w.in.Cluster, pair{w.c, w.d}, edit)
	if err == nil {
		*w.c, w.d = *p.c, p.d
	}
	return err
}

// waited is how long the step has waited, over all its looks.
func (w *work) waited() time.Duration {
	if since := w.t.Waited(); since != nil {
		return w.now.Sub(since.Since)
	}
	return 0
}

// pause is when to poll again something that began so long ago: after 1, 2, 3
// … seconds, and then every 15.
func (s *Service) pause(age time.Duration) time.Duration {
	first, longest := s.options.Settings.PollFirst, s.options.Settings.PollLongest
	n := math.Floor(math.Sqrt(2*max(age.Seconds(), 0)/first.Seconds())) + 1
	return min(time.Duration(n*float64(first)), longest)
}

// doubling is the pause behind the n-th failure in a row, 1 s to 60 s.
func doubling(n int) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 10), time.Minute)
}

// each calls do for all items, so many at once, and waits for them.
func each[T any](items []T, most int, do func(T)) {
	if len(items) == 1 {
		do(items[0])
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(most, 1))
	for _, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	wg.Wait()
}

// row finds the newest journal row with a key; nil: there is none.
func (w *work) row(key string) *cluster.JournalRow {
	for i := range w.rec.Journal {
		if key != "" && w.rec.Journal[i].Key == key {
			return &w.rec.Journal[i]
		}
	}
	return nil
}

// nodes are the living nodes of a role, oldest first; of all roles if it is empty.
func (w *work) nodes(role cluster.Role) []*cluster.Node {
	var found []*cluster.Node
	for i := range w.rec.Nodes {
		if n := &w.rec.Nodes[i]; n.Removed.IsZero() && (role == "" || n.Role == role) {
			found = append(found, n)
		}
	}
	slices.SortStableFunc(found, func(a, b *cluster.Node) int { return a.Ordinal - b.Ordinal })
	return found
}

// named are the living nodes with these names.
func (w *work) named(names []string) []*cluster.Node {
	return slices.DeleteFunc(w.nodes(""), func(n *cluster.Node) bool { return !slices.Contains(names, n.Name) })
}

// makes reports a kind that the provider makes; another needs no row.
func (w *work) makes(kind cluster.Kind) bool { return slices.Contains(w.caps.Kinds, kind) }

func decodeInput(v workflow.View, in *cluster.RunInput) error { return unmarshal(v.Input(), in) }

func namesOf(nodes []*cluster.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}
