package workflow

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/workflow/internal/lease"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var started atomic.Int64

// workerName returns a name for this start of the worker. After a restart the worker is another
// owner.
func workerName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d-%x-%d", host, os.Getpid(), time.Now().UnixNano(), started.Add(1))
}

func newID() string { return "id-" + rand.Text()[:16] }

// server claims runs and executes each with a driver.
type server struct{ *Engine }

func (e *Engine) server() server { return server{e} }

// Serve claims and executes due runs until ctx ends. Then it drains: it claims nothing more, waits
// Options.Drain for open attempts, cancels the remaining ones with ErrDraining, and releases the
// leases. The store must be a Claimer.
func (e *Engine) Serve(ctx context.Context) error {
	claimer, ok := e.store.(runstore.Claimer)
	if !ok {
		return fmt.Errorf("workflow: the store %T cannot be claimed from: call Advance instead", e.store)
	}
	e.mu.Lock()
	if e.serving {
		e.mu.Unlock()
		return errors.New("workflow: the engine is serving already")
	}
	e.serving = true
	e.begin()
	e.mu.Unlock()
	stopLease := e.leases().keepLease(claimer)
	var tidy sync.WaitGroup
	tidy.Go(func() { e.server().retainLoop(ctx) })
	e.server().claimLoop(ctx, claimer)
	tidy.Wait()
	return e.server().drain(claimer, stopLease)
}

// claimLoop is the only goroutine that claims runs. It has the only timer of the worker.
func (e server) claimLoop(ctx context.Context, claimer runstore.Claimer) {
	wake := claimer.Wake()
	retries := 0
	for ctx.Err() == nil {
		next := time.Now().Add(e.options.PollInterval)
		var claimedAllAt time.Time // time of the last claim that returned every due run
		if free := e.slots.Free(); free > 0 && e.Health() == nil {
			full := e.slots.FullFlows()
			sentAt := lease.Now()
			claimed, err := claimer.Claim(ctx, runstore.Claim{Worker: e.options.Worker, Limit: free, Lease: e.options.Lease, FullFlows: full})
			if err != nil && ctx.Err() == nil {
				retries++
				e.health.failed(err)
				next = time.Now().Add(Retry{First: 50 * time.Millisecond, Longest: 5 * time.Second}.delay(retries, seed(e.options.Worker, "", retries)))
			} else {
				retries = 0
			}
			term := 0
			if len(claimed.Runs) > 0 {
				term = e.lease.Extend(sentAt, e.lease.ClaimSpend())
			}
			for _, l := range claimed.Runs {
				e.launch(l, term)
			}
			if len(claimed.Runs) == free {
				continue
			}
			if err == nil && len(full) == 0 {
				claimedAllAt = time.Now()
			}
			if !claimed.Next.IsZero() && claimed.Next.Before(next) {
				next = claimed.Next
			}
		} else if e.Health() != nil {
			e.probe(ctx)
			next = time.Now().Add(time.Second)
		}
		if at := e.unpark(); !at.IsZero() && at.Before(next) {
			next = at
		}
		e.idle(ctx, wake, next, claimedAllAt)
	}
}

// claimCooldown: after a claim has returned every due run, a freed slot does not cause another
// claim for this time; new work arrives through Wake.
const claimCooldown = time.Second

// idle blocks until there may be a run to claim or a parked run to continue.
func (e server) idle(ctx context.Context, wake <-chan string, next, claimedAllAt time.Time) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.claimWake:
		case <-e.slots.Freed:
			if time.Since(claimedAllAt) < claimCooldown {
				continue
			}
		case id := <-wake:
			e.handleWake(id)
			for more := true; more; {
				select {
				case id := <-wake:
					e.handleWake(id)
				default:
					more = false
				}
			}
		}
		return
	}
}

// handleWake passes a wake-up from the store to the driver of the run.
func (e server) handleWake(id string) {
	if id == "" {
		e.handleLostWakes()
		return
	}
	if e.notify(id, false) {
		return
	}
	e.mu.Lock()
	_, parked := e.parks[id]
	e.mu.Unlock()
	if parked {
		e.claimRun(id)
	}
}

