// Package controller drives clusters through their lifecycle: it fires due events,
// starts one run for each visit of a transient state, and ends failed runs.
package controller

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Store is the part of cluster.Store that the controller uses.
type Store interface {
	List(ctx context.Context, q cluster.ClusterQuery) ([]cluster.Cluster, int, error)
	Commit(ctx context.Context, c *cluster.Change) error
	Jobs(ctx context.Context, q cluster.JobQuery) ([]cluster.Job, int, error)
	Events(ctx context.Context, q cluster.EventQuery) ([]cluster.Event, error)
	Unsettled(ctx context.Context, now time.Time, limit int) ([]string, error)
}

// Metrics receives measurements. It must be safe for concurrent use.
type Metrics interface {
	Operation(kind, outcome string, took time.Duration)
}

// Options of a Controller.
type Options struct {
	Store    Store
	Runs     machine.Flows
	Settings settings.Settings
	Metrics  Metrics
	Logger   *slog.Logger
	Now      func() time.Time
}

// Controller brings clusters to their desired state.
type Controller struct {
	options Options
	machine *machine.Machine[*view]

	mu         sync.Mutex
	subscriber func(uuid string) // adds to the queue; nil: the controller does not run
}

// New returns a controller. Run needs Bind first.
func New(o Options) *Controller { return &Controller{options: o} }

// Bind builds the machine of the lifecycle once the engine has its flows. known
// reports a flow of the engine; nil: it cannot tell. MACHINE_INVALID.
func (s *Controller) Bind(known func(flow string) bool) error {
	m, err := machine.New(table(), machine.Options[*view]{Objects: objects{s}, Flows: s.options.Runs, Known: known, Now: s.options.Now, Logger: s.options.Logger})
	s.machine = m
	return err
}

// Run drives clusters until the context ends. Operations, runs that end, and
// pollUnsettled add clusters to its queue.
func (s *Controller) Run(ctx context.Context) error {
	return control.Controller{
		Name: "cluster", Log: s.options.Logger, Workers: 32,
		Triggers: []control.Trigger{control.Signals(s.subscribe), control.Signals(s.pollUnsettled)},
		Reconcile: func(ctx context.Context, uuid string) outcome.Outcome {
			pass := s.machine.Pass(ctx, control.Ref{Kind: cluster.SubjectKind, Namespace: "default", Name: uuid})
			if !pass.Found || pass.Wrote || pass.Outcome.IsFail() || pass.Outcome.After() > 0 {
				return pass.Outcome
			}
			return later(&pass.Object.Cluster, s.options.Now(), pass.Outcome)
		},
	}.Run(ctx)
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

// Notify queues a cluster for the controller. It is an optimization:
// pollUnsettled finds a cluster whose notification was lost.
func (s *Controller) Notify(uuid string) {
	s.mu.Lock()
	wake := s.subscriber
	s.mu.Unlock()
	if wake != nil {
		wake(uuid)
	}
}

func (s *Controller) subscribe(ctx context.Context, add func(string)) {
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
func (s *Controller) Hook() workflow.Hook {
	waking := []runtype.EventKind{runtype.RunPaused, runtype.RunResumed, runtype.RunCancelling, runtype.RunCancelled, runtype.RunSucceeded}
	return workflow.Hook{Name: "cluster", OnEvent: func(run workflow.RunInfo, e runtype.Event) {
		if uuid, ours := cluster.FromSubject(run.Subject); ours && slices.Contains(waking, e.Kind) {
			s.Notify(uuid)
		}
	}}
}
