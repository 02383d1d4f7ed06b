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
)

// driver is the goroutine that works on one owned run: it decides, saves, and
// starts attempts, and it is the only one that changes the run.
type driver struct {
	e       *Engine
	s       *state
	mu      sync.RWMutex // the driver writes the state under it; attempts read
	ctx     context.Context
	cancel  context.CancelCauseFunc
	saveCtx context.Context // of saves
	log     *slog.Logger

	results chan result
	inbox   chan struct{} // something to look at: mail, a touch, a free slot, progress
	stopped chan struct{}
	running sync.WaitGroup

	redactor    redactor
	mail        int64 // the store's count of signals that s.mail reflects
	touched     bool  // under inboxMu
	mailPending bool
	inboxMu     sync.Mutex
	heldSlots   int    // slots kept from attempts that have ended
	slotRefused bool   // the last decision was refused a slot
	slotQueued  bool   // slots may know it as one that waits
	decision    uint64 // number of the last decision
	hasTurn     bool
	wantsTurn   bool         // the last decision wants to open a suspect, and it was not its turn
	term        atomic.Int64 // of the worker's lease in which the run is known to be ours
	lost        bool         // given up: the store may still say that the run is ours
	fetchMailAt time.Time    // when the mail is read again though nobody told of any
	timer       *time.Timer
	armed       time.Time // what the timer is set to; zero: it has fired
	flowErr     *fault.Error
}

func (e *Engine) newDriver(l Loaded) *driver {
	e.mu.Lock()
	base, life := e.attemptCtx, e.saveCtx
	e.mu.Unlock()
	ctx, end := context.WithCancelCause(base)
	d := &driver{
		e: e, ctx: ctx, cancel: end, saveCtx: life, log: e.log,
		results: make(chan result, 4), inbox: make(chan struct{}, 1), stopped: make(chan struct{}),
		mail: l.Run.Mail, fetchMailAt: now().Add(e.options.PollInterval),
	}
	d.term.Store(int64(l.leaseTerm))
	p, err := e.planOf(ctx, l.Run)
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
	if e.options.Object != nil {
		d.s.object = func() (json.RawMessage, error) { return e.options.Object(ctx, l.Run.Subject) }
	}
	return d
}

var noPlan = &plan{flow: &Flow{}, body: &node{kind: groupNode, step: &Step{}, virtual: true}, finally: &node{kind: groupNode, step: &Step{}, virtual: true}}

// poke makes the driver look again.
func (d *driver) wake() {
	select {
	case d.inbox <- struct{}{}:
	default:
	}
}

// notice tells the driver that mail has come or the subject was touched.
func (d *driver) notifyMail() {
	d.inboxMu.Lock()
	d.mailPending = true
	d.inboxMu.Unlock()
	d.wake()
}

// drive works on the run until it rests, is lost, or the engine gives up on it.
func (d *driver) drive() {
	defer d.stop()
	if d.flowErr != nil && d.flowErr.Kind == StoreUnavailable {
		d.e.storeFailed(d.flowErr)
		d.giveUp()
		return
	}
	d.mu.Lock()
	d.s.now = now()
	if d.flowErr != nil {
		d.pauseMissing()
	} else {
		d.recordMigration()
		d.s.lost()
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
		asked := d.wantsTurn
		d.wantsTurn, d.slotRefused = false, false
		d.decision++
		d.s.decide()
		if asked && !d.wantsTurn && !d.hasTurn { // it wants no turn any more: the next one has it
			d.e.slots.withdraw(d)
		}
		if d.s.noDefinition && d.s.run.Phase != Paused && !d.s.run.Phase.Final() {
			ok := d.replan()
			d.mu.Unlock()
			if !ok {
				d.giveUp()
				return
			}
			continue
		}
		d.mu.Unlock()
		if d.slotQueued && !d.slotRefused { // a slot that is kept for it is another's
			d.slotQueued = false
			d.e.slots.forget(d)
		}
		rest := d.isIdle()
		if draining && len(d.s.open) == 0 && !d.s.run.Phase.Final() {
			d.s.changed = true
			d.save(true)
			return
		}
		if rest && !d.s.soonest.IsZero() && !d.s.soonest.After(d.s.now) && !d.s.run.Phase.Final() {
			if idle++; idle < 3 {
				continue
			}
			d.s.soonest = d.s.now.Add(time.Second)
			d.s.run.NextAt = d.s.soonest
		}
		idle = 0
		if rest { // nothing is open: whoever is told of the end finds the slot free
			d.release()
		}
		saved, ok := d.save(rest)
		if !ok {
			d.giveUp()
			return
		}
		if len(d.s.opens) > 0 && !d.leaseHolds() {
			d.giveUp()
			return
		}
		d.launch()
		d.abort()
		d.release()
		if rest {
			if d.takeNewMail() {
				continue
			}
			if !saved {
				d.e.park(d)
			}
			return
		}
		if !d.wait() {
			d.giveUp()
			return
		}
	}
}

