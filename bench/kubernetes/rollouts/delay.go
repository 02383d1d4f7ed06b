package rollouts

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// delay takes the release delays of rollouts that all move at once: those of Pawl, and on the same sets
// those of a loop that polls and of OpenKruise Rollouts. With hooks that hang, Pawl's only.
func delay(ctx context.Context, o Options) (f Figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	w, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.plane.Stop()) }()
	if err := w.createSets(ctx, 0, o.Rollouts, o.Pods); err != nil {
		return nil, err
	}
	f = Figures{"rollouts": float64(o.Rollouts), "pods": float64(o.Pods), "batches": float64(o.Batches)}
	if err := w.delayOfPawl(ctx, f); err != nil {
		return nil, err
	}
	if o.Alone || o.Hanging > 0 {
		return f, nil
	}
	if err := w.delayOfPolls(ctx, f); err != nil {
		return nil, err
	}
	return f, w.delayOfKruise(ctx, f)
}

// delayOfPawl rolls all sets by Pawl, beside rollouts whose hooks hang.
func (w *world) delayOfPawl(ctx context.Context, f Figures) error {
	begin := w.startPawl
	if w.Hanging > 0 || w.Profile != "" {
		begin = w.startServing
	}
	operator, err := begin(ctx, w.kubeconfig)
	if err != nil {
		return err
	}
	defer operator.stop()
	if err := w.createRollouts(ctx, 0, w.Rollouts, w.plan()); err != nil {
		return operator.failed(err)
	}
	hooks := &hangingHooks{}
	if w.Hanging > 0 {
		if err := w.hang(ctx, hooks); err != nil {
			return operator.failed(err)
		}
		defer hooks.stop()
	}
	from, err := w.offset()
	if err != nil {
		return err
	}
	cpu, asked := operator.cpu(), hooks.answered()
	took, err := w.rollAll(ctx, w.Rollouts, 0, func(name string) error { return w.setImage(ctx, name, "r1") }, rolledByPawl("r1"))
	if err != nil {
		return operator.failed(err)
	}
	f["operatorCPUSeconds"], f["seconds"] = (operator.cpu() - cpu).Seconds(), took.Seconds()
	if w.Hanging > 0 {
		f["hanging"], f["hooksUnderWay"], f["hooksAnsweredMeanwhile"] = float64(w.Hanging), hooks.most(), hooks.answered()-asked
	}
	delays, err := w.delays(from, w.Rollouts)
	if err != nil {
		return err
	}
	addDelays(f, "delay", delays)
	w.Logf("Pawl: %d rollouts in %v, delays of %.0f ms (p50) and %.0f ms (p99)", w.Rollouts, took.Round(time.Millisecond), f["delayP50Ms"], f["delayP99Ms"])
	if w.Hanging > 0 {
		return nil // they hang for ever: the plane takes them along
	}
	return w.deleteRollouts(ctx)
}

// delayOfPolls rolls all sets by a loop for each that looks every 5 s, as KubeVela's controller does.
func (w *world) delayOfPolls(ctx context.Context, f Figures) error {
	from, err := w.offset()
	if err != nil {
		return err
	}
	began := time.Now()
	err = each(w.Rollouts, 0, func(i int) error { return w.poll(ctx, setName(i), "r2") })
	if err != nil {
		return fmt.Errorf("the loop that polls: %w", err)
	}
	f["pollSeconds"] = time.Since(began).Seconds()
	delays, err := w.delays(from, w.Rollouts)
	if err != nil {
		return fmt.Errorf("the loop that polls: %w", err)
	}
	addDelays(f, "poll", delays)
	w.Logf("polling: %d rollouts in %v, delays of %.0f ms (p50) and %.0f ms (p99)", w.Rollouts, time.Since(began).Round(time.Millisecond), f["pollP50Ms"], f["pollP99Ms"])
	return nil
}
