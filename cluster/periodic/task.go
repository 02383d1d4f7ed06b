// Package periodic runs tasks of a server at intervals, each part of a task in one
// process at a time.
package periodic

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/outcome"
)

// The lease of a part: its holder renews it.
const (
	leaseDuration = 30 * time.Second
	leaseRenew    = 10 * time.Second
)

// Task is a control.Runner that makes passes over each part of its work, by one
// process at a time. A pass may end at any moment: the next one, in any process,
// does the rest.
type Task struct {
	Name   string
	Parts  []string
	Every  time.Duration
	First  func(ctx context.Context, part string) // returns when the first pass may begin; nil: at once
	Pass   func(ctx context.Context, part string) error
	Locks  lock.Backend // of the leases; nil: there is only this process
	Owner  string       // name of this process in locks
	Logger *slog.Logger
}

// Run implements control.Runner.
func (d *Task) Run(ctx context.Context) error {
	held := map[string]*lease{}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var renewals sync.WaitGroup
	for _, name := range d.Parts {
		h := d.lease("cluster/" + d.Name + "/" + name)
		held[name] = h
		renewals.Go(func() { h.renewLoop(renewing) })
	}
	defer func() { // after the last pass
		stop()
		renewals.Wait()
	}()
	return control.Controller{
		Name: "cluster-" + d.Name, Log: d.Logger, Workers: len(d.Parts),
		Triggers: []control.Trigger{control.Signals(func(ctx context.Context, add func(string)) {
			var waits sync.WaitGroup
			defer waits.Wait()
			for _, name := range d.Parts {
				waits.Go(func() {
					if d.First != nil {
						d.First(ctx, name)
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

func (d *Task) reconcile(ctx context.Context, h *lease, name string) outcome.Outcome {
	ctx, ok := h.begin(ctx)
	if !ok {
		return outcome.Later(leaseRenew, "LockNotHeld", "another process works on %s", name)
	}
	defer h.end()
	if err := d.Pass(ctx, name); err != nil && ctx.Err() == nil {
		d.Logger.Warn("a pass failed", "task", d.Name, "part", name, "error", err)
	}
	return outcome.Later(jitter(d.Every), "Pass", "the next pass is planned")
}

// jitter spreads what several processes do at the same interval: a tenth up or down.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1)) //nolint:gosec // not a secret
}

// lease is the lease of one part of a periodic task. The process keeps it
// between passes, so that it makes all passes as long as it lives.
type lease struct {
	locker lock.Locker
	name   string

	mu         sync.Mutex
	held       bool
	ends       time.Time          // by the clock of this process
	cancelPass context.CancelFunc // cancels the current pass
}

func (d *Task) lease(name string) *lease {
	return &lease{name: name, locker: lock.Locker{Backend: d.Locks, Owner: d.Owner, Duration: leaseDuration}}
}

var errLockLost = errors.New("periodic: the lease of the task was lost")

// begin begins a pass. The context of the pass ends when the lease is lost.
// false: another process holds the lease, or its holder is unknown.
func (h *lease) begin(ctx context.Context) (context.Context, bool) {
	if h.locker.Backend == nil {
		return ctx, true
	}
	if !h.renew(ctx) {
		return ctx, false
	}
	pass, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	h.cancelPass = func() { cancel(errLockLost) }
	h.mu.Unlock()
	return pass, true
}

func (h *lease) end() {
	h.mu.Lock()
	cancelPass := h.cancelPass
	h.cancelPass = nil
	h.mu.Unlock()
	if cancelPass != nil {
		cancelPass()
	}
}

// renew takes or renews the lease, and reports whether it is held. If the
// backend does not answer, the lease holds until its end.
func (h *lease) renew(ctx context.Context) bool {
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
	if !h.held && h.cancelPass != nil {
		h.cancelPass()
		h.cancelPass = nil
	}
	return h.held
}

// renewLoop renews the lease while it is held, and releases it at the end.
func (h *lease) renewLoop(ctx context.Context) {
	if h.locker.Backend == nil {
		return
	}
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = h.locker.Release(last, h.name) // otherwise it expires
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
