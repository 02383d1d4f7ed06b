package postgres

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
)

// tenure is the right of an engine to write, and its end.
type tenure struct {
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

// guardNote is the file that the guard reads.
type guardNote struct {
	Boot     string        `json:"boot"`
	Deadline time.Duration `json:"deadline"` // since boot
}

const (
	guardName = "guard.json"
	guardLock = "guard.lock"
)

// margin is how long before the end of its lease an engine is stopped.
func (a *Agent) margin() time.Duration { return time.Duration(a.cfg.Lease) / 6 }

// acquire takes or renews the lease. It is called before an engine becomes a writer.
func (a *Agent) acquire(ctx context.Context, epoch int64) error {
	asked := sinceBoot()
	attempt, peers := a.recorded()
	holds, err := a.beginAttempt(asked, attempt, peers)
	if err != nil {
		return err
	}
	_, err = a.grants.Renew(ctx, Renewal{Writer: a.name, Identity: a.identity(), Epoch: epoch, TTL: time.Duration(a.cfg.Lease), Holds: holds, Failsafe: attempt})
	t := &a.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.promise.Taken()
	t.holder.End(asked, attempt, err == nil)
	if err != nil {
		return err
	}
	if t.fenced > 0 || holds && !t.on { // its lease ended meanwhile, and may have been given up since
		return port.SwitchRefused.Errorf("the engine of %s is being stopped", a.name)
	}
	if err := a.note(asked + time.Duration(a.cfg.Lease) - a.margin()/2); err != nil {
		return err
	}
	t.on, t.epoch, t.deadline = true, epoch, asked+time.Duration(a.cfg.Lease)-a.margin()
	if t.alone {
		t.alone = false
		a.log.Info("the lease is renewed again", "epoch", epoch)
	}
	return nil
}

func (a *Agent) note(deadline time.Duration) error {
	data := mustJSON(guardNote{Boot: boot(), Deadline: deadline})
	return trouble(replaceFile(a.srv.path(guardName), data, false))
}

// writing reports whether the engine may write, and under which epoch.
func (a *Agent) writing() (int64, bool) {
	a.tenure.mu.Lock()
	defer a.tenure.mu.Unlock()
	return a.tenure.epoch, a.tenure.on
}

// releaseLease ends the lease of an engine that does not run.
func (a *Agent) releaseLease(ctx context.Context) error {
	epoch, on := a.writing()
	if !on {
		return nil
	}
	if _, err := a.grants.Renew(ctx, Renewal{Writer: a.name, Epoch: epoch}); err != nil {
		return err // the lease expires by itself
	}
	a.tenure.mu.Lock()
	defer a.tenure.mu.Unlock()
	a.tenure.on, a.tenure.fenced = false, 0
	return os.RemoveAll(a.srv.path(guardName))
}

// resume continues the tenure of an engine that an earlier agent left running.
func (a *Agent) resume(epoch int64) {
	var n guardNote
	if ReadJSON(a.srv.path(guardName), &n) != nil || n.Boot != boot() {
		n.Deadline = sinceBoot() + a.margin() // no deadline was ever recorded
	}
	a.tenure.mu.Lock()
	a.tenure.on, a.tenure.epoch, a.tenure.deadline = true, epoch, n.Deadline-a.margin()/2
	a.tenure.mu.Unlock()
	a.ensureGuard()
}

// keepLease renews the lease in time, until the context ends.
func (a *Agent) keepLease(ctx context.Context) {
	every := time.NewTicker(time.Duration(a.cfg.Lease) / 5)
	defer every.Stop()
	for {
		if epoch, on := a.writing(); on {
			asking, cancel := context.WithTimeout(ctx, time.Duration(a.cfg.Lease)/3)
			err := a.acquire(asking, epoch)
			if errors.Is(err, port.SwitchRefused) {
				err = a.newer(asking, epoch, err)
			}
			cancel()
			if err != nil && ctx.Err() == nil {
				a.log.Warn("the lease was not renewed", "epoch", epoch, "err", err)
				err = a.goOn(ctx, epoch, err)
			}
			a.tenure.mu.Lock()
			a.tenure.refused = err
			a.tenure.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// newer adopts a newer grant of this writer. A grant of another writer ends its tenure.
func (a *Agent) newer(ctx context.Context, epoch int64, refused error) error {
	g, err := a.grants.Read(ctx)
	switch {
	case err != nil:
		return err
	case g.Writer == a.name && g.Epoch == epoch:
		return refused // the earlier lease still runs
	case g.Writer == a.name && g.Epoch > epoch:
		if err := a.change(func(r *record) { r.Epoch = g.Epoch }); err != nil {
			return err
		}
		return a.acquire(ctx, g.Epoch)
	}
	a.fence(refused.Error())
	return nil
}

// watchLease stops a writer before its lease ends, even if other parts of the agent hang.
func (a *Agent) watchLease(ctx context.Context) {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		t := &a.tenure
		t.mu.Lock()
		on, late, fenced, refused := t.on, sinceBoot() >= t.deadline, t.fenced, t.refused
		t.mu.Unlock()
		switch {
		case !on:
		case fenced > 0:
			a.awaitFenced(fenced)
		case late && refused != nil:
			a.fence("its lease could not be renewed: " + fault.Message(refused))
		case late:
			a.fence("its lease could not be renewed")
		}
	}
}

// fence stops the engine immediately.
func (a *Agent) fence(why string) {
	t := &a.tenure
	t.mu.Lock()
	if !t.on || t.fenced > 0 {
		t.mu.Unlock()
		return
	}
	t.fenced = sinceBoot()
	t.mu.Unlock()
	a.log.Error("the writer is fenced", "why", why)
	a.retryAfter(port.WriterUnhealthy.Errorf("the engine was stopped: %s", why), 0)
	if err := a.engine().Signal(syscall.SIGQUIT); err != nil {
		a.log.Error("fencing", "err", err)
	}
}

// awaitFenced waits for the end of a fenced engine, and kills it if it does not end.
func (a *Agent) awaitFenced(fenced time.Duration) {
	engine := a.engine()
	if engine.Running() {
		if sinceBoot()-fenced > a.margin()/2 {
			engine.Kill()
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.releaseLease(ctx); err != nil { // the lease expires by itself, only later
		a.tenure.mu.Lock()
		a.tenure.on, a.tenure.fenced = false, 0
		a.tenure.mu.Unlock()
		os.Remove(a.srv.path(guardName))
	}
	a.wake()
}

// ensureGuard starts the guard if it does not run.
func (a *Agent) ensureGuard() {
	if held(a.srv.path(guardLock)) {
		return
	}
	args := slices.Concat(a.cfg.Command[1:], []string{"--dir", a.srv.dir, "--guard"})
	cmd := exec.Command(a.cfg.Command[0], args...)
	cmd.Dir = a.srv.dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOMEMLIMIT=16MiB")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		a.log.Error("no guard: a writer would outlive its lease if this agent were killed", "err", err)
		return
	}
	a.srv.children.Go(func() { _ = cmd.Wait() }) // the guard's lock tells whether it runs
}

// Guard stops the writer of an instance when its lease is about to end, because the agent that
// should have done it was killed or is frozen. It returns when there is no engine to watch.
func Guard(ctx context.Context, dir string) error {
	lock, err := TryLock(dir + "/" + guardLock)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	srv := &server{dir: dir}
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for absent := 0; absent < 50; { // the guard may start before the engine
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		var n guardNote
		if ReadJSON(srv.path(guardName), &n) != nil {
			return nil
		}
		engine := srv.find()
		if !engine.Running() {
			absent++
			continue
		}
		absent = 0
		switch late := sinceBoot() - n.Deadline; {
		case n.Boot != boot() || late < 0:
		case late < time.Second:
			_ = engine.Signal(syscall.SIGQUIT) // if that fails, it is killed below
		default:
			engine.Kill()
		}
	}
	return nil
}
