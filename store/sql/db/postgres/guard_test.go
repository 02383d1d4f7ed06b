package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Every connection has timeouts, on the server's side too.
func TestFinding2SessionsDoNotWaitForEver(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	for setting, want := range map[string]string{
		"idle_in_transaction_session_timeout": "1s", "lock_timeout": "5s", "statement_timeout": "1min",
	} {
		var got string
		if err := p.DB.Pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", setting, got, err, want)
		}
	}
	// A Unix socket has no keepalive, so check the startup message.
	for _, name := range []string{"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"} {
		if p.DB.Config.RuntimeParams[name] == "" {
			t.Errorf("%s is not set", name)
		}
	}
	if p.DB.Config.ConnectTimeout == 0 {
		t.Error("a connection may be tried for ever")
	}
}

// A process sends a part of a transaction and then nothing. The processes that wait for
// its locks go on.
func TestFinding2SilentConnectionIsEnded(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	sqltest.MustCreate(t, p, sqltest.NewRun(1))
	for what, sql := range map[string]string{
		"the feed of objects":  "UPDATE feed SET newest = newest + 1",
		"the feed of clusters": "UPDATE cluster_feed SET newest = newest + 1",
		"a run":                "UPDATE run SET mail = mail",
		"a lock of all":        "SELECT pg_advisory_xact_lock(hashtextextended('audit', 7295))",
	} {
		t.Run(what, func(t *testing.T) {
			c, err := pgx.ConnectConfig(t.Context(), p.DB.Config)
			if err != nil {
				t.Fatal(err)
			}
			defer postgres.CloseConn(c)
			half := c.PgConn().StartPipeline(t.Context())
			half.SendQueryParams(sql, nil, nil, nil, nil)
			half.SendFlushRequest()
			if err := half.Flush(); err != nil { // no Sync: the transaction is open
				t.Fatal(err)
			}
			if _, err := half.GetResults(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, applied := p.Objects().Apply(ctx, control.Object{Ref: control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}, Spec: []byte(`{"n":1}`)})
			_, created := p.Accounts().SaveAccount(ctx, account.Account{ID: what, Name: what, DomainID: account.RootID, Role: account.User})
			err = errors.Join(applied, created,
				p.Send(ctx, sqltest.NewRun(1).ID, runtype.Signal{ID: what, Name: "n"}),
				p.Accounts().Note(ctx, account.Entry{Who: "ann", Call: what, Outcome: account.OK}))
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// The silent connection holds a run of a dead worker. The claim that takes the worker's
// runs waits for it while it holds locks of its own, and other calls wait for those. All
// of them go on when the guard has ended the silent connection.
func TestFinding2TheDeadAreGivenUpBesideASilentConnection(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	other := sqltest.ReopenPostgres(t, dsn)
	for i := range 20 {
		r := sqltest.NewRun(i)
		r.Owner, r.Epoch, r.NextAt = "dead", 1, time.Now().Add(time.Hour)
		sqltest.MustCreate(t, p, r)
	}
	if _, err := p.DB.Pool.Exec(t.Context(), "UPDATE worker SET until = 1 WHERE name = 'dead'"); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.ConnectConfig(t.Context(), p.DB.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.CloseConn(c)
	half := c.PgConn().StartPipeline(t.Context())
	half.SendQueryParams("UPDATE run SET mail = mail WHERE id = $1", [][]byte{[]byte(sqltest.NewRun(19).ID)}, nil, nil, nil)
	half.SendFlushRequest()
	if err := half.Flush(); err != nil { // no Sync: the transaction is open
		t.Fatal(err)
	}
	if _, err := half.GetResults(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	failed := make(chan error, 3)
	took := func(what string, err error) {
		since := time.Since(began)
		t.Logf("%s: %s", what, since)
		if err == nil && since > 5*time.Second { // the guard needs half a second; the timeouts need 5 s and more
			err = fmt.Errorf("%s took %s", what, since)
		}
		failed <- err
	}
	for what, store := range map[string]*sql.Postgres{"claim": p, "the claim of another server": other} {
		go func() {
			_, err := store.Claim(t.Context(), runstore.Claim{Worker: what, Limit: 100, Lease: time.Minute})
			took(what, err)
		}()
	}
	go func() {
		var errs []error
		for i := range 19 { // runs that the silent connection does not hold
			errs = append(errs, other.Send(t.Context(), sqltest.NewRun(i).ID, runtype.Signal{ID: "s", Name: "n"}))
		}
		took("signals", errors.Join(errs...))
	}()
	for range 3 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := sqltest.Count(t, p, "SELECT count(*) FROM run r JOIN worker w ON w.k = r.owner WHERE w.name = 'dead'"); n != 0 {
		t.Errorf("%d runs of the dead worker are with it", n)
	}
}

// Two servers write into the audit trail at once. A list contains every entry that was
// answered before the list was requested, newest first, without a lock between the
// servers.
func TestFinding2AuditNeedsNoLock(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	other := sqltest.ReopenPostgres(t, dsn)
	all := account.TrailQuery{Visibility: account.Visibility{All: true}, Limit: 1000}
	c, err := pgx.Connect(t.Context(), dsn) // another program: the guard must not end it
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	slow, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(t.Context(), `INSERT INTO audit (at, who, account_id, domain_id, face, call, target, outcome) VALUES (0, 'slow', '', '', '', '', '', '')`); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('audit', 7295))`); err != nil { // as earlier versions did
		t.Fatal(err)
	}
	for i := range 20 {
		to := []*sql.Postgres{p, other}[i%2]
		if err := to.Accounts().Note(t.Context(), account.Entry{Who: "ann", Call: fmt.Sprint(i), Outcome: account.OK}); err != nil {
			t.Fatal(err)
		}
		found, err := p.Accounts().Trail(t.Context(), all)
		if err != nil || len(found) != i+1 || found[0].Call != fmt.Sprint(i) {
			t.Fatalf("after %d entries: %v, %v", i+1, found, err)
		}
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := p.Accounts().Trail(t.Context(), all)
	if err != nil || len(found) != 21 || found[20].Who != "slow" {
		t.Fatalf("an entry that became visible late is missing or has a duplicate number: %v, %v", found, err)
	}
}

// A database that refuses writes is not ready, even if it can be read.
func TestFinding2ProbeWrites(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{NoSync: true})
	dsn := s.Database(t)
	p := sqltest.ReopenPostgres(t, dsn)
	if err := p.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	readOnly := func(value string) {
		var name string
		err := p.DB.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name)
		if err == nil {
			_, err = p.DB.Pool.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = "+value)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Terminate(t, dsn)
	}
	readOnly("on")
	for fault.Of(p.Probe(t.Context())) == runstore.StoreUnavailable { // each pooled connection detects it alone
	}
	if err := p.Probe(t.Context()); fault.Of(err) != runstore.StoreFull {
		t.Errorf("a database that refuses writes: %v", err)
	}
	if _, _, err := p.List(t.Context(), runstore.Query{}); err != nil {
		t.Errorf("it can be read: %v", err)
	}
}

// Processes that start at once on an empty database migrate it once.
func TestFinding2MigrationsAreOneMessage(t *testing.T) {
	dsn := pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	const at = 6
	failed := make(chan error, at)
	for range at {
		go func() {
			p, err := sql.OpenPostgres(t.Context(), sql.Options{DSN: dsn})
			if err == nil {
				err = p.Close()
			}
			failed <- err
		}()
	}
	for range at {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// A busy process, with all its background work, leaves space for fifteen others in the
// hundred connections of a PostgreSQL.
func TestFinding15ProcessHasFewConnections(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			r := sqltest.MustCreate(t, p, sqltest.NewRun(i))
			for range 5 {
				if _, _, err := p.Load(t.Context(), r.ID); err != nil {
					t.Error(err)
				}
				if err := p.Probe(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	most := 0
	for range 20 {
		var n int
		if err := p.DB.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	all.Wait()
	if most > 6 {
		t.Errorf("a process had %d connections; 16 of them do not fit into 100, of which 3 are kept for administrators", most)
	}
}

// Slow reads use all connections of the pool. Leases are still renewed, also of a worker
// that this process does not know. If the server accepts no more connections, the lease
// is renewed when a pooled connection is free.
func TestALeaseBesideSlowReads(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	if err := p.Renew(t.Context(), "w", time.Second); err != nil {
		t.Fatal(err)
	}
	var busy []*pgxpool.Conn
	for range p.DB.Pool.Config().MaxConns {
		c, err := p.DB.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		busy = append(busy, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, worker := range []string{"w", "unheard of"} {
		if err := p.Renew(ctx, worker, time.Second); err != nil {
			t.Error(worker, err)
		}
	}
	p.DB.Config.Host, p.DB.Config.Port, p.DB.Config.Fallbacks = "127.0.0.1", 1, nil
	for _, c := range busy {
		time.AfterFunc(400*time.Millisecond, c.Release)
	}
	if err := p.Renew(ctx, "w", time.Second); err != nil {
		t.Error("the server accepts no more connections:", err)
	}
}