// rests reports that nothing is left to do before something happens.
func (d *driver) isIdle() bool {
	return len(d.s.open) == 0 && len(d.s.opens) == 0 && !d.s.starved
}

// mailed takes over signals that came while the last save was made.
func (d *driver) takeNewMail() bool {
	if d.s.run.Mail <= d.mail || d.s.run.Phase.Final() || d.s.run.Owner == "" { // a save that released the run made it due
		return false
	}
	return d.fetchMail()
}

// fetch reads the mail again.
func (d *driver) fetchMail() bool {
	r, signals, err := d.e.store.Load(d.ctx, d.s.run.ID)
	if err != nil {
		d.fetchMailAt = now().Add(time.Second)
		return false
	}
	d.fetchMailAt = now().Add(d.e.options.PollInterval)
	d.mu.Lock()
	defer d.mu.Unlock()
	signals = slices.DeleteFunc(signals, func(m Signal) bool { return slices.Contains(d.s.consumed, m.ID) })
	fresh := slices.ContainsFunc(signals, func(m Signal) bool {
		return !slices.ContainsFunc(d.s.mail, func(k Signal) bool { return k.ID == m.ID })
	})
	d.mail, d.s.mail = r.Mail, signals
	d.s.pollAll = d.s.pollAll || fresh
	return fresh
}

// wait blocks until an attempt ends, mail comes, or time asks for a look.
func (d *driver) wait() bool {
	d.arm(d.nextAlarm())
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
		notification, touched := d.mailPending, d.touched
		d.mailPending, d.touched = false, false
		d.inboxMu.Unlock()
		if notification {
			d.fetchMail()
		}
		if touched {
			d.s.pollAll = true
		}
		d.checkAttempts()
	case <-d.timer.C:
		d.armed = time.Time{}
		if !now().Before(d.fetchMailAt) { // hints may be lost
			d.fetchMail()
		}
		d.checkAttempts()
	case <-d.ctx.Done():
		return d.drained()
	}
	return true
}

// arm sets the driver's one timer. One that is set to an earlier time stays:
// it costs a look too early now and then, and nothing at each step.
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

// drained waits, after the engine has told attempts to end, for those that do.
func (d *driver) drained() bool {
	if !errors.Is(context.Cause(d.ctx), ErrDraining) {
		return false
	}
	timer := time.NewTimer(d.e.graceOf(d))
	defer timer.Stop()
	d.mu.Lock()
	d.s.drains, d.s.acquireSlot = true, func(*node, bool) bool { return false }
	d.mu.Unlock()
	for len(d.s.open) > 0 {
		select {
		case r := <-d.results:
			d.applyResult(r)
		case <-timer.C:
			return false // the lease ends by itself, and nobody opens the step before
		}
	}
	d.mu.Lock()
	d.s.now = now()
	d.s.decide()
	d.mu.Unlock()
	d.s.opens, d.s.changed = nil, true
	d.save(true)
	return false
}

// fold takes the result of one attempt into the run.
func (d *driver) applyResult(r result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.s.now = now()
	delete(d.s.open, r.attempt.rec.Name)
	if r.attempt.slot {
		d.heldSlots++
	}
	if d.hasTurn && r.attempt.isolated {
		d.hasTurn = false
		d.e.slots.endTurn(d)
	}
	d.s.apply(r)
}

// alarm is the soonest instant at which time alone asks for a look.
func (d *driver) nextAlarm() time.Time {
	at := d.fetchMailAt
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	sooner(d.s.soonest)
	for _, a := range d.s.open {
		if a.abandoned {
			continue
		}
		_, grace, heartbeat := a.node.timeout()
		if !a.cancelledAt.IsZero() {
			sooner(a.cancelledAt.Add(time.Duration(grace)))
			continue
		}
		sooner(a.ends)
		if heartbeat > 0 {
			sooner(time.Unix(0, a.lastHeartbeat.Load()).Add(time.Duration(heartbeat)))
		}
		if p := a.progress.Load(); p != nil && p.At.After(a.stored) {
			sooner(a.stored.Add(d.e.options.ProgressInterval))
		}
		if a.isolated && d.hasTurn {
			sooner(a.rec.AttemptAt.Add(d.e.slots.turn(d.e.options.IsolationTime, a.rec.Lost)))
		}
	}
	return at
}

