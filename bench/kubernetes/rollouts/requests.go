package rollouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const patience = 25 * time.Minute

// requests counts what a batch with one release costs the operator: from the release of the first batch
// to that of the last.
func requests(ctx context.Context, o Options) (f Figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if o.Batches < 2 {
		return nil, errors.New("one batch: there is no release after another one")
	}
	w, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.plane.Stop()) }()
	x, err := w.startProxy(w.kubeconfig)
	if err != nil {
		return nil, err
	}
	operator, err := w.startPawl(ctx, x.kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := w.createSets(ctx, 0, 1, o.Pods); err != nil {
		return nil, err
	}
	if err := w.createRollouts(ctx, 0, 1, o.plan()); err != nil {
		return nil, operator.failed(err)
	}
	if _, err := x.quiet(ctx, 3*time.Second); err != nil {
		return nil, err
	}
	var all, early, late []cost
	var took, cpu time.Duration
	var delays []time.Duration
	part := max(1, (o.Batches-1)/10)
	times := max(1, countedBatches/o.Batches)
	for i := range times {
		r, err := w.countRollout(ctx, x, operator, fmt.Sprint("r", i+1))
		if err != nil {
			return nil, operator.failed(err)
		}
		all, early, late = append(all, r.between(0, o.Batches-1)), append(early, r.between(0, part)), append(late, r.between(o.Batches-1-part, o.Batches-1))
		took, cpu, delays = took+r.took, cpu+r.cpu, append(delays, r.delays...)
	}
	slices.Sort(delays)
	sum, first, last := sumOf(all), sumOf(early), sumOf(late)
	w.Logf("%d rollouts took %v; between their first and last releases: %v", times, took.Round(time.Millisecond), sum.by)
	batches, parts := float64(times*(o.Batches-1)), float64(times*part)
	f = Figures{
		"pods": float64(o.Pods), "batches": float64(o.Batches), "rollouts": float64(times), "seconds": took.Seconds(), "operatorCPUSeconds": cpu.Seconds(),
		"requestsPerBatch": sum.requests / batches, "bytesPerBatch": (sum.sent + sum.received) / batches,
		"sentPerBatch": sum.sent / batches, "receivedPerBatch": sum.received / batches, "largestStatusWrite": sum.largestSent,
		"requestsPerEarlyBatch": first.requests / parts, "requestsPerLateBatch": last.requests / parts,
		"bytesPerEarlyBatch": (first.sent + first.received) / parts, "bytesPerLateBatch": (last.sent + last.received) / parts,
	}
	addDelays(f, "delay", delays)
	return f, nil
}

// countedBatches are how many batches are counted at least: a small set is rolled several times, so
// that its history is as long as that of a large one.
const countedBatches = 100

// counted is one rollout of the first set.
type counted struct {
	releases  []time.Time
	calls     []call
	took, cpu time.Duration
	delays    []time.Duration
}

// between is the cost of the batches from first+1 to last.
func (r counted) between(first, last int) cost {
	begin, end := r.releases[first], r.releases[last]
	return costOf(slices.DeleteFunc(slices.Clone(r.calls), func(c call) bool { return !c.at.After(begin) || c.at.After(end) }))
}

// countRollout rolls the first set.
func (w *world) countRollout(ctx context.Context, x *proxy, operator *operator, image string) (r counted, err error) {
	from, err := w.offset()
	if err != nil {
		return r, err
	}
	x.take()
	cpu := operator.cpu()
	if r.took, err = w.rollAll(ctx, 1, 1, func(name string) error { return w.setImage(ctx, name, image) }, rolledByPawl(image)); err != nil {
		return r, err
	}
	r.cpu = operator.cpu() - cpu
	if r.delays, err = w.delays(from, 1); err != nil {
		return r, err
	}
	moments, err := w.moments(from)
	if err != nil {
		return r, err
	}
	for _, i := range releases(moments[setName(0)], w.Pods) {
		r.releases = append(r.releases, moments[setName(0)][i].at)
	}
	r.calls = x.take()
	return r, nil
}
