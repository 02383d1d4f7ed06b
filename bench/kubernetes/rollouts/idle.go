package rollouts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// settle is how long an operator has sent nothing when it counts as at rest.
const settle = 15 * time.Second

// Idle measures the operator beside Rollouts at rest, each of which has rolled its set once, against an
// operator without any: requests, CPU and resident memory.
func Idle(ctx context.Context, o Options) (f Figures, err error) {
	o.Pods = cmp.Or(o.Pods, 1)
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	w, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.plane.Stop()) }()
	x, err := w.startProxy(w.kubeconfig)
	if err != nil {
		return nil, err
	}
	alone, err := w.rest(ctx, x)
	if err != nil {
		return nil, err
	}
	if err := w.rolledOnce(ctx); err != nil {
		return nil, err
	}
	loaded, err := w.rest(ctx, x)
	if err != nil {
		return nil, err
	}
	return Figures{
		"rollouts": float64(o.Rollouts), "pods": float64(o.Pods), "forSeconds": o.Rest.Seconds(),
		"callsPerMinute": loaded.calls, "leaseCallsPerMinute": loaded.leases, "cores": loaded.cores,
		"coresWithoutRollouts": alone.cores, "callsPerMinuteWithoutRollouts": alone.calls,
		"residentMiB": loaded.resident / (1 << 20), "residentMiBWithoutRollouts": alone.resident / (1 << 20),
		"residentKBPerRollout": (loaded.resident - alone.resident) / 1000 / float64(o.Rollouts),
		"startSeconds":         loaded.start.Seconds(), "startCPUSeconds": loaded.startCPU.Seconds(),
	}, nil
}

// rolledOnce makes the sets and their Rollouts, and rolls each.
func (w *world) rolledOnce(ctx context.Context) error {
	operator, err := w.startPawl(ctx, w.kubeconfig)
	if err != nil {
		return err
	}
	defer operator.stop()
	if err := w.createSets(ctx, 0, w.Rollouts, w.Pods); err != nil {
		return err
	}
	if err := w.createRollouts(ctx, 0, w.Rollouts, w.plan()); err != nil {
		return operator.failed(err)
	}
	took, err := w.rollAll(ctx, w.Rollouts, 100, func(name string) error { return w.setImage(ctx, name, "r1") }, rolledByPawl("r1"))
	w.Logf("%d rollouts in %v", w.Rollouts, took.Round(time.Millisecond))
	return operator.failed(err)
}

// atRest is what an operator costs that has nothing to do.
type atRest struct {
	calls, leases   float64 // a minute
	cores, resident float64
	start, startCPU time.Duration // until it has nothing to do any more
}

// rest starts an operator, waits until it has nothing to do, and measures it.
func (w *world) rest(ctx context.Context, x *proxy) (atRest, error) {
	x.take()
	operator, err := w.startPawl(ctx, x.kubeconfig)
	if err != nil {
		return atRest{}, err
	}
	defer operator.stop()
	var r atRest
	took, err := x.quiet(ctx, settle)
	if err != nil {
		return atRest{}, operator.failed(err)
	}
	r.start = took
	r.startCPU = operator.cpu()
	cpu := operator.cpu()
	if err := pause(ctx, w.Rest); err != nil {
		return atRest{}, operator.failed(err)
	}
	calls := x.take()
	work := working(calls)
	for _, c := range work {
		w.Logf("at rest: %s %s", c.what, c.path)
	}
	r.cores = (operator.cpu() - cpu).Seconds() / w.Rest.Seconds()
	r.calls, r.leases = float64(len(work))/w.Rest.Minutes(), float64(len(calls)-len(work))/w.Rest.Minutes()
	r.resident = operator.resident()
	w.Logf("at rest: %+v", r)
	return r, nil
}

// quiet waits until there was no call but for leases for so long, and forgets the calls. It returns
// when the last one was, from its own call on; there has to be one.
func (x *proxy) quiet(ctx context.Context, d time.Duration) (last time.Duration, err error) {
	began := time.Now()
	for last == 0 || time.Since(began)-last < d {
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return 0, err
		}
		if len(working(x.take())) > 0 {
			last = time.Since(began)
		}
	}
	return last, nil
}

// working are the calls that are not for leases.
func working(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), call.leases)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