// watch looks after open attempts: silence, time-outs, grace, progress, and
// whether a suspect has survived its turn.
func (d *driver) checkAttempts() {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := now()
	d.s.now = t
	for _, a := range d.s.open {
		_, grace, heartbeat := a.node.timeout()
		if a.cancelledAt.IsZero() && !t.Before(a.ends) {
			a.cancelledAt = t
			a.cancel(errTimeout)
		}
		if silent := time.Unix(0, a.lastHeartbeat.Load()).Add(time.Duration(heartbeat)); heartbeat > 0 && a.cancelledAt.IsZero() && !t.Before(silent) {
			a.cancelledAt = t
			a.cancel(errSilent)
		}
		if !a.cancelledAt.IsZero() && !a.abandoned && !t.Before(a.cancelledAt.Add(time.Duration(grace))) {
			d.s.markAbandoned(a)
			continue
		}
		if p := a.progress.Load(); p != nil && p.At.After(a.stored) && !t.Before(a.stored.Add(d.e.options.ProgressInterval)) {
			a.stored = t
			if rec := d.s.run.Step(a.rec.Name); rec != nil && a.heal == nil {
				q := *p
				q.Text = d.redactor.redact(q.Text)
				d.s.progress(rec, q)
			}
		}
		if a.isolated && d.hasTurn && !t.Before(a.rec.AttemptAt.Add(d.e.slots.turn(d.e.options.IsolationTime, a.rec.Lost))) {
			d.hasTurn, a.isolated = false, false
			a.rec.Isolated = false
			d.s.put(a.rec)
			d.e.slots.endTurn(d)
		}
	}
}

// abort cancels the contexts of attempts that a cancel does not let finish.
func (d *driver) abort() {
	for _, a := range d.s.open {
		end := d.s.abort && a.stop != d.s.run.State.Stop && !a.node.closes && !a.rec.Undoing && !a.node.finally || a.endForSkip
		if a.heal != nil {
			h := d.s.healing(a.code)
			end = h == nil || h.Ended != ""
		}
		if end && a.cancelledAt.IsZero() {
			a.cancelledAt = d.s.now
			a.cancel(ErrCancelled)
		}
	}
}

// abandon gives up a run that belongs to someone else now: attempts are told
// to end, and nothing of theirs is saved.
func (d *driver) giveUp() {
	d.lost = true
	d.cancel(ErrLeaseLost)
}

// may asks for the slot an attempt needs.
func (d *driver) acquireSlot(n *node, isolated bool) bool {
	if n.closes || d.tryAcquireSlot(isolated) { // a bracket is closed even when all slots are taken
		return true
	}
	d.slotRefused, d.slotQueued = true, true
	return false
}

func (d *driver) tryAcquireSlot(isolated bool) bool {
	if isolated {
		if d.hasTurn { // two suspects of one run
			return false
		}
		if d.e.slots.isolate(d, d.heldSlots) {
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
	return d.e.slots.acquire(d)
}

// release gives back the slots no attempt uses.
func (d *driver) release() {
	d.e.slots.release(d, d.heldSlots)
	d.heldSlots = 0
}

// leave ends the driver: attempts still open are told to end and hear nobody.
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
	for _, o := range d.s.opens { // decided and not saved: never begun
		if o.slot() {
			d.heldSlots++
		}
	}
	d.e.slots.withdraw(d)
	d.release()
	d.e.slots.forget(d)
	close(d.stopped)
}

func now() time.Time { return time.Now().UTC() }

// missing pauses a run whose definition cannot be executed.
func (d *driver) pauseMissing() {
	if d.s.run.Phase == Paused || d.s.run.Phase.Final() || d.s.run.Phase == Queued {
		return
	}
	f := d.s.faultOf(d.flowErr)
	for rec := range d.s.run.Steps() {
		if rec.Phase == StepRunning {
			rec.Phase, rec.NextAt = StepRetrying, d.s.now
			d.s.put(rec)
		}
	}
	d.s.pause(f, Event{Actor: "engine"})
}

// replan looks for the definition that a resume chose, or that was missing before it; false while the store is in trouble.
func (d *driver) replan() bool {
	p, err := d.e.planOf(d.ctx, d.s.run)
	if err != nil && err.Kind == StoreUnavailable {
		d.e.storeFailed(err)
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
	d.s.reopenBrackets(d.s.closed())
	return true
}

// migrated notes that the run has moved to another definition.
func (d *driver) recordMigration() {
	if d.s.plan.hash != "" && d.s.run.Hash != d.s.plan.hash {
		d.s.event(FlowMigrated, nil, Event{Actor: "engine", Reason: d.s.run.Hash, Message: d.s.plan.hash})
		d.s.run.Hash, d.s.run.Version = d.s.plan.hash, d.s.plan.flow.Version
	}
}
