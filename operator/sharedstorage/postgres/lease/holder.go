package lease

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Options are the options of a Holder. All but Node and Failsafe are needed.
type Options struct {
	Name     string        // of the instance
	Node     string        // on which it runs; empty: it takes no part in the failsafe
	Dir      string        // folder of the instance
	Lease    time.Duration // length of a lease
	Failsafe time.Duration // how long a writer goes on at most without a renewal; 0: it stops at the end of its lease
	Command  []string      // of an agent, without --dir: the guard is one with --guard
	Grants   Grants
	Log      *slog.Logger
	Agent    Agent
}

// Agent is what a Holder needs of the agent whose lease it keeps.
type Agent struct {
	Engine  func() host.Process                 // the running engine, or none
	State   func() (epoch int64, held bool)     // the newest epoch that it knows; it receives from nobody
	Members func() (names []string, all []Peer) // of the cluster
	Ask     func(ctx context.Context, p Peer, q failsafe.Question) (failsafe.Answer, error)
	Adopt   func(epoch int64) error // records the epoch of a newer grant to the same writer
	Fenced  func(error)             // the engine is being stopped, and why
	Freed   func()                  // a fenced engine has ended
	Child   func(wait func())       // runs what reaps the process of the guard
}

// Holder keeps the lease of one instance: while Writing, the engine may write.
type Holder struct {
	o Options

	mu       sync.Mutex
	on       bool // the engine writes, or is about to
	epoch    int64
	deadline time.Duration // since boot; the engine stops before it
	fenced   time.Duration // since boot: when it was told to stop; 0: it was not
	refused  error         // why the last renewal failed; nil: it succeeded

	holder  failsafe.Holder
	promise failsafe.Promise // what this instance has promised another writer
	peers   map[string]Peer  // by identity: those that it may have to ask
	alone   bool             // it goes on without a renewal now
}

// New returns the holder of an instance that does not write.
func New(o Options) *Holder { return &Holder{o: o} }

// Status is the state of a lease, for metrics.
type Status struct {
	Writing bool
	Fenced  bool
	Epoch   int64
	Alone   bool          // the writer goes on without a renewal
	Left    time.Duration // until the engine is stopped
}

// Status returns the state.
func (k *Holder) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Status{Writing: k.on, Fenced: k.fenced > 0, Epoch: k.epoch, Alone: k.alone, Left: max(0, k.deadline-host.SinceBoot())}
}

// Fenced reports whether the engine must not write, or is being stopped.
func (k *Holder) Fenced() bool {
	s := k.Status()
	return !s.Writing || s.Fenced
}

// Run keeps the lease until the context ends: it renews it in time, and stops a writer whose lease
// ends, even if the renewal hangs.
func (k *Holder) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { k.renew(ctx) })
	loops.Go(func() { k.watch(ctx) })
	loops.Wait()
}

// margin is how long before the end of its lease an engine is stopped.
func (k *Holder) margin() time.Duration { return k.o.Lease / 6 }

// Acquire takes or renews the lease. It is called before an engine becomes a writer.
func (k *Holder) Acquire(ctx context.Context, epoch int64) error {
	asked := host.SinceBoot()
	attempt, peers := k.recorded()
	holds, err := k.beginAttempt(asked, attempt, peers)
	if err != nil {
		return err
	}
	_, err = k.o.Grants.Renew(ctx, Renewal{Writer: k.o.Name, Identity: k.identity(), Epoch: epoch, TTL: k.o.Lease, Holds: holds, Failsafe: attempt})
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.promise.Taken()
	k.holder.End(asked, attempt, err == nil)
	if err != nil {
		return err
	}
	if k.fenced > 0 || holds && !k.on { // its lease ended meanwhile, and may have been given up since
		return port.SwitchRefused.Errorf("the engine of %s is being stopped", k.o.Name)
	}
	if err := k.note(asked + k.o.Lease - k.margin()/2); err != nil {
		return err
	}
	k.on, k.epoch, k.deadline = true, epoch, asked+k.o.Lease-k.margin()
	if k.alone {
		k.alone = false
		k.o.Log.Info("the lease is renewed again", "epoch", epoch)
	}
	return nil
}

