package sqlstore

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Limits of waiting. PostgreSQL drops a connection whose other end is gone by
// the settings of prepareSession, and we drop ours to a server that is gone by these.
const (
	connectWithin = 5 * time.Second
	unackedFor    = 10 * time.Second // sent, and not acknowledged by the other machine
	guardEvery    = 200 * time.Millisecond
	guardWithin   = 5 * time.Second // an answer of its own
)

// prepareConnection makes a connection notice that the server's machine is gone.
func prepareConnection(c *pgx.ConnConfig) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectWithin
	}
	dialer := &net.Dialer{
		Timeout:         c.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         userTimeout,
	}
	c.DialFunc = dialer.DialContext
}

// silentSQL ends connections of this program that others wait for while they
// wait for their own process: it was frozen, or its machine has gone, in the
// middle of what it sent or of the answer. PostgreSQL undoes what they did.
const silentSQL = `
SELECT pg_terminate_backend(b.pid) FROM pg_stat_activity b
WHERE b.wait_event_type = 'Client' AND b.xact_start IS NOT NULL AND b.state_change < clock_timestamp() - interval '0.3 s'
	AND b.datname = current_database() AND b.usename = current_user AND b.application_name = current_setting('application_name')
	AND EXISTS (SELECT FROM pg_stat_activity w WHERE w.wait_event_type = 'Lock' AND w.datname = b.datname AND b.pid = ANY (pg_blocking_pids(w.pid)))`

// guard asks for a search for such connections for as long as calls of this
// process are under way that may be waiting for a lock. The listener's connection makes it: those of the pool
// may all wait.
func (p *Postgres) guard() {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for before := false; ; {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		busy := p.pool.Stat().AcquiredConns() > 0
		if busy && before || p.writer.runsLongerThan(guardEvery) {
			p.silentSearch.request()
		}
		before = busy
	}
}

// asking passes a request to a goroutine that blocks in a call with a context.
type interrupter struct {
	mu        sync.Mutex
	requested bool
	cancel    context.CancelFunc // ends the call under way; nil: there is none
}

// ask ends the call under way, or the next one at once.
func (a *interrupter) request() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requested = true
	if a.cancel != nil {
		a.cancel()
	}
}

// during executes a call that ask ends.
func (a *interrupter) run(ctx context.Context, call func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.cancel = cancel
	if a.requested {
		cancel()
	}
	a.mu.Unlock()
	call(ctx)
	a.mu.Lock()
	a.cancel = nil
	a.mu.Unlock()
}

// taken reports that somebody has asked since it was called last.
func (a *interrupter) takeRequest() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	requested := a.requested
	a.requested = false
	return requested
}

// probeOwner is the account of rows by which servers find out that they can write.
const probeOwner = "probe"

// probeSQL keeps a row for each process; those of processes that are gone are
// removed with the answers of the day before.
const probeSQL = `INSERT INTO idempotency (account, key, hash, at, answer) VALUES ($1, $2, '', $3, NULL) ON CONFLICT (account, key) DO UPDATE SET at = excluded.at`

// Probe writes as requests do, and tells why that cannot be done. It goes both
// ways: that of runs and that of all else.
func (p *Postgres) Probe(ctx context.Context) error {
	if err := (pgBackend{p}).apply(ctx, do(probeSQL, probeOwner, p.name, time.Now().UnixNano())); err != nil {
		return err
	}
	_, err := p.writer.do(ctx, &pgWrite{k: -1})
	return err
}

// Probe writes as requests do, and tells why that cannot be done.
func (s *SQLite) Probe(ctx context.Context) error {
	return sqBackend{s}.apply(ctx, do(probeSQL, probeOwner, "file", time.Now().UnixNano()))
}