// handleLostWakes wakes everything, because the store has dropped wake-ups.
func (e server) handleLostWakes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.drivers {
		d.notifyMail()
	}
	for id := range e.parks {
		e.parks[id], e.parkAt = time.Time{}, time.Unix(0, 0)
	}
}

// launch executes a claimed run in a new goroutine.
func (e server) launch(l runstore.Loaded, term int) {
	d := e.newDriver(l, term)
	if e.register(d) {
		go e.run(d)
	}
}

// register makes d the only driver of its run. If the previous driver has not ended yet, register
// returns false and wakes that driver, so that the run is claimed again.
func (e server) register(d *driver) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if other := e.drivers[d.s.run.ID]; other != nil {
		other.notifyMail()
		return false
	}
	e.drivers[d.s.run.ID] = d
	delete(e.parks, d.s.run.ID)
	e.active.Add(1)
	return true
}

// notify tells the driver of a run, if there is one, that mail has arrived or that the subject has
// changed. It holds the lock so that unregister does not miss the message.
func (e server) notify(id string, touched bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.drivers[id]
	if d == nil {
		return false
	}
	if touched {
		d.inboxMu.Lock()
		d.touched = true
		d.inboxMu.Unlock()
	}
	d.notifyMail()
	return true
}

// run executes a run. If the driver gave it up while attempts are open, the driver stays registered
// until they have returned, so that this worker does not start a second copy.
func (e server) run(d *driver) {
	d.drive()
	if d.lost && len(d.s.open) > 0 {
		go func() {
			d.running.Wait()
			e.unregister(d)
		}()
		return
	}
	e.unregister(d)
}

// unregister removes a driver. A message that arrived meanwhile makes the run due again.
func (e server) unregister(d *driver) {
	defer e.active.Done()
	id := d.s.run.ID
	e.mu.Lock()
	delete(e.drivers, id)
	e.mu.Unlock()
	if d.lost { // the store may still name this worker as the owner: then no other worker claims the run
		e.claimAt(id, time.Now().Add(retakeDelay))
		return
	}
	select {
	case <-d.inbox:
		e.claimAt(id, time.Now())
	default:
		if !d.s.run.NextAt.IsZero() && !d.s.run.Phase.Final() {
			e.wakeClaimLoop() // it released no slot, so the claim loop does not know yet when the run is due
		}
	}
}

// retakeDelay is the time after which this worker tries to claim a run again that it has lost.
const retakeDelay = 100 * time.Millisecond

// claimAt makes the claim loop claim a run at a given time.
func (e server) claimAt(id string, at time.Time) {
	e.mu.Lock()
	if e.serving {
		e.parks[id] = at
		if e.parkAt.IsZero() || at.Before(e.parkAt) {
			e.parkAt = at
		}
	}
	e.mu.Unlock()
	e.wakeClaimLoop()
}

func (e server) wakeClaimLoop() {
	select {
	case e.claimWake <- struct{}{}:
	default:
	}
}

func (e server) driver(id string) *driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drivers[id]
}

// park handles a run that the last pass did not change. If its next poll is known, the worker keeps
// the run and remembers only its id and time; otherwise it releases the run without a write.
func (e server) park(d *driver) {
	claimer, ok := e.store.(runstore.Claimer)
	if !ok {
		return
	}
	id, at := d.s.run.ID, d.s.soonest
	e.mu.Lock()
	serving := e.serving
	e.mu.Unlock()
	if serving && !at.IsZero() {
		e.claimAt(id, at)
		return
	}
	d.s.run.Mail = d.mail
	if err := claimer.ReleaseRun(d.saveCtx, e.options.Worker, d.s.run, at); err != nil {
		e.health.failed(err)
		e.claimAt(id, time.Now().Add(time.Second))
	}
}

// unpark claims the parked runs that are due and returns the earliest time of the others.
func (e server) unpark() time.Time {
	t := time.Now()
	if e.Health() != nil {
		return t.Add(time.Second)
	}
	e.mu.Lock()
	if e.parkAt.IsZero() || t.Before(e.parkAt) {
		defer e.mu.Unlock()
		return e.parkAt
	}
	var due []string
	e.parkAt = time.Time{}
	for id, at := range e.parks {
		if !t.Before(at) {
			due = append(due, id)
			delete(e.parks, id)
		} else if e.parkAt.IsZero() || at.Before(e.parkAt) {
			e.parkAt = at
		}
	}
	next := e.parkAt
	e.mu.Unlock()
	for _, id := range due {
		e.claimRun(id)
	}
	return next
}

