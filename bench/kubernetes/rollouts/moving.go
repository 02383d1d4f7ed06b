package rollouts

import (
	"context"
	"errors"
	"time"
)

// moving takes the time in which all rollouts end, so many at once, and that of the controllers alone
// for the same sets: template and partition 0 written in one patch, as many at once.
func moving(ctx context.Context, o Options) (f Figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	w, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.plane.Stop()) }()
	if err := w.createSets(ctx, 0, o.Rollouts, o.Pods); err != nil {
		return nil, err
	}
	// Half of what the controllers do alone comes before Pawl and half behind it, as the machine and
	// etcd grow slower or faster.
	alone := func(image string) (time.Duration, error) {
		return w.rollAll(ctx, o.Rollouts, o.Moving, func(name string) error { return w.setImageAt(ctx, name, image, 0) }, rolled(image))
	}
	before, err := alone("a1")
	if err != nil {
		return nil, err
	}
	w.Logf("the controllers alone: %v", before.Round(time.Millisecond))
	took, cpu, delays, err := w.movedByPawl(ctx)
	if err != nil {
		return nil, err
	}
	after, err := alone("a2")
	if err != nil {
		return nil, err
	}
	w.Logf("the controllers alone: %v", after.Round(time.Millisecond))
	mean := (before + after) / 2
	f = Figures{
		"rollouts": float64(o.Rollouts), "pods": float64(o.Pods), "batches": float64(o.Batches), "moving": float64(o.Moving),
		"seconds": took.Seconds(), "aloneSeconds": mean.Seconds(), "aloneBeforeSeconds": before.Seconds(), "aloneAfterSeconds": after.Seconds(),
		"timesOfAlone": took.Seconds() / mean.Seconds(), "operatorCPUSeconds": cpu.Seconds(),
	}
	addDelays(f, "delay", delays)
	return f, nil
}

func (w *world) movedByPawl(ctx context.Context) (took, cpu time.Duration, delays []time.Duration, err error) {
	begin := w.startPawl
	if w.Profile != "" {
		begin = w.startServing
	}
	operator, err := begin(ctx, w.kubeconfig)
	if err != nil {
		return 0, 0, nil, err
	}
	defer operator.stop()
	if err := w.createRollouts(ctx, 0, w.Rollouts, w.plan()); err != nil {
		return 0, 0, nil, operator.failed(err)
	}
	from, err := w.offset()
	if err != nil {
		return 0, 0, nil, err
	}
	cpu = operator.cpu()
	took, err = w.rollAll(ctx, w.Rollouts, w.Moving, func(name string) error { return w.setImage(ctx, name, "r1") }, rolledByPawl("r1"))
	if err != nil {
		return 0, 0, nil, operator.failed(err)
	}
	cpu = operator.cpu() - cpu
	w.Logf("Pawl: %d rollouts in %v, %v of CPU", w.Rollouts, took.Round(time.Millisecond), cpu.Round(time.Millisecond))
	if delays, err = w.delays(from, w.Rollouts); err != nil {
		return 0, 0, nil, err
	}
	return took, cpu, delays, w.deleteRollouts(ctx)
}
