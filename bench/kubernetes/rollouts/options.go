// Package rollouts measures the operator of Rollouts on a real control plane: etcd, API server,
// controller manager and scheduler of package controlplane, with pods on paper. The StatefulSets are
// those of kube-controller-manager. Figures that other programs share with Pawl are measured by them
// in the same run, on the same sets.
package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Figures are the printed figures.
type Figures = map[string]float64

// Options are the sizes of a measure.
type Options struct {
	Bin      string // folder of the programs of the control plane
	Pawl     string // file; empty: it is built
	Rollouts int
	Pods     int           // of each StatefulSet
	Batches  int           // of each Rollout
	Moving   int           // at once; 0: all
	Hanging  int           // hooks that answer after HookDelay
	Start    time.Duration // a new pod takes from half to one and a half of it to become ready
	Alone    bool
	Profile  string        // file for a CPU profile of the operator
	Rest     time.Duration // how long calls at rest are counted
	Logf     func(format string, args ...any)
}

// HookDelay is how long a hanging hook takes to answer.
const HookDelay = 10 * time.Second

// Measures are the measures by name.
var Measures = map[string]func(context.Context, Options) (Figures, error){
	"rollout": Rollout, "rollouts-idle": Idle, "rollout-growth": Growth,
}

// withDefaults fills in the sizes that were not given.
func (o Options) withDefaults() Options {
	if o.Hanging > 0 {
		o.Pods = cmp.Or(o.Pods, 20)
	}
	o.Pods = cmp.Or(o.Pods, 3)
	if o.Batches == 0 {
		o.Batches = min(o.Pods, 10)
	}
	return o
}

// Rollout measures rollouts that move: a single one counts the requests of the operator; with Moving
// it takes the time against the controllers alone; else it takes release delays.
func Rollout(ctx context.Context, o Options) (Figures, error) {
	o = o.withDefaults()
	if o.Batches > o.Pods {
		return nil, fmt.Errorf("%d batches of %d pods: a batch would be empty", o.Batches, o.Pods)
	}
	switch {
	case o.Rollouts == 1:
		return requests(ctx, o)
	case o.Moving > 0:
		return moving(ctx, o)
	}
	return delay(ctx, o)
}
