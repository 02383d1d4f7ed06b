package sql

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

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow"
)

// Postgres stores runs, objects, locks and clusters in a PostgreSQL database that
// several processes share.
//
//	Create, Save ─▶ pending ─▶ writer 1 ─▶ one pipelined transaction for all pending writes
//	                      └──▶ writer 2 ─▶ while a transaction of writer 1 takes long
//	Load, Claim, Send, … ────▶ pool
//	NOTIFY ──────────────────▶ listener ─▶ Wake, Feed: hints only
//	guard ───────────────────▶ listener ─▶ ends connections that hold a lock and are silent
//
// It has at most pgPool+pgWriters+1 connections, so that sixteen processes fit
// into the 100 connections that PostgreSQL has by default. To renew a lease beside
// slow reads it opens one more for a moment, if the server accepts it.
type Postgres struct {
	pool      *pgxpool.Pool
	config    *pgx.ConnConfig
	writer    *pgWriter
	wake      *db.Waker
	name      string      // random name of this process
	changed   db.Notifier // fires when a feed may have grown
	clusters  *clusters.Store
	encrypter *secrets.Encrypter

	lockSlots    chan struct{} // limits the calls that may wait for a lock while they hold a connection
	silentSearch interrupter   // with it the guard asks the listener to search for silent connections

	writes, commits, bytes, statements atomic.Int64

	leases sync.Map // worker name → int64, its lease in the table worker

	ctx  context.Context
	end  context.CancelFunc
	done sync.WaitGroup
}

var _ Store = (*Postgres)(nil)

const (
	pgWriters      = 2 // the second connects when the first waits long
	pgPool         = 3 // connections for everything else; pool_max_conns in the DSN overrides it
	pgBatch        = 512
	maxSingleSaves = 2           // up to this many saves, each has its own statement
	reconnectDelay = time.Second // between connection attempts of the listener
)

// openPostgres connects, brings the schema up to date and starts the writers.
func openPostgres(ctx context.Context, dsn string, encrypter *secrets.Encrypter) (*Postgres, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = pgPool
	}
	prepareSession(config.ConnConfig)
	prepareConnection(config.ConnConfig)
	config.AfterConnect = checkSession
	if err := migratePostgres(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, pgError(err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, pgError(err)
	}
	p := &Postgres{pool: pool, config: config.ConnConfig.Copy(), wake: db.NewWaker(), name: rand.Text(), encrypter: encrypter, lockSlots: make(chan struct{}, (config.MaxConns+1)/2)}
	p.clusters = clusters.New(pgBackend{p}, encrypter)
	p.ctx, p.end = context.WithCancel(context.WithoutCancel(ctx))
	p.writer = newPGWriter(p)
	for range pgWriters {
		p.done.Go(p.writer.serve)
	}
	p.done.Go(p.listen)
	p.done.Go(p.guard)
	return p, nil
}

// Close finishes the writes under way and closes all connections. Later writes fail with
// STORE_UNAVAILABLE.
func (p *Postgres) Close() error {
	p.writer.close()
	p.end()
	p.done.Wait()
	p.pool.Close()
	return nil
}

// Stats counts the writes of this process since the start. A call other than Create and
// Save (Send, Claim that changes something, objects, locks) counts as one write and one
// commit, even if it fails; objects and locks count no bytes. WALBytes is 0, because
// other processes write to the server's log too.
func (p *Postgres) Stats() Stats {
	n := p.commits.Load()
	return Stats{Writes: p.writes.Load(), Commits: n, Syncs: n, Bytes: p.bytes.Load(), Statements: p.statements.Load()}
}

// count adds one write that does not go through the writers.
func (p *Postgres) count(statements, bytes int) {
	p.writes.Add(1)
	p.commits.Add(1)
	p.statements.Add(int64(statements))
	p.bytes.Add(int64(bytes))
}

// prepareSession sets the parameters of every session: durable commits, plans that do
// not depend on the contents of the tables, and timeouts for every wait.
func prepareSession(c *pgx.ConnConfig) {
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

// checkSession refuses a session whose commits are not durable, for example because a
// connection pooler drops settings.
func checkSession(ctx context.Context, c *pgx.Conn) error {
	var value string
	if err := c.QueryRow(ctx, "SELECT current_setting('synchronous_commit')").Scan(&value); err != nil {
		return err
	}
	if value != "on" {
		return fmt.Errorf("synchronous_commit is %q, it must be on: connect to the server itself, not through a pooler that drops settings", value)
	}
	return nil
}

// StoreRefused is the fault of a database that refuses this user. Waiting does not help.
var StoreRefused = fault.Declare(fault.Kind{
	Code: "STORE_REFUSED", Class: fault.Blocked,
	Title:  "the database refuses this user",
	Remedy: "Correct user, password or name of the database in --dsn, or create them on the server, and start again.",
})

// pgError returns the fault of a failed statement. Errors of the caller's context stay
// as they are.
func pgError(err error) error {
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
			return StoreRefused.Errorf("PostgreSQL: %w", err)
		case pg.Code == "53100", pg.Code == "25006", pg.Code == "58030": // disk full, read-only, I/O error
			return workflow.StoreFull.Errorf("PostgreSQL: %w", err)
		case strings.HasPrefix(pg.Code, "22"), strings.HasPrefix(pg.Code, "23"), strings.HasPrefix(pg.Code, "42"): // a defect in this program
			return fmt.Errorf("PostgreSQL: %w", err)
		case strings.HasPrefix(pg.Code, "XX"): // internal error, data or index corrupted
			return workflow.StoreCorrupt.Errorf("PostgreSQL: %w", err)
		}
	}
	return workflow.StoreUnavailable.Errorf("PostgreSQL: %w", err)
}

// refused reports that the server refused the statement and rolled back its transaction,
// so that it may be tried again.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Severity == "ERROR"
}
