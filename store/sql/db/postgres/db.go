// Package postgres is a PostgreSQL database that several processes share: its connections, changes, migrations and
// notifications, and the guard over its locks.
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// DB is a PostgreSQL database that several processes share.
//
//	reads, changes ──▶ pool
//	NOTIFY ──────────▶ listener ─▶ waker, changed: hints only
//	guard ───────────▶ listener ─▶ ends connections that hold a lock and are silent
//
// It has at most poolSize+1 connections, so that sixteen processes with their writers fit
// into the 100 connections that PostgreSQL has by default. To renew a lease beside
// slow reads it opens one more for a moment, if the server accepts it.
type DB struct {
	Pool    *pgxpool.Pool
	Config  *pgx.ConnConfig
	Waker   *db.Waker        // fires when a run may be due
	name    string           // random name of this process
	changed control.Notifier // fires when a feed may have grown

	lockSlots    chan struct{} // limits the calls that may wait for a lock while they hold a connection
	silentSearch interrupter   // with it the guard asks the listener to search for silent connections

	writes, commits, bytes, statements atomic.Int64

	ctx  context.Context // ends when the database is closed
	End  context.CancelFunc
	done sync.WaitGroup // of the goroutines that close waits for
}

const (
	poolSize       = 3           // connections of the pool; pool_max_conns in the DSN overrides it
	reconnectDelay = time.Second // between connection attempts of the listener
)

// Open connects and brings the schema up to date.
func Open(ctx context.Context, dsn string) (*DB, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = poolSize
	}
	PrepareSession(config.ConnConfig)
	prepareConnection(config.ConnConfig)
	config.AfterConnect = CheckSession
	if err := migrate(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, Fault(err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, Fault(err)
	}
	p := &DB{Pool: pool, Config: config.ConnConfig.Copy(), Waker: db.NewWaker(), name: rand.Text(), lockSlots: make(chan struct{}, (config.MaxConns+1)/2)}
	p.ctx, p.End = context.WithCancel(context.WithoutCancel(ctx))
	return p, nil
}

// Start starts the listener and the guard. longWrite reports a write outside the pool
// that has been under way for at least a time.
func (p *DB) Start(longWrite func(time.Duration) bool) {
	p.done.Go(p.listen)
	p.done.Go(func() { p.guard(longWrite) })
}

// Close waits for the goroutines of the database and closes all connections.
func (p *DB) Close() {
	p.End()
	p.done.Wait()
	p.Pool.Close()
}

// Run runs a goroutine that close waits for.
func (p *DB) Run(goroutine func()) { p.done.Go(goroutine) }

// Connect opens a connection beside the pool and prepares statements on it by name.
func (p *DB) Connect(statements map[string]string) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, p.Config)
	if err != nil {
		return nil, err
	}
	err = CheckSession(ctx, c)
	for name, sql := range statements {
		if err == nil {
			_, err = c.PgConn().Prepare(ctx, name, sql, nil)
		}
	}
	if err != nil {
		CloseConn(c)
		return nil, err
	}
	return c.PgConn(), nil
}

// Context returns a context that ends when the database is closed.
func (p *DB) Context() context.Context { return p.ctx }

// CountCommit adds one transaction of several writes.
func (p *DB) CountCommit(writes, statements int, bytes int64) {
	p.commits.Add(1)
	p.writes.Add(int64(writes))
	p.statements.Add(int64(statements))
	p.bytes.Add(bytes)
}

// Stats counts the writes of this process since the start. A call other than Create and
// Save (Send, Claim that changes something, objects, locks) counts as one write and one
// commit, even if it fails; objects and locks count no bytes. WALBytes is 0, because
// other processes write to the server's log too.
func (p *DB) Stats() db.Stats {
	n := p.commits.Load()
	return db.Stats{Writes: p.writes.Load(), Commits: n, Syncs: n, Bytes: p.bytes.Load(), Statements: p.statements.Load()}
}

// Count adds one write that does not go through the writers.
func (p *DB) Count(statements, bytes int) {
	p.writes.Add(1)
	p.commits.Add(1)
	p.statements.Add(int64(statements))
	p.bytes.Add(int64(bytes))
}