// claimRun claims one run, due or not, and executes it.
func (e server) claimRun(id string) {
	claimer, ok := e.store.(runstore.Claimer)
	e.mu.Lock()
	serving := e.serving
	e.mu.Unlock()
	if !ok || !serving {
		return
	}
	l, term, err := e.leases().takeFrom(e.saveCtx, claimer, id)
	switch {
	case errors.Is(err, runstore.ErrOwned), errors.Is(err, runstore.ErrNotFound):
	case err != nil:
		e.health.failed(err)
		e.claimAt(id, time.Now().Add(time.Second))
	case !l.Run.Phase.Final():
		e.launch(l, term)
	}
}

// claimOnCreate marks a new run as claimed by this worker if a slot is free.
func (e server) claimOnCreate(r *runtype.Run) bool {
	e.mu.Lock()
	serving := e.serving && context.Cause(e.attemptCtx) == nil
	e.mu.Unlock()
	if !serving || e.slots.Free() == 0 {
		return false
	}
	r.Owner, r.Epoch = e.options.Worker, 1
	return true
}

// loseAll cancels the attempts of all runs, because another worker may own them.
func (e server) loseAll() {
	e.mu.Lock()
	drivers := make([]*driver, 0, len(e.drivers))
	for _, d := range e.drivers {
		drivers = append(drivers, d)
	}
	for id := range e.parks { // another worker may own them: claim them again
		e.parks[id], e.parkAt = time.Time{}, time.Unix(0, 0)
	}
	e.mu.Unlock()
	for _, d := range drivers {
		d.cancel(ErrLeaseLost)
	}
}

// drain ends a worker: it waits for open attempts, then cancels their contexts, then releases the
// leases.
func (e server) drain(claimer runstore.Claimer, stopLease func()) error {
	e.mu.Lock()
	e.serving = false
	clear(e.parks)
	e.mu.Unlock()
	e.draining.Store(true)
	ended := make(chan struct{})
	go func() { e.active.Wait(); close(ended) }()
	e.wakeDrivers()
	timer := time.NewTimer(e.options.Drain)
	defer timer.Stop()
	clean := true
	select {
	case <-ended:
	case <-timer.C:
		e.cancelAttempts(ErrDraining)
		grace := time.NewTimer(e.longestGrace() + time.Second)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C:
			clean = false
		}
	}
	stopLease()
	var err error
	if clean {
		err = claimer.Release(e.saveCtx, e.options.Worker)
	} else {
		// An abandoned attempt keeps its run until the lease expires, so that no other worker opens
		// the step before that.
		e.log.Warn("workflow: attempts ignore their cancelled context; their runs stay leased", "worker", e.options.Worker)
	}
	e.cancelAttempts(ErrDraining)
	e.cancelSaves()
	e.draining.Store(false)
	e.mu.Lock()
	e.begin()
	e.mu.Unlock()
	return err
}

func (e server) wakeDrivers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.drivers {
		d.wake()
	}
}

func (e server) longestGrace() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	longest := time.Duration(0)
	for _, d := range e.drivers {
		longest = max(longest, e.graceOf(d))
	}
	return longest
}

func (e server) graceOf(d *driver) time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	longest := time.Duration(0)
	for _, a := range d.s.open {
		_, grace, _ := a.node.timeout()
		longest = max(longest, time.Duration(grace))
	}
	return longest
}

// probe checks whether the store has recovered. It writes, because only a write detects a full
// disk.
func (e server) probe(ctx context.Context) {
	if e.health.stuck.Load() > 0 {
		return // the retries of their saves detect it
	}
	claimer := e.store.(runstore.Claimer)
	bounded, cancel := context.WithTimeout(ctx, e.options.Lease/3)
	defer cancel()
	if err := claimer.Renew(bounded, e.options.Worker, e.options.Lease); err == nil || errors.Is(err, runstore.ErrFenced) {
		e.health.answered()
	}
}
