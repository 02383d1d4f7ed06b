package local

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/outcome"
)

// Reconciler makes passes over the objects of one kind.
type Reconciler interface {
	Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome
	Listen(ctx context.Context, notify func(control.Ref))
}

// Controller runs an operator on the objects of one kind.
type Controller struct {
	Kind     string // default SharedStorageCluster
	Operator Reconciler
	Objects  control.Objects
	// Touch tells the engine that a cluster has changed, by the subject of its runs, so that it
	// checks the conditions of waiting steps. nil: it is not told.
	Touch   func(ctx context.Context, subject string) error
	Metrics control.Metrics // nil: none
	Log     *slog.Logger    // nil: slog.Default
}

// maxRetryPause limits the pause between two tries of a pass that fails. The controller never
// gives up a cluster.
const maxRetryPause = time.Minute

// Serve works until the context ends, then drains.
func (c Controller) Serve(ctx context.Context) error {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	kind := cmp.Or(c.Kind, sharedstorage.Kind)
	shared := control.NewShared(c.Objects.Feed(kind), control.SharedOptions[control.Object]{Name: kind, Metrics: c.Metrics, Log: c.Log})
	shared.Handle(c.touch)
	notify := control.Signals(func(ctx context.Context, add func(key string)) {
		c.Operator.Listen(ctx, func(ref control.Ref) { add(ref.String()) })
	})
	return control.Run(ctx, []control.Runner{shared}, []control.Runner{control.Controller{
		Name: kind, Triggers: []control.Trigger{control.For(shared, specChanged), notify}, MaxRetries: math.MaxInt,
		Queue: control.QueueOptions{Longest: maxRetryPause}, Metrics: c.Metrics, Log: c.Log,
		Reconcile: func(ctx context.Context, key string) outcome.Outcome {
			ref, err := control.ParseRef(key)
			if err != nil {
				return outcome.Fail(err)
			}
			return c.Operator.Reconcile(ctx, ref)
		},
	}})
}

// specChanged reports whether somebody asked something new of a cluster. The operator itself
// changes the status.
func specChanged(e control.Event[control.Object]) bool {
	return control.DesiredChanged(e) || !maps.Equal(e.Old.Labels, e.New.Labels) || !maps.Equal(e.Old.Annotations, e.New.Annotations)
}

func (c Controller) touch(ctx context.Context, e control.Event[control.Object]) {
	if c.Touch == nil || e.Created || e.Deleted || e.Resync {
		return
	}
	if err := c.Touch(ctx, e.New.Ref.String()+"/"+e.New.UID); err != nil && ctx.Err() == nil {
		c.Log.Warn("the engine was not told of a changed cluster", "object", e.Key, "error", err)
	}
}
