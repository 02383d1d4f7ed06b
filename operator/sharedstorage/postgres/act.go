package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// pass observes, decides and acts once. It reports whether to make another pass at once.
func (a *Agent) pass(ctx context.Context) bool {
	a.mu.Lock()
	busy := a.live.job != ""
	a.mu.Unlock()
	if busy {
		return false
	}
	f, s, err := a.gather(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("observing the engine", "err", err)
		}
		return false
	}
	m := decide(f)
	a.mu.Lock()
	a.live.quiet++
	if m != idle || !f.ready {
		a.live.quiet = 0
	}
	a.mu.Unlock()
	if m == idle {
		if f.ready && f.stopping == "" {
			a.repair(ctx, f.rec, s)
		}
		return false
	}
	a.log.Info("engine", "move", string(m), "epoch", f.grant.Epoch)
	switch err := a.act(ctx, m, f, s); {
	case err == nil:
	case m == release: // not a failure of the engine: the lease expires by itself, and the agent tries again
		a.log.Warn("the lease is not released", "err", err)
		return false
	default:
		if ctx.Err() == nil {
			a.fail(fmt.Errorf("%s: %w", m, err))
		}
		return false
	}
	return m != install && m != halt && m != demote && m != recopy && m != rewindData && m != promote && m != startReader && m != startPromote && m != openWriter
}

func (a *Agent) gather(ctx context.Context) (facts, engineState, error) {
	engine := a.engine()
	running := engine.Running()
	var s engineState
	var queryErr error
	if running {
		s, queryErr = a.queryState(ctx)
	}
	if err := a.observe(ctx, engine, running, s, queryErr); err != nil {
		return facts{}, s, err
	}
	_, writing := a.lease.Writing()
	a.mu.Lock()
	f := facts{
		rec: a.rec.clone(), name: a.name, now: time.Now(), retry: a.live.retry, installed: a.srv.installed(), running: running,
		ready: running && queryErr == nil, recovery: s.Recovery, standby: a.srv.standby(), writing: writing, diverged: a.live.diverged,
	}
	if running && a.live.stopping == engine {
		f.stopping = a.live.how
	}
	f.stale = running && a.configuration(f.rec, f.recovery) != a.live.config
	a.mu.Unlock()
	if !running && (f.rec.Run || writing) || f.rec.Promote > 0 {
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		g, err := a.grants.Read(asking)
		if err != nil {
			a.log.Warn("the grant cannot be read", "err", err)
		}
		f.grant, f.known = g, err == nil
	}
	return f, s, nil
}

// observe stores what was observed.
func (a *Agent) observe(ctx context.Context, engine host.Process, running bool, s engineState, queryErr error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := &a.live
	if st := l.starting; st != nil && !st.engine.Running() {
		l.starting = nil
		said := a.srv.tail(st.log)
		a.mu.Unlock()
		a.fail(port.StartFailed.Errorf("postgres ended while it started: %s", lastLines(said, 6)))
		if st.writer && !running {
			_ = a.lease.Release(ctx) // the lease expires by itself
		}
		a.mu.Lock()
	}
	if !running || queryErr != nil {
		l.still = time.Time{}
		if st := l.starting; st != nil && running && time.Since(st.at) > unresponsiveAfter && !recovering(queryErr) {
			l.fault = port.StartFailed.Errorf("postgres runs and accepts no connection: %w; it says: %s", queryErr, lastLines(a.srv.tail(st.log), 6))
		}
		return nil
	}
	if l.starting != nil && l.starting.engine == engine {
		l.starting = nil
	}
	if l.failures > 0 || l.fault != nil && !errors.Is(l.fault, port.SwitchRefused) {
		l.fault, l.failures, l.retry = nil, 0, time.Time{}
	}
	if !s.Recovery {
		l.receiving = s.Receiving
		slices.Sort(l.receiving)
	}
	return a.changeLocked(func(r *record) {
		r.Timeline = max(r.Timeline, s.Timeline)
		if !s.Recovery {
			r.Timeline = s.Timeline
		}
	})
}

// unresponsiveAfter is how long an engine may run without accepting a connection, unless it does
// recovery.
const unresponsiveAfter = 30 * time.Second

// recovering reports the error of an engine that does recovery before it accepts connections.
func recovering(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "57P03"
}

