package sqlstore

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
	"github.com/pawl-dev/pawl/workflow"
)

// Postgres keeps runs, objects and locks in a PostgreSQL database that several
// processes share.
//
//	Create, Save ─▶ pending ─▶ writer 1 ─▶ one pipelined transaction for all that is pending
//	                      └──▶ writer 2 ─▶ while writer 1 waits long
//	Load, Claim, Send, … ────▶ pool
//	NOTIFY ──────────────────▶ listener ─▶ Wake, Feed: hints only
//	guard ───────────────────▶ listener ─▶ ends connections that hold a lock and are silent
//
// It has at most pgPool+pgWriters+1 connections, so that sixteen processes fit
// into the 100 that a PostgreSQL has by default; for the moment in which a lease
// is renewed beside slow reads one more, if the server gives it.
type Postgres struct {
	pool      *pgxpool.Pool
	config    *pgx.ConnConfig
	writer    *pgWriter
	wake      *waker
	name      string   // of this process, by chance
	changed   notifier // rings when a feed may have grown
	lists     lists
	encrypter *Encrypter

	lockSlots    chan struct{} // of those who may wait for a lock while holding a connection
	silentSearch interrupter   // the guard asks the listener for a search for silent connections

	writes, commits, bytes, statements atomic.Int64

	leases sync.Map // worker name → int64, its lease in the table worker

	ctx  context.Context
	end  context.CancelFunc
	done sync.WaitGroup
}

var _ Store = (*Postgres)(nil)

const (
	pgWriters      = 2 // the second connects when the first waits long
	pgPool         = 3 // connections for all else; pool_max_conns in the DSN
	pgBatch        = 512
	maxSingleSaves = 2           // saves up to which each has a statement of its own
	reconnectDelay = time.Second // between tries of the listener
)

// openPostgres connects, brings the schema up to date and starts the writers.
func openPostgres(ctx context.Context, dsn string) (*Postgres, error) {
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
	p := &Postgres{pool: pool, config: config.ConnConfig.Copy(), wake: newWaker(), name: rand.Text(), encrypter: new(Encrypter), lockSlots: make(chan struct{}, (config.MaxConns+1)/2)}
	p.ctx, p.end = context.WithCancel(context.WithoutCancel(ctx))
	p.writer = newPGWriter(p)
	for range pgWriters {
		p.done.Go(p.writer.serve)
	}
	p.done.Go(p.listen)
	p.done.Go(p.guard)
	return p, nil
}

// Close ends the connections. Writes under way are finished, later ones fail with STORE_UNAVAILABLE.
func (p *Postgres) Close() error {
	p.writer.close()
	p.end()
	p.done.Wait()
	p.pool.Close()
	return nil
}

// Stats counts what this process wrote since the start. A call beside Create
// and Save (Send, Claim with something to do, objects, locks) counts as one
// write and one commit, also when it fails; objects and locks count no bytes.
// The server's log serves others too, so WALBytes is 0.
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

// prepareSession sets what every session needs: durable commits, plans that
// never change with what the tables hold, and an end to all waiting.
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

		// Nothing of a process that is frozen or gone stays for long.
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

// checkSession refuses a session that would not be durable, whatever stands between us and the server.
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

// StoreRefused is the fault of a database that does not let us in, now or later.
var StoreRefused = fault.Declare(fault.Kind{
	Code: "STORE_REFUSED", Class: fault.Blocked,
	Title:  "the database does not let this user in",
	Remedy: "Mend user, password or name of the database in --dsn, or create them on the server, and start again.",
})

// pgError gives the fault of a failed statement. What the caller's context ended stays its error.
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
		case strings.HasPrefix(pg.Code, "28"), pg.Code == "3D000", pg.Code == "42501": // user or password, no such database, no right
			return StoreRefused.Errorf("PostgreSQL: %w", err)
		case pg.Code == "53100", pg.Code == "25006", pg.Code == "58030": // disk full, read-only, I/O error
			return workflow.StoreFull.Errorf("PostgreSQL: %w", err)
		case strings.HasPrefix(pg.Code, "22"), strings.HasPrefix(pg.Code, "23"), strings.HasPrefix(pg.Code, "42"): // a defect of ours
			return fmt.Errorf("PostgreSQL: %w", err)
		case strings.HasPrefix(pg.Code, "XX"): // internal error, data or index corrupted
			return workflow.StoreCorrupt.Errorf("PostgreSQL: %w", err)
		}
	}
	return workflow.StoreUnavailable.Errorf("PostgreSQL: %w", err)
}

// refused reports that the server itself refused the statement, so that
// nothing of its transaction was kept and it may be tried again.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Severity == "ERROR"
}
