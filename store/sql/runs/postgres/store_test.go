package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestPostgresKeepsARun(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	if err := sqltest.Walk(t.Context(), p, sqltest.NewRun(1), 10); err != nil {
		t.Fatal(err)
	}
	r, _, err := sqltest.ReopenPostgres(t, dsn).Load(t.Context(), "run00001")
	if err != nil || r.Len() != 10 || r.Phase != runtype.Succeeded || r.Revision != 12 {
		t.Fatalf("after 10 steps: %+v, %v; want 12 writes", r, err)
	}
	if s := p.Stats(); s.Writes != 12 {
		t.Errorf("%d durable writes for 10 steps, want n + 2", s.Writes)
	}
	h, err := p.History(t.Context(), "run00001", 0, 0)
	if err != nil || len(h) != 22 || h[21].Seq != 22 {
		t.Fatalf("history: %d events, %v", len(h), err)
	}
	for i, e := range h {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
}

// A step is one update in place and one append, and does not make any index grow.
func TestPostgresStepsAreHeapOnly(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	for i := range 20 {
		if err := sqltest.Walk(t.Context(), p, sqltest.NewRun(i), 10); err != nil {
			t.Fatal(err)
		}
	}
	if n := sqltest.Count(t, p, `SELECT count(*) FROM event`); n != 20*12 {
		t.Errorf("%d rows of history for 20 runs of 12 writes", n)
	}
	deadline := time.Now().Add(20 * time.Second)
	for { // the server reports with a delay
		updates := sqltest.Count(t, p, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'run'`)
		hot := sqltest.Count(t, p, `SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'run'`)
		if updates >= 20*11 {
			if hot < updates-2*20 {
				t.Errorf("%d of %d updates were in place, want all but the last of each run", hot, updates)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server counts %d updates", updates)
		}
	}
}

// If the server refuses a batch, each write is tried alone.
func TestPostgresBatchSurvivesARefusedWrite(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	good, bad := sqltest.NewRun(1), sqltest.NewRun(2)
	bad.Flow = "no\x00text"
	var wg sync.WaitGroup
	var errs [2]error
	for i, r := range []*runtype.Run{good, bad} {
		wg.Go(func() { _, errs[i] = p.Create(t.Context(), r, nil) })
	}
	wg.Wait()
	if errs[0] != nil || errs[1] == nil {
		t.Fatalf("the good one: %v; the bad one: %v", errs[0], errs[1])
	}
}

func TestPostgresOneActiveRunOfASubject(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn)
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := sqltest.NewRun(i)
			r.Subject = "demo/default/one"
			if _, err := []*sql.Postgres{p, q}[i%2].Create(t.Context(), r, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for range n { // each round ends the active run, while the other store watches
		active, _, err := q.List(t.Context(), runstore.Query{Phases: []runtype.Phase{runtype.Running}})
		if err != nil || len(active) != 1 || seen[active[0].ID] {
			t.Fatalf("active runs after %d: %v, %v", len(seen), active, err)
		}
		seen[active[0].ID] = true
		r, _, err := p.Load(t.Context(), active[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		r.Phase, r.EndedAt = runtype.Succeeded, time.Now()
		if err := p.Save(t.Context(), &runstore.Save{Run: r}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.DB.Pool.Exec(t.Context(), `INSERT INTO run (id, flow, version, hash, subject, inline, birth, created, phase, queue_no, revision, epoch, mail, next_at, ended, body)
		SELECT v, '', 1, '', 'demo/default/two', false, '', 0, 2, 0, 1, 0, 0, 0, 0, '' FROM unnest('{a,b}'::text[]) v`)
	if err == nil || !strings.Contains(err.Error(), "run_slot") {
		t.Fatalf("two active runs of a subject: %v; want the unique index to refuse", err)
	}
}

// Ends, cancels of queued runs and creates compete for a subject: in the end exactly one
// run holds its slot, and no run waits in vain.
func TestPostgresPromotionLosesNobody(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn)
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s := []*sql.Postgres{p, q}[i%2]
			r := sqltest.NewRun(i)
			r.Subject = "demo/default/one"
			r, err := s.Create(t.Context(), r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for {
				r.Phase, r.EndedAt = runtype.Cancelled, time.Now()
				err := s.Save(t.Context(), &runstore.Save{Run: r})
				if err == nil {
					return
				}
				if !errors.Is(err, runstore.ErrConflict) {
					t.Error(err)
					return
				}
				if r, _, err = s.Load(t.Context(), r.ID); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if left := sqltest.Count(t, p, `SELECT count(*) FROM run WHERE phase < 6`); left != 0 {
		t.Fatalf("%d runs are left though each was ended", left)
	}
}

func TestPostgresTwoWorkersShare(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn)
	const n = 200
	for i := range n {
		sqltest.MustCreate(t, p, sqltest.NewRun(i))
	}
	var mu sync.Mutex
	owners := map[string]string{}
	var wg sync.WaitGroup
	for name, s := range map[string]*sql.Postgres{"a": p, "b": q} {
		for range 2 {
			wg.Go(func() {
				for {
					c, err := s.Claim(t.Context(), runstore.Claim{Worker: name, Limit: 7, Lease: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					if len(c.Runs) == 0 {
						return
					}
					mu.Lock()
					for _, l := range c.Runs {
						if other, twice := owners[l.Run.ID]; twice {
							t.Errorf("%s was given to %s and to %s", l.Run.ID, other, name)
						}
						if l.Run.Owner != name || l.Run.Epoch != 1 {
							t.Errorf("%s: owner %q, epoch %d; want %q, 1", l.Run.ID, l.Run.Owner, l.Run.Epoch, name)
						}
						owners[l.Run.ID] = name
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	// A claim that finds only rows locked by another claim may return nothing.
	last, err := p.Claim(t.Context(), runstore.Claim{Worker: "a", Limit: n, Lease: time.Minute})
	if err != nil || len(owners)+len(last.Runs) != n {
		t.Fatalf("%d of %d runs were claimed, %d left, %v", len(owners), n, len(last.Runs), err)
	}
}

// A worker that pauses for longer than its lease is fenced, by the server's clock.
func TestPostgresFencesTheDead(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn)
	ctx := t.Context()
	sqltest.MustCreate(t, p, sqltest.NewRun(1))
	old, err := p.Claim(ctx, runstore.Claim{Worker: "old", Limit: 1, Lease: time.Minute})
	if err != nil || len(old.Runs) != 1 {
		t.Fatalf("claim: %+v, %v", old, err)
	}
	if _, err := q.ClaimRun(ctx, "new", "run00001", time.Minute); !errors.Is(err, runstore.ErrOwned) {
		t.Fatalf("take while the owner lives: %v", err)
	}
	if _, err := p.DB.Pool.Exec(ctx, `UPDATE worker SET until = pawl_now() WHERE name = 'old'`); err != nil {
		t.Fatal(err) // its lease is over
	}
	var mine runstore.Claimed
	for len(mine.Runs) == 0 {
		if mine, err = q.Claim(ctx, runstore.Claim{Worker: "new", Limit: 1, Lease: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	if e := mine.Runs[0].Run.Epoch; e <= old.Runs[0].Run.Epoch {
		t.Fatalf("the new worker's epoch is %d after %d", e, old.Runs[0].Run.Epoch)
	}
	if err := p.Renew(ctx, "old", time.Minute); !errors.Is(err, runstore.ErrFenced) {
		t.Fatalf("renew by the old worker: %v", err)
	}
	if err := p.Save(ctx, sqltest.Advance(old.Runs[0].Run, 0, 2)); !errors.Is(err, runstore.ErrFenced) {
		t.Fatalf("save by the old worker: %v", err)
	}
	if err := q.Save(ctx, sqltest.Advance(mine.Runs[0].Run, 0, 2)); err != nil {
		t.Fatalf("save by the new worker: %v", err)
	}
	if err := q.Renew(ctx, "new", time.Minute); err != nil {
		t.Fatal(err)
	}
}

// Readers do not skip a transaction that got its position in the history early and
// commits late.
func TestPostgresHistoryIsNeverOvertaken(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	r := sqltest.MustCreate(t, p, sqltest.NewRun(1))
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	slow, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := codec.AppendEvents(nil, []runtype.Event{{Seq: 1, Kind: runtype.RunCreated, Message: "slow"}})
	if _, err := slow.Exec(t.Context(), `INSERT INTO event (run, seq, data) VALUES ($1, 1, $2)`, r.Handle.(*runs.Handle).Key, data); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(t.Context(), &runstore.Save{Run: r, Events: []runtype.Event{{Seq: 2, Kind: runtype.RunStarted, Message: "quick"}}}); err != nil {
		t.Fatal(err)
	}
	before, cursor, err := p.Events(t.Context(), "", 10)
	if err != nil || len(before) != 0 {
		t.Fatalf("events while an older transaction is open: %v, %v; want none", before, err)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var received []string
	for range 2 { // one event at a time: the cursor goes on
		events, next, err := p.Events(t.Context(), cursor, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			received = append(received, e.Message)
		}
		cursor = next
	}
	if !slices.Equal(received, []string{"slow", "quick"}) {
		t.Fatalf("events: %v", received)
	}
}

// One unreadable run gets its fault; the others go on.
func TestPostgresSetsAnUnreadableRunAside(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	for i := range 3 {
		sqltest.MustCreate(t, p, sqltest.NewRun(i))
	}
	if _, err := p.DB.Pool.Exec(t.Context(), `UPDATE run SET body = '\xffff' WHERE id = 'run00001'`); err != nil {
		t.Fatal(err)
	}
	c, err := p.Claim(t.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
	if err != nil || len(c.Runs) != 2 {
		t.Fatalf("claim beside an unreadable run: %d runs, %v", len(c.Runs), err)
	}
	if n := sqltest.Count(t, p, `SELECT count(*) FROM run WHERE id = 'run00001' AND owner IS NULL AND due_at > pawl_now()`); n != 1 {
		t.Error("the unreadable run stays owned, or is due at once")
	}
	if _, _, err := p.Load(t.Context(), "run00001"); fault.Of(err) != runstore.StoreCorrupt {
		t.Fatalf("load of an unreadable run: %v", err)
	}
	runs, _, err := p.List(t.Context(), runstore.Query{})
	if err != nil || len(runs) != 3 {
		t.Fatalf("list beside an unreadable run: %d runs, %v", len(runs), err)
	}
}

func TestPostgresWakesOtherProcesses(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn)
	hear := func(what, id string) {
		t.Helper()
		timeout := time.After(20 * time.Second)
		for {
			select {
			case got := <-q.Wake():
				if got == id {
					return
				}
			case <-timeout:
				t.Fatalf("%s of %s woke nobody", what, id)
			}
		}
	}
	hear("the start of listening", "")
	sqltest.MustCreate(t, p, sqltest.NewRun(1))
	hear("the creation", "run00001")
	if err := p.Send(t.Context(), "run00001", runtype.Signal{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	hear("the signal", "run00001")
}

func TestPostgresDemandsDurableCommits(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{NoSync: true})
	p := sqltest.ReopenPostgres(t, s.Database(t)+" synchronous_commit=off") // the setting in the DSN is overridden
	var value string
	if err := p.DB.Pool.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&value); err != nil || value != "on" {
		t.Fatalf("synchronous_commit is %q, %v", value, err)
	}
	c, err := pgx.Connect(t.Context(), s.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `SET synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.CheckSession(t.Context(), c); err == nil {
		t.Fatal("a session without durable commits was accepted")
	}
}

func TestPostgresMigratesOnce(t *testing.T) {
	dsn := pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	var wg sync.WaitGroup
	for range 4 { // processes that start at once
		wg.Go(func() {
			p, err := sql.OpenPostgres(t.Context(), sql.Options{DSN: dsn})
			if err != nil {
				t.Error(err)
				return
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	p := sqltest.ReopenPostgres(t, dsn)
	if n := sqltest.Count(t, p, `SELECT count(*) FROM migration`); n != len(db.Migrations("postgres")) {
		t.Fatalf("%d migrations are noted", n)
	}
	if _, err := p.DB.Pool.Exec(t.Context(), `INSERT INTO migration VALUES (9999, 'later', 'x', 0)`); err != nil {
		t.Fatal(err)
	}
	if _, err := sql.OpenPostgres(t.Context(), sql.Options{DSN: dsn}); fault.Of(err) != db.SchemaNewer {
		t.Fatalf("open of a newer schema: %v", err)
	}
}