// configuration returns the configuration that the engine should have read.
func (a *Agent) configuration(r record, recovery bool) string {
	s := setup{Bind: a.cfg.Bind, Port: a.cfg.Port, Name: a.name, Params: a.parameters(r), PassFile: a.srv.path(confName, "pgpass")}
	s.Sync = r.sync(a.name, a.cfg.Durability, a.live.receiving)
	s.Floors, s.Volume, s.HugePages = r.Floors, a.srv.volumeSize(), a.cfg.HugePages
	s.LogicalSlots = logicalSlots(a.srv.data())
	s.Certificate, s.Trust = a.srv.certificate.current(), a.srv.certificate.trust()
	s.HBA = a.srv.certificate.hba()
	s.TLS = [2]string{a.srv.path(confName, CertificateFile), a.srv.path(confName, KeyFile)}
	s.Archive, s.ArchiveTimeout = a.archive.command(r.Archive), r.Archive != nil
	if recovery && !r.Hold && r.Promote == 0 {
		s.Upstream = r.Upstream
	}
	return configuration(s)
}

func (a *Agent) parameters(r record) map[string]string {
	if r.Applied {
		return r.Params
	}
	return a.cfg.Parameters
}

func (a *Agent) act(ctx context.Context, m move, f facts, s engineState) error {
	switch m {
	case reclaim:
		return a.reclaim(ctx, f.rec)
	case release:
		return a.lease.Release(ctx)
	case install:
		a.job(ctx, "install", a.install)
	case halt:
		a.stop(ctx, mode(f.rec), f.ready && !s.Recovery)
	case demote:
		a.stop(ctx, port.Fast, false)
	case recopy:
		a.job(ctx, "copy", func(ctx context.Context) error { return a.copyFrom(ctx, *f.rec.Upstream) })
	case rewindData:
		a.job(ctx, "rewind", func(ctx context.Context) error { return a.rewind(ctx, *f.rec.Upstream) })
	case openWriter:
		return a.openWriter(ctx, f)
	case startPromote:
		if err := a.change(func(r *record) { r.Promote, r.Hold = f.grant.Epoch, false }); err != nil {
			return err
		}
		f.rec.Promote = f.grant.Epoch
		return a.startReader(ctx, f.rec)
	case startReader:
		return a.startReader(ctx, f.rec)
	case promote:
		return a.promote(ctx, f)
	case promoted:
		return a.opened(ctx, f.rec.Promote)
	case abandonPromotion:
		a.retryAfter(port.SwitchRefused.Errorf("%s was to be promoted under epoch %d, and the grant is of epoch %d to %s", a.name, f.rec.Promote, f.grant.Epoch, lease.Named(f.grant.Writer)), 0)
		return a.change(func(r *record) {
			if r.Promote == f.rec.Promote {
				r.Promote = 0
			}
		})
	case reload:
		return a.reload(ctx, f.rec, f.recovery)
	}
	return nil
}

// job runs something long in the background. The loop does nothing else meanwhile.
func (a *Agent) job(ctx context.Context, name string, do func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	a.live.job, a.live.cancelJob = name, cancel
	a.mu.Unlock()
	a.srv.children.Go(func() {
		defer cancel()
		err := do(ctx)
		if err != nil && ctx.Err() == nil {
			a.fail(fmt.Errorf("%s: %w", name, err))
		}
		a.mu.Lock()
		a.live.job, a.live.cancelJob = "", nil
		if err == nil {
			a.live.fault, a.live.failures, a.live.retry = nil, 0, time.Time{}
		}
		a.mu.Unlock()
		a.wake()
	})
}

// absent tells whether an engine is gone for the moment or has moved, in contrast to one that
// rejects the request.
func absent(in Upstream, err error) error {
	var unconnected *pgconn.ConnectError
	var said *pgconn.PgError
	if !errors.As(err, &unconnected) || errors.As(err, &said) && !recovering(err) {
		return err
	}
	return port.WriterUnhealthy.Errorf("instance %s does not answer: %w", in.Name, err)
}