// Writing reports whether the engine may write, and under which epoch.
func (k *Holder) Writing() (int64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch, k.on
}

// Release ends the lease of an engine that does not run.
func (k *Holder) Release(ctx context.Context) error {
	epoch, on := k.Writing()
	if !on {
		return nil
	}
	if _, err := k.o.Grants.Renew(ctx, Renewal{Writer: k.o.Name, Epoch: epoch}); err != nil {
		return err // the lease expires by itself
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.on, k.fenced = false, 0
	return os.RemoveAll(k.path(guardName))
}

// Resume continues the tenure of an engine that an earlier agent left running.
func (k *Holder) Resume(epoch int64) {
	var n guardNote
	if host.ReadJSON(k.path(guardName), &n) != nil || n.Boot != host.Boot() {
		n.Deadline = host.SinceBoot() + k.margin() // no deadline was ever recorded
	}
	k.mu.Lock()
	k.on, k.epoch, k.deadline = true, epoch, n.Deadline-k.margin()/2
	k.mu.Unlock()
	k.EnsureGuard()
}

// renew renews the lease in time, until the context ends.
func (k *Holder) renew(ctx context.Context) {
	every := time.NewTicker(k.o.Lease / 5)
	defer every.Stop()
	for {
		if epoch, on := k.Writing(); on {
			asking, cancel := context.WithTimeout(ctx, k.o.Lease/3)
			err := k.Acquire(asking, epoch)
			if errors.Is(err, port.SwitchRefused) {
				err = k.newer(asking, epoch, err)
			}
			cancel()
			if err != nil && ctx.Err() == nil {
				k.o.Log.Warn("the lease was not renewed", "epoch", epoch, "err", err)
				err = k.goOn(ctx, epoch, err)
			}
			k.mu.Lock()
			k.refused = err
			k.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// newer adopts a newer grant of this writer. A grant of another writer ends its tenure.
func (k *Holder) newer(ctx context.Context, epoch int64, refused error) error {
	g, err := k.o.Grants.Read(ctx)
	switch {
	case err != nil:
		return err
	case g.Writer == k.o.Name && g.Epoch == epoch:
		return refused // the earlier lease still runs
	case g.Writer == k.o.Name && g.Epoch > epoch:
		if err := k.o.Agent.Adopt(g.Epoch); err != nil {
			return err
		}
		return k.Acquire(ctx, g.Epoch)
	}
	k.fence(refused.Error())
	return nil
}

// watch stops a writer before its lease ends, even if other parts of the agent hang.
func (k *Holder) watch(ctx context.Context) {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		k.mu.Lock()
		on, late, fenced, refused := k.on, host.SinceBoot() >= k.deadline, k.fenced, k.refused
		k.mu.Unlock()
		switch {
		case !on:
		case fenced > 0:
			k.awaitFenced(fenced)
		case late && refused != nil:
			k.fence("its lease could not be renewed: " + fault.Message(refused))
		case late:
			k.fence("its lease could not be renewed")
		}
	}
}

// fence stops the engine immediately.
func (k *Holder) fence(why string) {
	k.mu.Lock()
	if !k.on || k.fenced > 0 {
		k.mu.Unlock()
		return
	}
	k.fenced = host.SinceBoot()
	k.mu.Unlock()
	k.o.Log.Error("the writer is fenced", "why", why)
	k.o.Agent.Fenced(port.WriterUnhealthy.Errorf("the engine was stopped: %s", why))
	if err := k.o.Agent.Engine().Signal(syscall.SIGQUIT); err != nil {
		k.o.Log.Error("fencing", "err", err)
	}
}

// awaitFenced waits for the end of a fenced engine, and kills it if it does not end.
func (k *Holder) awaitFenced(fenced time.Duration) {
	engine := k.o.Agent.Engine()
	if engine.Running() {
		if host.SinceBoot()-fenced > k.margin()/2 {
			engine.Kill()
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := k.Release(ctx); err != nil { // the lease expires by itself, only later
		k.mu.Lock()
		k.on, k.fenced = false, 0
		k.mu.Unlock()
		os.Remove(k.path(guardName))
	}
	k.o.Agent.Freed()
}
