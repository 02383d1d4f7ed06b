package postgres

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Timeouts. The settings of PrepareSession make PostgreSQL drop a connection whose
// client is gone. With these, the client drops a connection whose server is gone.
const (
	connectWithin = 5 * time.Second
	unackedFor    = 10 * time.Second // for data that the other machine has not acknowledged
	guardEvery    = 200 * time.Millisecond
	guardWithin   = 5 * time.Second // for the search itself
)

// prepareConnection makes a connection detect that the server's machine is gone.
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

// silentSQL ends connections of this program that others wait for while the server waits
// for their client: the client's process or machine froze or died in the middle of a
// message. PostgreSQL rolls back their transactions.
const silentSQL = `
SELECT pg_terminate_backend(b.pid) FROM pg_stat_activity b
WHERE b.wait_event_type = 'Client' AND b.xact_start IS NOT NULL AND b.state_change < clock_timestamp() - interval '0.3 s'
	AND b.datname = current_database() AND b.usename = current_user AND b.application_name = current_setting('application_name')
	AND EXISTS (SELECT FROM pg_stat_activity w WHERE w.wait_event_type = 'Lock' AND w.datname = b.datname AND b.pid = ANY (pg_blocking_pids(w.pid)))`

// guard requests a search for silent connections while calls of this process are under
// way that may be waiting for a lock. The listener's connection makes the search,
// because all connections of the pool may be waiting.
func (p *DB) guard(longWrite func(time.Duration) bool) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for before := false; ; {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		busy := p.Pool.Stat().AcquiredConns() > 0
		if busy && before || longWrite(guardEvery) {
			p.silentSearch.request()
		}
		before = busy
	}
}

// interrupter passes a request to a goroutine that blocks in a call with a context.
type interrupter struct {
	mu        sync.Mutex
	requested bool
	cancel    context.CancelFunc // ends the call under way; nil: no call
}

// request ends the call under way, or the next call at once.
func (a *interrupter) request() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requested = true
	if a.cancel != nil {
		a.cancel()
	}
}

// run executes a call that request ends.
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

// takeRequest reports whether there was a request since its last call.
func (a *interrupter) takeRequest() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	requested := a.requested
	a.requested = false
	return requested
}