func (a *Agent) install(ctx context.Context) error {
	a.mu.Lock()
	want := *a.rec.Install
	a.mu.Unlock()
	if want.From != nil {
		if err := a.reserve(ctx, *want.From); err != nil {
			return absent(*want.From, err)
		}
		if err := a.srv.backup(ctx, *want.From); err != nil {
			return err
		}
		return a.change(func(r *record) {
			r.Installed, r.Fresh, r.Ahead, r.Broken, r.Rejoin = want.Key, false, false, false, true
			if r.Upstream == nil {
				r.Upstream = want.From
			}
		})
	}
	// Recorded first: a later start knows that it must clean up the data it finds.
	if err := a.change(func(r *record) { r.Fresh = true }); err != nil {
		return err
	}
	_, seedErr := os.Stat(a.cfg.Seed)
	var err error
	switch {
	case want.Restore != nil:
		err = a.restoreFirst(ctx, want)
	case a.cfg.Seed != "" && seedErr == nil:
		err = a.srv.take(ctx, a.cfg.Seed)
	default:
		err = a.srv.initialize(ctx)
	}
	if err != nil {
		return err
	}
	return a.change(func(r *record) { r.Installed, r.Install = want.Key, &installation{Key: want.Key} }) // their password is set when the engine writes
}

// reserve creates the replication slot of this instance in another engine.
func (a *Agent) reserve(ctx context.Context, in Upstream) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := a.reach(ctx, in)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return reserve(ctx, c, slotName(a.name))
}

// stop stops the engine. Before a fast stop a writer writes a checkpoint while it still serves, so
// that the stop itself is short.
func (a *Agent) stop(ctx context.Context, how port.StopMode, checkpoint bool) {
	engine := a.engine()
	a.mu.Lock()
	a.live.stopping, a.live.how = engine, how
	a.mu.Unlock()
	signal := syscall.SIGINT
	if how == port.Immediate {
		signal = syscall.SIGQUIT
	}
	if how == port.Immediate || !checkpoint {
		if err := engine.Signal(signal); err != nil {
			a.log.Error("stopping the engine", "err", err)
		}
		return
	}
	a.job(ctx, "checkpoint", func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := a.sql(limited, func(ctx context.Context, c *pgx.Conn) error { _, err := c.Exec(ctx, "CHECKPOINT"); return err }); err != nil {
			a.log.Warn("no checkpoint before the stop", "err", err)
		}
		return engine.Signal(signal)
	})
}

// reclaim takes the lease for an engine that writes without one, or stops the engine.
func (a *Agent) reclaim(ctx context.Context, r record) error {
	err := a.lease.Acquire(ctx, r.Epoch)
	if err == nil {
		a.lease.EnsureGuard()
		return nil
	}
	if !errors.Is(err, port.SwitchRefused) {
		return a.notYet(err)
	}
	a.stop(ctx, port.Immediate, false)
	if err := a.change(func(r *record) { r.Run, r.Mode, r.Ahead = false, port.Immediate, true }); err != nil {
		return err
	}
	a.retryAfter(port.TwoWriters.Errorf("the engine of %s wrote without the grant and is stopped: %s", a.name, fault.Message(err)), 0)
	return nil
}

// openWriter starts an engine that continues to write on its timeline.
func (a *Agent) openWriter(ctx context.Context, f facts) error {
	if err := a.lease.Acquire(ctx, f.grant.Epoch); err != nil {
		return a.notYet(err)
	}
	a.retryAfter(nil, 0)
	if err := a.change(func(r *record) {
		r.Epoch, r.Fresh, r.Ahead, r.Upstream, r.Hold, r.Promote, r.Rejoin, r.Floors = f.grant.Epoch, false, true, nil, false, 0, false, nil
		f.rec = r.clone()
	}); err != nil {
		return err
	}
	if err := a.srv.setStandby(false); err != nil {
		return err
	}
	a.lease.EnsureGuard()
	return a.launch(f.rec, false, true)
}

// notYet is for a lease that cannot be had at the moment: the agent asks again soon.
func (a *Agent) notYet(err error) error {
	if fault.Of(err) == fault.Unknown { // such as a permission that is missing for a moment
		err = port.WriterUnhealthy.Errorf("the engine waits for its right to write: %w", err)
	}
	a.retryAfter(err, 200*time.Millisecond)
	return nil
}

