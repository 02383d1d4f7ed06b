package service

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/outcome"
)

// The lock of a shard: whoever works on it renews it while it lives.
const (
	taskLeaseName  = 30 * time.Second
	taskLeaseRenew = 10 * time.Second
)

// periodicTask is work that is done again and again for each shard, by one process at
// a time. It is a control.Runner. A pass may end at any moment: what it did not
// get to is done by the next, here or elsewhere.
type periodicTask struct {
	s      *Service
	name   string
	shards []string
	every  time.Duration
	first  func(ctx context.Context, lease string) // returns when the first pass may begin; nil: at once
	pass   func(ctx context.Context, lease string) error
}

// Run implements control.Runner.
func (d *periodicTask) Run(ctx context.Context) error {
	held := map[string]*taskLease{}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var renewals sync.WaitGroup
	for _, name := range d.shards {
		h := d.s.taskLease("cluster/" + d.name + "/" + name)
		held[name] = h
		renewals.Go(func() { h.keep(renewing) })
	}
	defer func() { // after the last pass
		stop()
		renewals.Wait()
	}()
	return control.Controller{
		Name: "cluster-" + d.name, Log: d.s.options.Logger, Workers: len(d.shards),
		Triggers: []control.Trigger{control.Signals(func(ctx context.Context, add func(string)) {
			var waits sync.WaitGroup
			defer waits.Wait()
			for _, name := range d.shards {
				waits.Go(func() {
					if d.first != nil {
						d.first(ctx, name)
					}
					add(name)
				})
			}
		})},
		Reconcile: func(pass context.Context, name string) outcome.Outcome {
			pass, cancel := context.WithCancelCause(pass)
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() { cancel(control.ErrStopped) })()
			return d.reconcile(pass, held[name], name)
		},
	}.Run(ctx)
}

func (d *periodicTask) reconcile(ctx context.Context, h *taskLease, name string) outcome.Outcome {
	ctx, ok := h.take(ctx)
	if !ok {
		return outcome.Later(taskLeaseRenew, "LockNotHeld", "another process works on %s", name)
	}
	defer h.rest()
	if err := d.pass(ctx, name); err != nil && ctx.Err() == nil {
		d.s.options.Logger.Warn("a pass failed", "duty", d.name, "shard", name, "error", err)
	}
	return outcome.Later(jitter(d.every), "Pass", "the next pass is planned")
}

// jitter spreads what several processes do at the same interval: a tenth up or down.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1)) //nolint:gosec // not a secret
}

// taskLease is a lock in the hands of a duty. Between passes it is kept as well, so
// that one process does all the passes as long as it lives.
type taskLease struct {
	locker lock.Locker
	name   string

	mu   sync.Mutex
	held bool
	ends time.Time          // by the clock of this process
	lose context.CancelFunc // of the pass under way
}

func (s *Service) taskLease(name string) *taskLease {
	return &taskLease{name: name, locker: lock.Locker{Backend: s.options.Locks, Owner: s.worker(), Duration: taskLeaseName}}
}

// worker is the name of this process in locks.
func (s *Service) worker() string {
	return cmp.Or(s.options.Worker, s.background.worker)
}

var errLockLost = errors.New("service: the lock of the shard was lost")

// take begins a pass: its context ends when the lock is lost. false: somebody
// else has it, or nobody can say.
func (h *taskLease) take(ctx context.Context) (context.Context, bool) {
	if h.locker.Backend == nil {
		return ctx, true
	}
	if !h.renew(ctx) {
		return ctx, false
	}
	pass, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	h.lose = func() { cancel(errLockLost) }
	h.mu.Unlock()
	return pass, true
}

func (h *taskLease) rest() {
	h.mu.Lock()
	lose := h.lose
	h.lose = nil
	h.mu.Unlock()
	if lose != nil {
		lose()
	}
}

// renew asks for the lock once more. If nobody can say, it holds until its end.
func (h *taskLease) renew(ctx context.Context) bool {
	before := time.Now()
	v, err := h.locker.Take(ctx, h.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && v.Granted:
		h.held, h.ends = true, before.Add(v.Record.End.Sub(v.Taken))
	case err == nil || !time.Now().Before(h.ends):
		h.held = false
	}
	if !h.held && h.lose != nil {
		h.lose()
		h.lose = nil
	}
	return h.held
}

// keep renews the lock while it is held, and gives it back at the end.
func (h *taskLease) keep(ctx context.Context) {
	if h.locker.Backend == nil {
		return
	}
	tick := time.NewTicker(taskLeaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = h.locker.Release(last, h.name) // else it ends by itself
			return
		case <-tick.C:
		}
		h.mu.Lock()
		held := h.held
		h.mu.Unlock()
		if held {
			h.renew(ctx)
		}
	}
}
