package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/internal/redact"
	"github.com/pawl-dev/pawl/workflow/internal/slots"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// driver is the goroutine that executes one owned run. It decides, saves and starts attempts.
// Nothing else changes the run.
type driver struct {
	e       *Engine
	s       *state
	mu      sync.RWMutex // the driver holds it to write the state, attempts hold it to read
	ctx     context.Context
	cancel  context.CancelCauseFunc
	saveCtx context.Context // of saves
	log     *slog.Logger

	results chan result
	inbox   chan struct{} // wake-up: mail, a changed subject, a free slot, progress
	stopped chan struct{}
	running sync.WaitGroup

	redactor    redact.Redactor
	mail        int64 // number of signals of the run that s.mail includes, as the store counts
	touched     bool  // under inboxMu
	mailPending bool
	inboxMu     sync.Mutex
	heldSlots   int  // slots of attempts that have ended, kept for the next ones
	slotRefused bool // the last decision did not get a slot
	slotQueued  bool // the driver may be in a queue for a slot
	holder      slots.Holder
	hasTurn     bool
	wantsTurn   bool         // the newest decision wants to open a suspected step, but another driver had the turn
	term        atomic.Int64 // term of the worker's lease in which this worker certainly owns the run
	lost        bool         // the driver has given up the run; the store may still name this worker as its owner
	fetchMailAt time.Time    // next read of the mail without a wake-up
	timer       *time.Timer
	armed       time.Time // the time the timer is set to; zero: it has fired
	flowErr     *fault.Error
	printed     bool // attempts have ended whose lines may not be stored yet
}

func (e *Engine) newDriver(l runstore.Loaded, term int) *driver {
	e.mu.Lock()
	base, life := e.attemptCtx, e.saveCtx
	e.mu.Unlock()
	ctx, end := context.WithCancelCause(base)
	d := &driver{
		e: e, ctx: ctx, cancel: end, saveCtx: life, log: e.log,
		results: make(chan result, 4), inbox: make(chan struct{}, 1), stopped: make(chan struct{}),
		mail: l.Run.Mail, fetchMailAt: now().Add(e.options.PollInterval),
	}
	d.holder = slots.Holder{Flow: l.Run.Flow, Tenant: l.Run.Labels[e.options.PerLabel.Label], Wake: d.wake}
	d.term.Store(int64(term))
	p, err := e.catalog.planOf(ctx, l.Run)
	if err != nil {
		d.flowErr = err
		if p == nil {
			p = noPlan
		}
	}
	d.s = newState(l.Run, p, l.Signals)
	d.s.noDefinition = d.flowErr != nil
	d.s.healers = e.Healers()
	d.s.exhausted = e.options.Exhausted
	d.s.acquireSlot = d.acquireSlot
	_, d.s.counted = e.store.(runstore.StepLimiter)
	if e.options.Object != nil {
		d.s.object = func() (json.RawMessage, error) { return e.options.Object(ctx, l.Run.Subject) }
	}
	return d
}

var noPlan = &plan{flow: &Flow{}, body: &node{kind: groupNode, step: &Step{}, virtual: true}, finally: &node{kind: groupNode, step: &Step{}, virtual: true}}

// wake makes the driver decide again.
func (d *driver) wake() {
	select {
	case d.inbox <- struct{}{}:
	default:
	}
}

// notifyMail tells the driver that mail has arrived or that the subject has changed.
func (d *driver) notifyMail() {
	d.inboxMu.Lock()
	d.mailPending = true
	d.inboxMu.Unlock()
	d.wake()
}