func (a *Agent) startReader(ctx context.Context, r record) error {
	if err := a.srv.setStandby(true); err != nil {
		return err
	}
	data, err := a.srv.control(ctx)
	if err != nil {
		return err
	}
	if err := a.change(func(r *record) { r.Floors, r.Fresh = data.Floors, false }); err != nil {
		return err
	}
	r.Floors = data.Floors
	if r.Upstream != nil && r.Promote == 0 && !r.Hold {
		if err := a.reserve(ctx, *r.Upstream); err != nil {
			a.log.Warn("no slot at the upstream yet", "upstream", r.Upstream.Name, "err", err)
		}
	}
	return a.launch(r, true, false)
}

// launch starts postgres with its configuration.
func (a *Agent) launch(r record, recovery, writer bool) error {
	a.mu.Lock()
	a.live.receiving, a.live.stopping = nil, host.Process{}
	text := a.configuration(r, recovery)
	a.mu.Unlock()
	if err := errors.Join(a.srv.writeHBA(), a.srv.write(a.srv.path(confName, "postgresql.conf"), text)); err != nil {
		return host.Trouble(err)
	}
	a.mu.Lock() // so that nobody takes the engine for gone before it is known to run
	defer a.mu.Unlock()
	if a.lease.Fenced() && writer {
		return port.SwitchRefused.Errorf("the lease ended before the engine was started")
	}
	size := a.srv.logSize()
	engine, err := a.srv.start()
	if err != nil {
		return err
	}
	a.live.config, a.live.starting, a.live.diverged, a.live.still = text, &starting{engine, size, writer, time.Now()}, false, time.Time{}
	return nil
}

// promote makes the follower the writer, once it has the lease.
func (a *Agent) promote(ctx context.Context, f facts) error {
	if f.stale { // it needs the list of readers that must have its commits, and no upstream
		if err := a.reload(ctx, f.rec, true); err != nil {
			return err
		}
	}
	if err := a.lease.Acquire(ctx, f.rec.Promote); err != nil {
		return a.notYet(err)
	}
	a.retryAfter(nil, 0)
	if err := a.change(func(r *record) { r.Epoch, r.Ahead = f.rec.Promote, true }); err != nil {
		return err
	}
	a.lease.EnsureGuard()
	if err := a.srv.announce(); err != nil {
		a.log.Warn("the log of the former writer may not be archived", "err", err)
	}
	if err := a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_promote(false)")
		return err
	}); err != nil {
		return err
	}
	for every := time.NewTicker(20 * time.Millisecond); ; {
		s, err := a.queryState(ctx)
		switch {
		case err == nil && !s.Recovery:
			return a.opened(ctx, f.rec.Promote)
		case err != nil, a.lease.Fenced(), !a.wanted():
			return nil //nolint:nilerr // the next pass sees what is
		}
		<-every.C
	}
}

func (a *Agent) wanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rec.Run
}

// opened records that the promotion is done. The floors stay, so that nothing waits for a restart: a
// lower value counts from the next start, or when somebody sets another one.
func (a *Agent) opened(_ context.Context, epoch int64) error {
	return a.change(func(r *record) {
		if r.Promote == epoch {
			r.Promote = 0
		}
		r.Upstream, r.Hold, r.Rejoin = nil, false, false
	})
}

// reload makes the engine read its configuration, and waits until it has done so.
func (a *Agent) reload(ctx context.Context, r record, recovery bool) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	a.mu.Lock()
	text, old := a.configuration(r, recovery), a.live.config
	a.mu.Unlock()
	if up := r.Upstream; recovery && up != nil && r.Promote == 0 && !r.Hold && !strings.Contains(old, up.conninfo(a.name, a.srv.path(confName, "pgpass"), a.srv.certificate.trust())) {
		if err := a.reserve(ctx, *up); err != nil {
			a.log.Warn("no slot at the upstream yet", "upstream", up.Name, "err", err)
		}
	}
	if err := errors.Join(a.srv.writeHBA(), a.srv.write(a.srv.path(confName, "postgresql.conf"), text)); err != nil {
		return host.Trouble(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var before string
	if err := a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT extract(epoch FROM pg_conf_load_time())::text FROM pg_reload_conf()").Scan(&before)
	}); err != nil {
		return err
	}
	for every := time.NewTicker(10 * time.Millisecond); ; {
		var now string
		if err := a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error {
			return c.QueryRow(ctx, "SELECT extract(epoch FROM pg_conf_load_time())::text").Scan(&now)
		}); err != nil {
			return err
		}
		if now != before {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live.config = text
	return nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
