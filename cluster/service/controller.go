package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// view is a cluster as the machine sees it.
type view struct {
	cluster.Cluster
	run *machine.RunFacts // of the current visit; nil: none
	now time.Time
}

// table returns the lifecycle as a machine. It has exactly the edges of
// cluster.Edges. OperationSucceeded of a transient state becomes its Then; its
// other edges may fire at any time.
func table() machine.Table[*view] {
	t := machine.Table[*view]{
		Name: "cluster", Kind: cluster.SubjectKind, Initial: cluster.Created, States: map[machine.State]machine.StateSpec[*view]{},
		Input: func(v *view) (any, error) { return input(v, "", v.State), nil },
	}
	for _, s := range cluster.States {
		spec := machine.StateSpec[*view]{}
		if cluster.Transient(s) {
			spec.Flow, spec.Else = cluster.FlowOf[s], s
		}
		for _, e := range cluster.Edges {
			switch {
			case e.From != s:
			case e.Event == cluster.OnSucceeded:
				spec.Then = e.To
			case cluster.Transient(s):
				t.Any = append(t.Any, transition(e, string(s)+"."+string(e.Event)))
			default:
				spec.On = append(spec.On, transition(e, string(e.Event)))
			}
		}
		t.States[s] = spec
	}
	return t
}

func transition(e cluster.Edge, name string) machine.Transition[*view] {
	return machine.Transition[*view]{
		To: e.To, Event: name, Why: e.FiredBy, Cancel: machine.Drop,
		When: func(v *view) (bool, error) {
			return v.State == e.From && cluster.DueEvent(&v.Cluster, v.run, v.now) == e.Event, nil
		},
		Params: func(v *view) (any, error) {
			if !cluster.Transient(e.To) {
				return nil, nil
			}
			return input(v, e.Event, e.To), nil
		},
	}
}

// input returns the input of the run of a state.
func input(v *view, event cluster.LifecycleEvent, to machine.State) cluster.RunInput {
	return cluster.RunInput{
		Cluster: v.UUID, Event: event, From: v.State, Request: v.Request,
		First:    to == cluster.Starting && !v.Started,
		Deleting: to == cluster.Stopping && v.Desired == cluster.WantDestroyed,
		ByPolicy: v.Request == nil,
	}
}

// objects implements machine.Objects with the records of clusters.
type objects struct{ s *Service }

func (o objects) Load(ctx context.Context, ref control.Ref) (s machine.Snapshot[*view], err error) {
	found, _, err := o.s.options.Records.List(ctx, cluster.ClusterQuery{Scope: everything, UUID: ref.Name, WithDestroyed: true, Limit: 1})
	if err != nil {
		return s, err
	}
	if len(found) == 0 {
		return s, control.NotFoundError(ref)
	}
	v := &view{Cluster: found[0], now: o.s.options.Now()}
	if id := v.Cluster.Position.Run; id != "" {
		s.Run, err = o.s.engine.Get(ctx, id)
		if err != nil && !errors.Is(err, workflow.RunNotFound) {
			return s, err
		}
		v.run = machine.FactsOf(s.Run)
	}
	s.Object = v
	return s, nil
}

func (o objects) Position(v *view) (machine.Position, error) {
	p := v.Cluster.Position
	p.State = cmp.Or(p.State, v.State)
	return p, nil
}

func (o objects) Subject(v *view) string { return cluster.Subject(v.UUID) }

// Write stores a move with one Commit: position, state, reason, history, and the
// jobs that it ends.
func (o objects) Write(ctx context.Context, v *view, move machine.Move) error {
	if move.Cause == machine.ByAbort { // the run was cancelled after the lifecycle had read it: that is a failure edge
		return machine.Reconsider{Why: fmt.Sprintf("the run of cluster %s was cancelled: that is a failure of its state", v.Name)}
	}
	c := v.Cluster
	c.Position, c.RunID = move.To, move.To.Run
	change := &cluster.Change{Cluster: &c}
	if !move.Cause.Changes() {
		if err := o.s.noteRun(ctx, &c, change); err != nil {
			return err
		}
		return o.s.commit(ctx, change)
	}
	var err error
	event, reason := eventOf(move), cluster.Reason{}
	switch event {
	case cluster.OnFailed, cluster.OnCreateFailed:
		reason = cluster.ReasonOf(v.run)
	case cluster.OnFaulty:
		reason = cluster.FaultyReason(&c)
	}
	kept := reason
	if move.To.State == cluster.Destroyed {
		if kept, err = o.s.createFailure(ctx, &c); err != nil {
			return err
		}
	}
	cluster.Enter(&c, event, move.To.State, kept, v.now, cluster.Backoff{Initial: o.s.options.Settings.GCFirst, Max: o.s.options.Settings.GCLongest})
	ended, err := o.s.endJobs(ctx, &c, v.State, event, reason)
	if err != nil {
		return err
	}
	change.Jobs = ended
	change.Events = []*cluster.Event{{
		At: v.now, Type: "cluster", State: string(c.State), From: string(v.State), Event: string(event),
		Reason: reason, RunID: v.RunID, Actor: "controller",
	}}
	if err := o.s.commit(ctx, change); err != nil {
		return err
	}
	for _, job := range ended {
		o.s.options.Metrics.Operation(job.Kind, outcomes[job.Status], job.Completed.Sub(job.Created))
	}
	return nil
}