// drive executes the run until nothing is left to do, the run is lost, or the driver gives up.
func (d *driver) drive() {
	defer d.stop()
	if d.flowErr != nil && d.flowErr.Kind == runstore.StoreUnavailable {
		d.e.health.failed(d.flowErr)
		d.giveUp()
		return
	}
	d.mu.Lock()
	d.s.now = now()
	if d.flowErr != nil {
		d.pauseMissing()
	} else {
		d.recordMigration()
		d.s.results().lost()
		d.limiting().recall()
	}
	d.mu.Unlock()
	idle := 0
	for {
		d.mu.Lock()
		d.s.now = now()
		draining := d.e.draining.Load()
		if draining {
			d.s.drains, d.s.acquireSlot = true, func(*node, bool) bool { return false }
		}
		wantedTurn := d.wantsTurn
		d.wantsTurn, d.slotRefused = false, false
		d.holder.Decision++
		d.limiting().begin()
		d.s.decider().decide()
		if wantedTurn && !d.wantsTurn && !d.hasTurn { // it does not want the turn any more: another driver gets it
			d.e.slots.Withdraw(&d.holder)
		}
		if d.s.noDefinition && d.s.run.Phase != runtype.Paused && !d.s.run.Phase.Final() {
			ok := d.replan()
			d.mu.Unlock()
			if !ok {
				d.giveUp()
				return
			}
			continue
		}
		d.mu.Unlock()
		if d.slotQueued && !d.slotRefused { // it does not need a slot any more: pass a reserved one on
			d.slotQueued = false
			d.e.slots.Forget(&d.holder)
		}
		if len(d.s.opens) == 0 && d.limiting().settle() {
			continue
		}
		rest := d.isIdle()
		if draining && len(d.s.open) == 0 && !d.s.run.Phase.Final() {
			d.limiting().giveBack()
			d.s.changed = true
			d.saving().save(true)
			return
		}
		if rest && d.limiting().holdsRest() {
			d.release()
			if !d.wait() {
				d.giveUp()
				return
			}
			continue
		}
		if rest && !d.s.soonest.IsZero() && !d.s.soonest.After(d.s.now) && !d.s.run.Phase.Final() {
			if idle++; idle < 3 {
				continue
			}
			d.s.soonest = d.s.now.Add(time.Second)
			d.s.run.NextAt = d.s.soonest
		}
		idle = 0
		if rest { // release the slots before the save: a client that reads the end of the run finds them free
			d.release()
		}
		saved, ok := d.saving().save(rest)
		if !ok {
			d.giveUp()
			return
		}
		if len(d.s.opens) > 0 && !d.leaseHolds() {
			d.giveUp()
			return
		}
		d.attempts().launch()
		d.attempts().abort()
		d.release()
		if !rest && d.limiting().settle() {
			continue
		}
		if rest {
			if d.takeNewMail() {
				continue
			}
			if !saved {
				d.e.server().park(d)
			}
			return
		}
		if !d.wait() {
			d.giveUp()
			return
		}
	}
}

// isIdle reports whether the driver has nothing to do until something happens.
func (d *driver) isIdle() bool {
	return len(d.s.open) == 0 && len(d.s.opens) == 0 && !d.s.starved && !d.s.undecided
}

// takeNewMail reads the signals that arrived during the last save.
func (d *driver) takeNewMail() bool {
	if d.s.run.Mail <= d.mail || d.s.run.Phase.Final() || d.s.run.Owner == "" { // the save that released the run also made it due again
		return false
	}
	return d.fetchMail()
}

// fetchMail reads the mail from the store. It reports whether there are new signals.
func (d *driver) fetchMail() bool {
	r, signals, err := d.e.store.Load(d.ctx, d.s.run.ID)
	if err != nil {
		d.fetchMailAt = now().Add(time.Second)
		return false
	}
	d.fetchMailAt = now().Add(d.e.options.PollInterval)
	d.mu.Lock()
	defer d.mu.Unlock()
	signals = slices.DeleteFunc(signals, func(m runtype.Signal) bool { return slices.Contains(d.s.consumed, m.ID) })
	fresh := slices.ContainsFunc(signals, func(m runtype.Signal) bool {
		return !slices.ContainsFunc(d.s.mail, func(k runtype.Signal) bool { return k.ID == m.ID })
	})
	d.mail, d.s.mail = r.Mail, signals
	d.s.pollAll = d.s.pollAll || fresh
	return fresh
}

// wait blocks until an attempt ends, mail arrives, or a timer fires.
func (d *driver) wait() bool {
	d.arm(d.attempts().nextAlarm())
	select {
	case r := <-d.results:
		d.applyResult(r)
		for {
			select {
			case r := <-d.results:
				d.applyResult(r)
				continue
			default:
			}
			break
		}
		if d.s.run.Mail > d.mail {
			d.fetchMail()
		}
	case <-d.inbox:
		d.inboxMu.Lock()
		mailPending, touched := d.mailPending, d.touched
		d.mailPending, d.touched = false, false
		d.inboxMu.Unlock()
		if mailPending {
			d.fetchMail()
		}
		if touched {
			d.s.pollAll = true
		}
		d.attempts().checkAttempts()
	case <-d.timer.C:
		d.armed = time.Time{}
		if !now().Before(d.fetchMailAt) { // wake-ups may be lost
			d.fetchMail()
		}
		d.attempts().checkAttempts()
	case <-d.ctx.Done():
		return d.drained()
	}
	return true
}

// arm sets the only timer of the driver. It leaves a timer that is set to an earlier time: a
// wake-up that comes too early now and then is cheaper than a timer reset in each step.
func (d *driver) arm(at time.Time) {
	switch {
	case d.timer == nil:
		d.timer = time.NewTimer(time.Until(at))
	case d.armed.IsZero() || at.Before(d.armed):
		d.timer.Reset(time.Until(at))
	default:
		return
	}
	d.armed = at
}

