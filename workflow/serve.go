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
)

var started atomic.Int64

// workerName names this start of a worker: another start is another owner.
func workerName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d-%x-%d", host, os.Getpid(), time.Now().UnixNano(), started.Add(1))
}

func newID() string { return "id-" + rand.Text()[:16] }

// Serve claims due runs and works on them until ctx ends, then drains: no new
// claims, open attempts get Options.Drain to end, then their contexts are
// cancelled with ErrDraining, and leases are given back. The store must be a Claimer.
func (e *Engine) Serve(ctx context.Context) error {
	claimer, ok := e.store.(Claimer)
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
	stopLease := e.keepLease(claimer)
	var tidy sync.WaitGroup
	tidy.Go(func() { e.retainLoop(ctx) })
	e.claimLoop(ctx, claimer)
	tidy.Wait()
	return e.drain(claimer, stopLease)
}

// claimLoop is the one goroutine that claims, and the one timer of a worker.
func (e *Engine) claimLoop(ctx context.Context, claimer Claimer) {
	wake := claimer.Wake()
	retries := 0
	for ctx.Err() == nil {
		next := time.Now().Add(e.options.PollInterval)
		var all time.Time // when a claim gave all that was due
		if free := e.slots.free(); free > 0 && e.Health() == nil {
			full := e.slots.fullFlows()
			asked := instantNow()
			claimed, err := claimer.Claim(ctx, Claim{Worker: e.options.Worker, Limit: free, Lease: e.options.Lease, FullFlows: full})
			if err != nil && ctx.Err() == nil {
				retries++
				e.storeFailed(err)
				next = time.Now().Add(Retry{First: 50 * time.Millisecond, Longest: 5 * time.Second}.delay(retries, seed(e.options.Worker, "", retries)))
			} else {
				retries = 0
			}
			term := 0
			if len(claimed.Runs) > 0 {
				term = e.lease.extend(asked, e.lease.claimSpend())
			}
			for _, l := range claimed.Runs {
				l.leaseTerm = term
				e.launch(l)
			}
			if len(claimed.Runs) == free {
				continue
			}
			if err == nil && len(full) == 0 {
				all = time.Now()
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
		e.idle(ctx, wake, next, all)
	}
}

// sated is how long a claim that gave all that was due makes another one for
// the sake of a free slot needless: what becomes due is told.
const claimCooldown = time.Second

// idle blocks until there may be something to claim, or a parked run to look at.
func (e *Engine) idle(ctx context.Context, wake <-chan string, next, all time.Time) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.claimWake:
		case <-e.slots.freed:
			if time.Since(all) < claimCooldown {
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

// woken passes a hint of the store on to whoever works on the run.
func (e *Engine) handleWake(id string) {
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

// wokenAll is the hint that hints were lost.
func (e *Engine) handleLostWakes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.drivers {
		d.notifyMail()
	}
	for id := range e.parks {
		e.parks[id], e.parkAt = time.Time{}, time.Unix(0, 0)
	}
}

// launch works on a claimed run in a goroutine of its own.
func (e *Engine) launch(l Loaded) {
	d := e.newDriver(l)
	if e.register(d) {
		go e.run(d)
	}
}

// enlist makes d the one driver of its run. If there is one that has not ended
// yet, that one is told: it sees to it that the run is looked at again.
func (e *Engine) register(d *driver) bool {
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

// notify tells the driver of a run, if it has one, that mail has come or that
// its subject was touched. Under the lock, so that delist sees it.
func (e *Engine) notify(id string, touched bool) bool {
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

// run drives a run. One that was given up while attempts are open stays ours
// until they have returned, so that this worker opens no second copy.
func (e *Engine) run(d *driver) {
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

// delist forgets a driver, and what came for its run meanwhile is not lost.
func (e *Engine) unregister(d *driver) {
	defer e.active.Done()
	id := d.s.run.ID
	e.mu.Lock()
	delete(e.drivers, id)
	e.mu.Unlock()
	if d.lost { // the store may say that it is still ours: nobody else would take it
		e.claimAt(id, time.Now().Add(retakeDelay))
		return
	}
	select {
	case <-d.inbox:
		e.claimAt(id, time.Now())
	default:
		if !d.s.run.NextAt.IsZero() && !d.s.run.Phase.Final() {
			e.wakeClaimLoop() // it gave back no slot, so nobody has told the claim loop when it is due
		}
	}
}

// retake is how long after a loss, or trouble of the store, a run is looked at again.
const retakeDelay = 100 * time.Millisecond

// lookAt lets the claim loop take a run at a time.
func (e *Engine) claimAt(id string, at time.Time) {
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

func (e *Engine) wakeClaimLoop() {
	select {
	case e.claimWake <- struct{}{}:
	default:
	}
}

func (e *Engine) driver(id string) *driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drivers[id]
}

// park keeps a run whose look changed nothing: with a next look it stays ours
// and only its name is remembered; without one it is given back unwritten.
func (e *Engine) park(d *driver) {
	claimer, ok := e.store.(Claimer)
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
		e.storeFailed(err)
		e.claimAt(id, time.Now().Add(time.Second))
	}
}

// unpark looks at the parked runs that are due and gives the soonest time of the others.
func (e *Engine) unpark() time.Time {
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

// look takes one run, due or not, and works on it.
func (e *Engine) claimRun(id string) {
	claimer, ok := e.store.(Claimer)
	e.mu.Lock()
	serving := e.serving
	e.mu.Unlock()
	if !ok || !serving {
		return
	}
	l, err := e.takeFrom(e.saveCtx, claimer, id)
	switch {
	case errors.Is(err, ErrOwned), errors.Is(err, ErrNotFound):
	case err != nil:
		e.storeFailed(err)
		e.claimAt(id, time.Now().Add(time.Second))
	case !l.Run.Phase.Final():
		e.launch(l)
	}
}

// breed lets a run that is started here be born claimed, if there is room.
func (e *Engine) claimOnCreate(r *Run) bool {
	e.mu.Lock()
	serving := e.serving && context.Cause(e.attemptCtx) == nil
	e.mu.Unlock()
	if !serving || e.slots.free() == 0 {
		return false
	}
	r.Owner, r.Epoch = e.options.Worker, 1
	return true
}

// keepLease renews the worker's lease until it is stopped. A lease that could
// not be renewed for two thirds of its time ends all attempts before it ends itself.
func (e *Engine) keepLease(claimer Claimer) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		renewed := time.Now()
		ticker := time.NewTicker(e.options.Lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			e.mu.Lock()
			owns := len(e.drivers) > 0 || len(e.parks) > 0
			e.mu.Unlock()
			if !owns {
				renewed = time.Now()
				continue
			}
			asked := instantNow()
			bounded, cancel := context.WithTimeout(e.saveCtx, e.options.Lease/3)
			err := claimer.Renew(bounded, e.options.Worker, e.options.Lease)
			cancel()
			switch {
			case err == nil:
				e.lease.extend(asked, 0)
				renewed = time.Now()
			case errors.Is(err, ErrFenced), time.Since(renewed) >= e.options.Lease*2/3:
				e.log.Warn("workflow: the lease is lost: all attempts end", "worker", e.options.Worker, "error", err)
				if !errors.Is(err, ErrFenced) {
					e.storeFailed(err) // nothing is taken again before the lease can be renewed
				}
				e.lease.lose()
				e.loseAll()
				renewed = time.Now()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// loseAll ends the attempts of every run: another worker may have them by now.
func (e *Engine) loseAll() {
	e.mu.Lock()
	drivers := make([]*driver, 0, len(e.drivers))
	for _, d := range e.drivers {
		drivers = append(drivers, d)
	}
	for id := range e.parks { // whoever has them by now
		e.parks[id], e.parkAt = time.Time{}, time.Unix(0, 0)
	}
	e.mu.Unlock()
	for _, d := range drivers {
		d.cancel(ErrLeaseLost)
	}
}

// drain ends a worker: open attempts get time, then their contexts end, then
// leases are given back.
func (e *Engine) drain(claimer Claimer, stopLease func()) error {
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
		// A stray attempt keeps its run: it ends with the lease, and nobody opens the step before.
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

func (e *Engine) wakeDrivers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.drivers {
		d.wake()
	}
}

func (e *Engine) longestGrace() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	longest := time.Duration(0)
	for _, d := range e.drivers {
		longest = max(longest, e.graceOf(d))
	}
	return longest
}

func (e *Engine) graceOf(d *driver) time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	longest := time.Duration(0)
	for _, a := range d.s.open {
		_, grace, _ := a.node.timeout()
		longest = max(longest, time.Duration(grace))
	}
	return longest
}