// PrepareSession sets the parameters of every session: durable commits, plans that do
// not depend on the contents of the tables, and timeouts for every wait.
func PrepareSession(c *pgx.ConnConfig) {
	if c.RuntimeParams == nil {
		c.RuntimeParams = map[string]string{}
	}
	for name, value := range map[string]string{
		"synchronous_commit": "on",
		"plan_cache_mode":    "force_generic_plan",
		"jit":                "off",
		"enable_seqscan":     "off",
		"enable_hashjoin":    "off",
		"enable_mergejoin":   "off",
		"timezone":           "UTC",

		// The server soon drops the sessions of a process that is frozen or dead.
		"idle_in_transaction_session_timeout": "1s",
		"lock_timeout":                        "5s",
		"statement_timeout":                   "60s",
		"tcp_keepalives_idle":                 "5",
		"tcp_keepalives_interval":             "2",
		"tcp_keepalives_count":                "3",
		"tcp_user_timeout":                    "10s",
	} {
		c.RuntimeParams[name] = value
	}
	if _, named := c.RuntimeParams["application_name"]; !named {
		c.RuntimeParams["application_name"] = "pawl"
	}
}

// CheckSession refuses a session whose commits are not durable, for example because a
// connection pooler drops settings.
func CheckSession(ctx context.Context, c *pgx.Conn) error {
	var value string
	if err := c.QueryRow(ctx, "SELECT current_setting('synchronous_commit')").Scan(&value); err != nil {
		return err
	}
	if value != "on" {
		return fmt.Errorf("synchronous_commit is %q, it must be on: connect to the server itself, not through a pooler that drops settings", value)
	}
	return nil
}

// Refused is the fault of a database that refuses this user. Waiting does not help.
var Refused = fault.Declare(fault.Kind{
	Code: "STORE_REFUSED", Class: fault.Blocked,
	Title:  "the database refuses this user",
	Remedy: "Correct user, password or name of the database in --dsn, or create them on the server, and start again.",
})

// Fault returns the fault of a failed statement. Errors of the caller's context stay
// as they are.
func Fault(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case strings.HasPrefix(pg.Code, "28"), pg.Code == "3D000", pg.Code == "42501": // user or password, no such database, no permission
			return Refused.Errorf("PostgreSQL: %w", err)
		case pg.Code == "53100", pg.Code == "25006", pg.Code == "58030": // disk full, read-only, I/O error
			return runstore.StoreFull.Errorf("PostgreSQL: %w", err)
		case strings.HasPrefix(pg.Code, "22"), strings.HasPrefix(pg.Code, "23"), strings.HasPrefix(pg.Code, "42"): // a defect in this program
			return fmt.Errorf("PostgreSQL: %w", err)
		case strings.HasPrefix(pg.Code, "XX"): // internal error, data or index corrupted
			return runstore.StoreCorrupt.Errorf("PostgreSQL: %w", err)
		}
	}
	return runstore.StoreUnavailable.Errorf("PostgreSQL: %w", err)
}

// IsRefused reports that the server refused the statement and rolled back its transaction,
// so that it may be tried again.
func IsRefused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Severity == "ERROR"
}

// AcquireWithin returns a connection for a call that must not wait for slow reads: from
// the pool within patience, else a new connection, else, if the server accepts no more
// connections, from the pool without a limit.
func (p *DB) AcquireWithin(ctx context.Context, patience time.Duration) (c *pgx.Conn, release func(), err error) {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if pooled, err := p.Pool.Acquire(short); err == nil {
		return pooled.Conn(), sync.OnceFunc(pooled.Release), nil
	} else if short.Err() == nil || ctx.Err() != nil {
		return nil, nil, err
	}
	if c, err = pgx.ConnectConfig(ctx, p.Config); err == nil {
		return c, sync.OnceFunc(func() { CloseConn(c) }), nil
	}
	pooled, err := p.Pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	return pooled.Conn(), sync.OnceFunc(pooled.Release), nil
}