// drained waits for open attempts after the engine has cancelled their contexts.
func (d *driver) drained() bool {
	if !errors.Is(context.Cause(d.ctx), ErrDraining) {
		return false
	}
	timer := time.NewTimer(d.e.server().graceOf(d))
	defer timer.Stop()
	d.mu.Lock()
	d.s.drains, d.s.acquireSlot = true, func(*node, bool) bool { return false }
	d.mu.Unlock()
	for len(d.s.open) > 0 {
		select {
		case r := <-d.results:
			d.applyResult(r)
		case <-timer.C:
			return false // the lease expires by itself, and no other worker opens the step before that
		}
	}
	d.mu.Lock()
	d.s.now = now()
	d.s.decider().decide()
	d.mu.Unlock()
	d.s.opens, d.s.changed = nil, true
	d.limiting().giveBack()
	d.saving().save(true)
	return false
}

// applyResult applies the result of one attempt to the run.
func (d *driver) applyResult(r result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.s.now = now()
	d.printed = d.printed || r.printed
	delete(d.s.open, r.attempt.rec.Name)
	d.s.releaseLimits(r.attempt.rec.Name)
	if r.attempt.slot {
		d.heldSlots++
	}
	if d.hasTurn && r.attempt.isolated {
		d.hasTurn = false
		d.e.slots.EndTurn(&d.holder)
	}
	d.s.results().apply(r)
}

// giveUp gives up a run that another worker may own now: it cancels the attempts and saves nothing
// more.
func (d *driver) giveUp() {
	d.lost = true
	d.cancel(ErrLeaseLost)
}

// acquireSlot gets the slot that an attempt needs. It reports whether the attempt may start.
func (d *driver) acquireSlot(n *node, isolated bool) bool {
	if n.closes || d.tryAcquireSlot(isolated) { // the close of a bracket needs no slot
		return true
	}
	d.slotRefused, d.slotQueued = true, true
	return false
}

func (d *driver) tryAcquireSlot(isolated bool) bool {
	if isolated {
		if d.hasTurn { // another suspected step of this run has the turn
			return false
		}
		if d.e.slots.Isolate(&d.holder, d.heldSlots) {
			d.heldSlots, d.hasTurn = 0, true
			return true
		}
		d.wantsTurn = true
		return false
	}
	if d.heldSlots > 0 {
		d.heldSlots--
		return true
	}
	return d.e.slots.Acquire(&d.holder)
}

// release returns the slots that no attempt uses.
func (d *driver) release() {
	d.e.slots.Release(&d.holder, d.heldSlots)
	d.heldSlots = 0
}

// stop ends the driver. It cancels the attempts that are still open and ignores their results.
func (d *driver) stop() {
	d.cancel(ErrLeaseLost)
	if d.timer != nil {
		d.timer.Stop()
	}
	for _, a := range d.s.open {
		if a.slot {
			d.heldSlots++
		}
	}
	for _, o := range d.s.opens { // decided but not saved: it never started
		if o.slot() {
			d.heldSlots++
		}
	}
	d.e.slots.Withdraw(&d.holder)
	d.release()
	d.e.slots.Forget(&d.holder)
	close(d.stopped)
}

func now() time.Time { return time.Now().UTC() }

// pauseMissing pauses a run whose definition cannot be executed.
func (d *driver) pauseMissing() {
	if d.s.run.Phase == runtype.Paused || d.s.run.Phase.Final() || d.s.run.Phase == runtype.Queued {
		return
	}
	f := d.s.faultOf(d.flowErr)
	for rec := range d.s.run.Steps() {
		if rec.Phase == runtype.StepRunning {
			rec.Phase, rec.NextAt = runtype.StepRetrying, d.s.now
			d.s.put(rec)
		}
	}
	d.s.pause(f, runtype.Event{Actor: "engine"})
}

// replan loads the definition that a resume has chosen, or that was missing before. It returns
// false if the store does not answer.
func (d *driver) replan() bool {
	p, err := d.e.catalog.planOf(d.ctx, d.s.run)
	if err != nil && err.Kind == runstore.StoreUnavailable {
		d.e.health.failed(err)
		return false
	}
	if err != nil {
		d.flowErr = err
		d.pauseMissing()
		return true
	}
	d.flowErr, d.s.noDefinition = nil, false
	d.s.plan = p
	d.recordMigration()
	d.s.resetDerived()
	d.s.undoing().reopenBrackets(d.s.closed())
	return true
}

// recordMigration records that the run has changed to another definition.
func (d *driver) recordMigration() {
	if d.s.plan.hash != "" && d.s.run.Hash != d.s.plan.hash {
		d.s.event(runtype.FlowMigrated, nil, runtype.Event{Actor: "engine", Reason: d.s.run.Hash, Message: d.s.plan.hash})
		d.s.run.Hash, d.s.run.Version = d.s.plan.hash, d.s.plan.flow.Version
	}
}
