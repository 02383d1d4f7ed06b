package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

var everything = cluster.Scope{All: true}

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
type objects struct{ s *Controller }

func (o objects) Load(ctx context.Context, ref control.Ref) (s machine.Snapshot[*view], err error) {
	found, _, err := o.s.options.Store.List(ctx, cluster.ClusterQuery{Scope: everything, UUID: ref.Name, WithDestroyed: true, Limit: 1})
	if err != nil {
		return s, err
	}
	if len(found) == 0 {
		return s, control.NotFoundError(ref)
	}
	v := &view{Cluster: found[0], now: o.s.options.Now()}
	if id := v.Cluster.Position.Run; id != "" {
		s.Run, err = o.s.options.Runs.Get(ctx, id)
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
		return o.s.options.Store.Commit(ctx, change)
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
	if err := o.s.options.Store.Commit(ctx, change); err != nil {
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
func (s *Controller) createFailure(ctx context.Context, c *cluster.Cluster) (why cluster.Reason, err error) {
	switch {
	case c.Started:
		return why, nil
	case c.GCAttempts == 0:
		return c.Reason, nil
	}
	events, err := s.options.Store.Events(ctx, cluster.EventQuery{Scope: everything, Cluster: c.UUID, Types: []string{"cluster"}, Limit: -1})
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
