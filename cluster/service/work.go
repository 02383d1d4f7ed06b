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

// work is the state of one attempt of a step: the task and input of the run, and
// the cluster's record at the begin of the attempt.
type work struct {
	s        *Service
	t        *workflow.Task
	in       cluster.RunInput
	rec      *cluster.Record
	c        *cluster.Cluster // of the record
	d        *cluster.Details // nil until details reads them
	provider cluster.Provider
	caps     cluster.Capabilities
	now      time.Time // when the record was read
	began    time.Time // of the attempt
}

// stepBody is the function of a step. It keeps its state in the journal, so it may
// be called again at any time.
type stepBody func(ctx context.Context, w *work) outcome.Outcome

// bounds are the time limit of one try and the number of tries.
type bounds struct {
	timeout time.Duration
	tries   int
}

// step returns a step of a flow. Its grace is longer than a call to the provider:
// a cancelled attempt is not abandoned while its call may still end. Steps that
// only wait have no tries.
func (s *Service) step(name, text string, b bounds, do stepBody) workflow.Step {
	return workflow.Step{
		Name: name, Description: text, Timeout: b.timeout, Grace: s.options.Settings.CallTimeout + 15*time.Second,
		Retry: workflow.Retry{Attempts: b.tries, First: time.Second, Longest: time.Minute},
		Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			w, err := s.openWork(ctx, t)
			if err == nil {
				err = w.checkCurrent()
			}
			if err != nil {
				return outcome.Fail(err)
			}
			return do(ctx, w)
		},
	}
}

// finalStep returns a step that runs at the end of a run, however it ends. The
// cluster may have moved on. A final failure is only logged: the collector does
// the rest.
func (s *Service) finalStep(name, text string, do stepBody) workflow.Step {
	step := s.step(name, text, bounds{cluster.NodeRemoval, 5}, nil)
	step.Do = func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		w, err := s.openWork(ctx, t)
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

// when makes a step conditional on the input of the run.
func when(step workflow.Step, text string, holds func(in cluster.RunInput) bool) workflow.Step {
	step.WhenText = text
	step.When = func(v workflow.View) (bool, error) {
		var in cluster.RunInput
		err := decodeInput(v, &in)
		return err == nil && holds(in), err
	}
	return step
}

// openWork reads the state for an attempt.
func (s *Service) openWork(ctx context.Context, t *workflow.Task) (*work, error) {
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

// read reads the newest record.
func (w *work) read(ctx context.Context) error {
	record, err := w.s.options.Records.Record(ctx, w.in.Cluster)
	if err != nil {
		return err
	}
	w.rec, w.c, w.d, w.now = record, &record.Cluster, nil, w.s.options.Now()
	return nil
}

// details returns the details of the cluster. It reads them once per record.
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

// checkCurrent fails if the cluster has moved on to another run: this run must
// make no more calls to the provider. STATE_REFUSED.
func (w *work) checkCurrent() error {
	p := w.c.Position
	if p.Run == w.t.RunID() || p.Run == "" && workflow.RunID(cluster.Subject(w.c.UUID), cluster.FlowOf[p.State], p.RequestID()) == w.t.RunID() {
		return nil
	}
	return cluster.StateRefused.Errorf("cluster %s is %s now: run %s stops", w.c.Name, w.c.State, w.t.RunID()).With("state", string(w.c.State))
}

// save writes a change of the cluster; nothing if the change is empty.
func (w *work) save(ctx context.Context, change cluster.Change) error {
	if len(change.Journal)+len(change.Nodes) == 0 && change.Details == nil && change.Cluster == nil {
		return nil
	}
	if change.Cluster == nil {
		change.ClusterID = w.c.ID
	}
	return w.s.commit(ctx, &change)
}

const maxRewrites = 10 // of an amendment that loses its compare-and-set

// amendment edits a cluster and its details, and reports whether there is
// anything to write. It may be called again.
type amendment func(c *cluster.Cluster, d *cluster.Details) bool

// pair is a cluster with its details, read in this order. Details are only
// written together with their cluster: if the revision of the cluster has not
// changed, the details are the newest.
type pair struct {
	c *cluster.Cluster
	d *cluster.Details // nil: not needed
}

// copy returns a copy that may be edited.
func (p pair) copy() pair {
	c := *p.c
	if p.d == nil {
		return pair{c: &c}
	}
	d := *p.d
	d.Credentials = maps.Clone(d.Credentials)
	return pair{&c, &d}
}

// changed returns the details to write; nil if they have not changed.
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

// amend edits a cluster and its details in one write. After a write conflict it
// repeats the edit.
func (s *Service) amend(ctx context.Context, uuid string, edit amendment) error {
	_, err := s.amendFrom(ctx, uuid, pair{}, edit)
	return err
}

// amendFrom is amend that begins with a pair that was read before; an empty pair
// is read first. It returns the stored pair.
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
		if !errors.Is(err, fault.WriteConflict) || try == maxRewrites {
			return pair{}, err
		}
		p = pair{}
	}
}

// amend is Service.amend of the cluster of w. It updates w.
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

// waited returns how long the step has waited, over all its attempts.
func (w *work) waited() time.Duration {
	if since := w.t.Waited(); since != nil {
		return w.now.Sub(since.Since)
	}
	return 0
}

// pause returns the pause before the next poll of a call of the given age. With
// the defaults it grows by 1 s per poll up to 15 s.
func (s *Service) pause(age time.Duration) time.Duration {
	first, longest := s.options.Settings.PollFirst, s.options.Settings.PollLongest
	n := math.Floor(math.Sqrt(2*max(age.Seconds(), 0)/first.Seconds())) + 1
	return min(time.Duration(n*float64(first)), longest)
}

// failurePause returns the pause after the n-th failure in a row, 1 s to 60 s.
func failurePause(n int) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 10), time.Minute)
}

// each calls do for all items, no more than most at a time, and waits for them.
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

// row returns the journal row with a key; nil if there is none.
func (w *work) row(key string) *cluster.JournalRow {
	for i := range w.rec.Journal {
		if key != "" && w.rec.Journal[i].Key == key {
			return &w.rec.Journal[i]
		}
	}
	return nil
}

// nodes returns the nodes of a role, oldest first, without removed ones. An empty
// role means all roles.
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

// nodesNamed returns the nodes with these names, without removed ones.
func (w *work) nodesNamed(names []string) []*cluster.Node {
	return slices.DeleteFunc(w.nodes(""), func(n *cluster.Node) bool { return !slices.Contains(names, n.Name) })
}

// supports reports a kind that the provider can create. Other kinds need no row.
func (w *work) supports(kind cluster.Kind) bool { return slices.Contains(w.caps.Kinds, kind) }

func decodeInput(v workflow.View, in *cluster.RunInput) error { return unmarshal(v.Input(), in) }

func namesOf(nodes []*cluster.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}
