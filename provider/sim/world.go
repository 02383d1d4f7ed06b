package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// world is the state of a cloud: its parts, behind one lock and one clock.
type world struct {
	mu sync.Mutex
	o  Options

	ids       *ids
	inventory *inventory
	jobs      *jobs
	nodes     *Nodes
	catalog   *catalog
	builder   *builder
	actions   *actions
	faults    *Faults
	log       *Log
	disk      *disk
}

// newWorld connects the parts. What creates and removes resources knows the inventory; nothing
// below the jobs knows the jobs.
func newWorld(o Options) *world {
	w := &world{o: o}
	stored, numbered := newResources(), &addresses{}
	w.ids = &ids{seed: o.Seed, names: map[name]int{}}
	w.log = &Log{mu: &w.mu, calls: boundedLog[Entry]{limit: o.Log}, mutations: boundedLog[Mutation]{limit: o.Log}}
	w.disk = &disk{ids: w.ids, addresses: numbered, resources: stored}
	w.inventory = &inventory{
		resources: stored, capacity: &capacity{o: &w.o, used: map[string]*usage{}}, now: o.Now, ids: w.ids, log: w.log, disk: w.disk,
	}
	w.nodes = &Nodes{world: w, configs: configs{seed: o.Seed}}
	w.jobs = &jobs{o: &w.o, ids: w.ids, inventory: w.inventory, nodes: w.nodes, disk: w.disk, byID: map[string]*job{}, byCall: map[string]*job{}}
	w.disk.jobs = w.jobs
	w.catalog = &catalog{o: &w.o, inventory: w.inventory}
	w.builder = &builder{o: &w.o, inventory: w.inventory, jobs: w.jobs, addresses: numbered}
	w.actions = &actions{o: &w.o, inventory: w.inventory, jobs: w.jobs}
	w.faults = &Faults{world: w}
	return w
}

// load restores the state from Options.File.
func (w *world) load() error {
	resources, jobs, err := w.disk.open(w.o.File)
	if err != nil {
		return fmt.Errorf("sim: %s: %w", w.o.File, err)
	}
	now := w.o.Now()
	for _, t := range resources {
		w.inventory.restore(t)
		if t.Node != nil && (t.State == stateRunning || t.State == stateMigrating) {
			at := t.Node.Booted
			if at.Before(now) {
				at = now
			}
			w.nodes.schedule(t, at)
		}
	}
	for _, j := range jobs {
		w.jobs.restore(j)
	}
	if err := w.disk.rewrite(); err != nil {
		return fmt.Errorf("sim: %s: %w", w.o.File, err)
	}
	return nil
}

// enter locks the world and ends the jobs that are over. The caller unlocks it.
func (w *world) enter() (now time.Time, leave func()) {
	w.mu.Lock()
	now = w.o.Now()
	w.jobs.settle(now)
	return now, w.mu.Unlock
}

// mutate changes the cloud without a client call.
func (w *world) mutate(change func(now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.o.Now()
	w.jobs.settle(now)
	change(now)
	if err := w.disk.flush(); err != nil {
		panic(err) // the file was writable a moment ago, and the exported methods return no error
	}
	w.wake()
}

// change changes one resource without a client call.
func (w *world) change(kind cluster.Kind, idOrName, by string, do func(t *resource, now time.Time) error) error {
	var err error
	w.mutate(func(now time.Time) {
		t := w.inventory.lookup(kind, idOrName)
		if t == nil {
			err = fmt.Errorf("sim: there is no %s %q", kind, idOrName)
			return
		}
		if err = do(t, now); err == nil && !t.gone {
			w.inventory.record(Changed, by, t)
			w.disk.changed(t)
		}
	})
	return err
}

// execute performs the call inside the cloud and logs it. A rule may replace the result by
// an error.
func (w *world) execute(e *Entry, effect func(now time.Time, e *Entry, r *rule) error) (delay time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.o.Now()
	w.jobs.settle(now)
	e.Seq, e.At = w.ids.next(), now
	r := w.faults.match(e)
	var ruleErr error
	if r != nil {
		delay, ruleErr = r.Delay, r.answerError(e)
	}
	outage := w.faults.outage(e)
	switch {
	case outage != nil:
		err = outage
	case ruleErr != nil && r.When == Before:
		err = ruleErr
	default:
		err = effect(now, e, r)
		if r != nil && r.Do == Duplicate {
			err = effect(now, e, r)
		}
		if ruleErr != nil {
			err = ruleErr
		}
		if failed := w.disk.flush(); failed != nil {
			err = failed
		}
		w.wake()
	}
	if err != nil {
		e.Code, e.Err = codeOf(err), err.Error()
	}
	w.log.calls.add(*e)
	return delay, err
}

// wait simulates time that a call takes. If the context ends, the call has no answer:
// PROVIDER_UNREACHABLE.
func (w *world) wait(ctx context.Context, e Entry, d time.Duration) error {
	err := ctx.Err()
	if err == nil && d > 0 {
		err = w.o.Sleep(ctx, d)
	}
	if err != nil {
		return cluster.ProviderUnreachable.Errorf("%s: no answer: %w", e, err)
	}
	return nil
}

// wake ends Serve's sleep if an event is due before the sleep ends.
func (w *world) wake() { w.nodes.wakeBefore(w.nextDue()) }

// nextDue returns the time of the next event; zero if there is none.
func (w *world) nextDue() time.Time {
	var next time.Time
	if len(w.jobs.due) > 0 {
		next = w.jobs.due[0].at
	}
	if len(w.nodes.heartbeats) > 0 && (next.IsZero() || w.nodes.heartbeats[0].at.Before(next)) {
		next = w.nodes.heartbeats[0].at
	}
	return next
}