// createFailure returns the reason why the create of a cluster failed. The
// cluster keeps it when it is Destroyed. It is empty for a cluster that has
// started once. In Expunge the cluster had another reason, so it is read from
// history, if history still has it.
func (s *Service) createFailure(ctx context.Context, c *cluster.Cluster) (why cluster.Reason, err error) {
	switch {
	case c.Started:
		return why, nil
	case c.GCAttempts == 0:
		return c.Reason, nil
	}
	events, err := s.options.Records.Events(ctx, cluster.EventQuery{Scope: everything, Cluster: c.UUID, Types: []string{"cluster"}, Limit: -1})
	for _, e := range events {
		if e.Event == string(cluster.OnCreateFailed) || e.From == string(cluster.Starting) && e.Event == string(cluster.OnFailed) {
			why = e.Reason
		}
	}
	return why, err
}

// eventOf returns the event of the edge that a move takes.
func eventOf(move machine.Move) cluster.LifecycleEvent {
	if move.Cause == machine.ByThen {
		return cluster.OnSucceeded
	}
	name := move.To.Event
	return cluster.LifecycleEvent(name[strings.LastIndexByte(name, '.')+1:])
}

var everything = cluster.Scope{All: true}

// Limits of pollUnsettled. A cluster that stays unsettled is queued again after
// repollAfter, at most maxRepolls clusters per query. The pause between two
// queries is pollPauseFactor times the duration of the last one, up to
// repollAfter: ten thousand clusters whose runs wait cost less than 1 % of a
// core.
const (
	repollAfter     = 30 * time.Second
	maxRepolls      = 64
	pollPauseFactor = 400
	maxUnsettled    = 100_000
)

// newController returns the controller of the clusters. Operations, runs that
// end, and pollUnsettled add clusters to its queue.
func (s *Service) newController() control.Controller {
	return control.Controller{
		Name: "cluster", Log: s.options.Logger, Workers: 32,
		Triggers: []control.Trigger{control.Signals(s.subscribe), control.Signals(s.pollUnsettled)},
		Reconcile: func(ctx context.Context, uuid string) outcome.Outcome {
			pass := s.controller.Pass(ctx, control.Ref{Kind: cluster.SubjectKind, Namespace: "default", Name: uuid})
			if !pass.Found || pass.Wrote || pass.Outcome.IsFail() || pass.Outcome.After() > 0 {
				return pass.Outcome
			}
			return later(&pass.Object.Cluster, s.options.Now(), pass.Outcome)
		},
	}
}

// later requeues a cluster that has a time at which it moves by itself.
func later(c *cluster.Cluster, now time.Time, out outcome.Outcome) outcome.Outcome {
	next := time.Time{}
	for _, at := range []time.Time{c.RecoverNext, c.GCNext} {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if c.State == cluster.Created {
		next = c.Created.Add(cluster.NeverStarted)
	}
	if !next.After(now) {
		return out
	}
	return outcome.Later(next.Sub(now), cmp.Or(out.Reason(), "Rests"), "%s", out.Message())
}

// notify queues a cluster for the controller. It is an optimization:
// pollUnsettled finds a cluster whose notification was lost.
func (s *Service) notify(uuid string) {
	s.mu.Lock()
	wake := s.subscriber
	s.mu.Unlock()
	if wake != nil {
		wake(uuid)
	}
}

func (s *Service) subscribe(ctx context.Context, add func(string)) {
	s.mu.Lock()
	s.subscriber = add
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.subscriber = nil
	s.mu.Unlock()
}

// Hook returns the hook that queues a cluster when its run ends or pauses. Add
// it to the hooks of the engine.
func (s *Service) Hook() workflow.Hook {
	waking := []workflow.EventKind{workflow.RunPaused, workflow.RunResumed, workflow.RunCancelling, workflow.RunCancelled, workflow.RunSucceeded}
	return workflow.Hook{Name: "cluster", OnEvent: func(run workflow.RunInfo, e workflow.Event) {
		if uuid, ours := cluster.FromSubject(run.Subject); ours && slices.Contains(waking, e.Kind) {
			s.notify(uuid)
		}
	}}
}

// pollUnsettled queues clusters that are not in their desired state. It finds
// the clusters of a process that died between a write and its notification.
func (s *Service) pollUnsettled(ctx context.Context, add func(string)) {
	seen := map[string]time.Time{}
	every := s.options.Settings.ResyncEvery
	pause := every
	for tick := time.NewTimer(0); ; tick.Reset(pause) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		found, err := s.options.Records.Unsettled(ctx, s.options.Now(), maxUnsettled)
		if err != nil {
			if ctx.Err() == nil {
				s.options.Logger.Warn("unsettled clusters could not be listed", "error", err)
			}
			continue
		}
		for _, uuid := range pickDue(seen, found, time.Now()) {
			add(uuid)
		}
		pause = max(every, min(pollPauseFactor*time.Since(began), repollAfter))
	}
}

// pickDue returns the clusters to queue: all new ones, and of the others those
// that were queued longest ago. It updates seen, the time of the last queueing.
func pickDue(seen map[string]time.Time, found []string, now time.Time) []string {
	known := make(map[string]bool, len(found))
	var fresh, old []string
	for _, uuid := range found {
		known[uuid] = true
		switch at, before := seen[uuid]; {
		case !before:
			fresh = append(fresh, uuid)
		case now.Sub(at) >= repollAfter:
			old = append(old, uuid)
		}
	}
	maps.DeleteFunc(seen, func(uuid string, _ time.Time) bool { return !known[uuid] })
	slices.SortStableFunc(old, func(a, b string) int { return seen[a].Compare(seen[b]) })
	chosen := slices.Concat(fresh, old[:min(len(old), maxRepolls)])
	for _, uuid := range chosen {
		seen[uuid] = now
	}
	return chosen
}
