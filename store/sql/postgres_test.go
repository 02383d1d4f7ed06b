package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow"
)

// newPostgres opens a store on a new database.
func newPostgres(t testing.TB, o pgtest.Options) (*Postgres, string) {
	t.Helper()
	dsn := pgtest.Start(t, o).Database(t)
	return reopen(t, dsn), dsn
}

// reopen opens another store on the same database, which acts as another process.
func reopen(t testing.TB, dsn string) *Postgres {
	t.Helper()
	p, err := openPostgres(t.Context(), dsn, new(secrets.Encrypter))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newRun(i int) *workflow.Run {
	return &workflow.Run{ID: fmt.Sprintf("run%05d", i), Flow: "Flow", Version: 1, Hash: "hash", Subject: fmt.Sprintf("demo/default/c%d", i),
		Phase: workflow.Running, CreatedAt: time.Now()}
}

// walk makes the saves of a run of n steps as an engine does: each save closes a step
// and opens the next.
func walk(ctx context.Context, p workflow.Store, r *workflow.Run, n int) error {
	r.Owner, r.Epoch = "w", 1
	r, err := p.Create(ctx, r, []workflow.Event{{Seq: 1, At: time.Now(), Kind: workflow.RunCreated}})
	if err != nil {
		return err
	}
	for i := range n + 1 {
		if err := p.Save(ctx, advance(r, i, n)); err != nil {
			return err
		}
	}
	return nil
}

// advance returns the save that closes step i and opens step i+1 of n.
func advance(r *workflow.Run, i, n int) *workflow.Save {
	now := time.Now()
	var events []workflow.Event
	add := func(kind workflow.EventKind, step string) {
		r.Seq++
		events = append(events, workflow.Event{Seq: r.Seq, At: now, Kind: kind, Step: step, Attempt: 1})
	}
	r.Seq = max(r.Seq, 1)
	if i > 0 {
		s := *r.Step(fmt.Sprintf("Step%d", i))
		s.Phase, s.EndedAt = workflow.StepDone, now
		r.Put(&s)
		add(workflow.StepDoneEvent, s.Name)
	}
	if i < n {
		s := &workflow.StepRecord{Name: fmt.Sprintf("Step%d", i+1), Ord: int64(i + 1), Phase: workflow.StepRunning, Attempt: 1, StartedAt: now, AttemptAt: now}
		r.Put(s)
		add(workflow.StepStarted, s.Name)
	} else {
		r.Phase, r.EndedAt, r.Owner = workflow.Succeeded, now, ""
		add(workflow.RunSucceeded, "")
	}
	return &workflow.Save{Run: r, Events: events}
}

func mustCreate(t *testing.T, p *Postgres, r *workflow.Run) *workflow.Run {
	t.Helper()
	stored, err := p.Create(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func count(t *testing.T, p *Postgres, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := p.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPostgresKeepsARun(t *testing.T) {
	p, dsn := newPostgres(t, pgtest.Options{NoSync: true})
	if err := walk(t.Context(), p, newRun(1), 10); err != nil {
		t.Fatal(err)
	}
	r, _, err := reopen(t, dsn).Load(t.Context(), "run00001")
	if err != nil || r.Len() != 10 || r.Phase != workflow.Succeeded || r.Revision != 12 {
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
	p, _ := newPostgres(t, pgtest.Options{NoSync: true})
	for i := range 20 {
		if err := walk(t.Context(), p, newRun(i), 10); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, p, `SELECT count(*) FROM event`); n != 20*12 {
		t.Errorf("%d rows of history for 20 runs of 12 writes", n)
	}
	deadline := time.Now().Add(20 * time.Second)
	for { // the server reports with a delay
		updates := count(t, p, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'run'`)
		hot := count(t, p, `SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'run'`)
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

// One conflicting save does not affect the others in its transaction.
func TestPostgresBatchIsFair(t *testing.T) {
	p, _ := newPostgres(t, pgtest.Options{NoSync: true})
	var batch []*pgWrite
	for i := range 30 {
		r := newRun(i)
		r.Owner, r.Epoch = "w", 5
		r = mustCreate(t, p, r)
		op := &pgWrite{k: r.Handle.(*pgHandle).k, rev: 1, epoch: 5, owner: 1, phase: codec.PhaseNumber(workflow.Running)}
		switch i % 3 {
		case 1:
			op.rev = 7 // another process has saved it
		case 2:
			op.epoch = 4 // fenced
		}
		op.encode(r, &pgHandle{}, []workflow.Event{{Seq: 1, Kind: workflow.RunStarted}})
		batch = append(batch, op)
	}
	w := newPGWriter(p)
	c, err := w.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer w.closeConn(c)
	results, err := w.commit(c, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.applied != (i%3 == 0) {
			t.Errorf("save %d: won is %v", i, r.applied)
		}
	}
	if n := count(t, p, `SELECT count(*) FROM event`); n != 10 {
		t.Errorf("%d rows of history, want those of the 10 saves that won", n)
	}
}

// If the server refuses a batch, each write is tried alone.
func TestPostgresBatchSurvivesARefusedWrite(t *testing.T) {
	p, _ := newPostgres(t, pgtest.Options{NoSync: true})
	good, bad := newRun(1), newRun(2)
	bad.Flow = "no\x00text"
	var wg sync.WaitGroup
	var errs [2]error
	for i, r := range []*workflow.Run{good, bad} {
		wg.Go(func() { _, errs[i] = p.Create(t.Context(), r, nil) })
	}
	wg.Wait()
	if errs[0] != nil || errs[1] == nil {
		t.Fatalf("the good one: %v; the bad one: %v", errs[0], errs[1])
	}
}

func TestPostgresOneActiveRunOfASubject(t *testing.T) {
	p, dsn := newPostgres(t, pgtest.Options{NoSync: true})
	q := reopen(t, dsn)
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := newRun(i)
			r.Subject = "demo/default/one"
			if _, err := []*Postgres{p, q}[i%2].Create(t.Context(), r, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for range n { // each round ends the active run, while the other store watches
		active, _, err := q.List(t.Context(), workflow.Query{Phases: []workflow.Phase{workflow.Running}})
		if err != nil || len(active) != 1 || seen[active[0].ID] {
			t.Fatalf("active runs after %d: %v, %v", len(seen), active, err)
		}
		seen[active[0].ID] = true
		r, _, err := p.Load(t.Context(), active[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		r.Phase, r.EndedAt = workflow.Succeeded, time.Now()
		if err := p.Save(t.Context(), &workflow.Save{Run: r}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.Pool.Exec(t.Context(), `INSERT INTO run (id, flow, version, hash, subject, inline, birth, created, phase, queue_no, revision, epoch, mail, next_at, ended, body)
		SELECT v, '', 1, '', 'demo/default/two', false, '', 0, 2, 0, 1, 0, 0, 0, 0, '' FROM unnest('{a,b}'::text[]) v`)
	if err == nil || !strings.Contains(err.Error(), "run_slot") {
		t.Fatalf("two active runs of a subject: %v; want the unique index to refuse", err)
	}
}

// Ends, cancels of queued runs and creates compete for a subject: in the end exactly one
// run holds its slot, and no run waits in vain.
func TestPostgresPromotionLosesNobody(t *testing.T) {
	p, dsn := newPostgres(t, pgtest.Options{NoSync: true})
	q := reopen(t, dsn)
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s := []*Postgres{p, q}[i%2]
			r := newRun(i)
			r.Subject = "demo/default/one"
			r, err := s.Create(t.Context(), r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for {
				r.Phase, r.EndedAt = workflow.Cancelled, time.Now()
				err := s.Save(t.Context(), &workflow.Save{Run: r})
				if err == nil {
					return
				}
				if !errors.Is(err, workflow.ErrConflict) {
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
	if left := count(t, p, `SELECT count(*) FROM run WHERE phase < 6`); left != 0 {
		t.Fatalf("%d runs are left though each was ended", left)
	}
}

func TestPostgresTwoWorkersShare(t *testing.T) {
	p, dsn := newPostgres(t, pgtest.Options{NoSync: true})
	q := reopen(t, dsn)
	const n = 200
	for i := range n {
		mustCreate(t, p, newRun(i))
	}
	var mu sync.Mutex
	owners := map[string]string{}
	var wg sync.WaitGroup
	for name, s := range map[string]*Postgres{"a": p, "b": q} {
		for range 2 {
			wg.Go(func() {
				for {
					c, err := s.Claim(t.Context(), workflow.Claim{Worker: name, Limit: 7, Lease: time.Minute})
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
	last, err := p.Claim(t.Context(), workflow.Claim{Worker: "a", Limit: n, Lease: time.Minute})
	if err != nil || len(owners)+len(last.Runs) != n {
		t.Fatalf("%d of %d runs were claimed, %d left, %v", len(owners), n, len(last.Runs), err)
	}
}

// A worker that pauses for longer than its lease is fenced, by the server's clock.
func TestPostgresFencesTheDead(t *testing.T) {
	p, dsn := newPostgres(t, pgtest.Options{NoSync: true})
	q := reopen(t, dsn)
	ctx := t.Context()
	mustCreate(t, p, newRun(1))
	old, err := p.Claim(ctx, workflow.Claim{Worker: "old", Limit: 1, Lease: time.Minute})
	if err != nil || len(old.Runs) != 1 {
		t.Fatalf("claim: %+v, %v", old, err)
	}
	if _, err := q.ClaimRun(ctx, "new", "run00001", time.Minute); !errors.Is(err, workflow.ErrOwned) {
		t.Fatalf("take while the owner lives: %v", err)
	}
	if _, err := p.Pool.Exec(ctx, `UPDATE worker SET until = pawl_now() WHERE name = 'old'`); err != nil {
		t.Fatal(err) // its lease is over
	}
	var mine workflow.Claimed
	for len(mine.Runs) == 0 {
		if mine, err = q.Claim(ctx, workflow.Claim{Worker: "new", Limit: 1, Lease: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	if e := mine.Runs[0].Run.Epoch; e <= old.Runs[0].Run.Epoch {
		t.Fatalf("the new worker's epoch is %d after %d", e, old.Runs[0].Run.Epoch)
	}
	if err := p.Renew(ctx, "old", time.Minute); !errors.Is(err, workflow.ErrFenced) {
		t.Fatalf("renew by the old worker: %v", err)
	}
	if err := p.Save(ctx, advance(old.Runs[0].Run, 0, 2)); !errors.Is(err, workflow.ErrFenced) {
		t.Fatalf("save by the old worker: %v", err)
	}
	if err := q.Save(ctx, advance(mine.Runs[0].Run, 0, 2)); err != nil {
		t.Fatalf("save by the new worker: %v", err)
	}
	if err := q.Renew(ctx, "new", time.Minute); err != nil {
		t.Fatal(err)
	}
}

// Readers do not skip a transaction that got its position in the history early and
// commits late.
func TestPostgresHistoryIsNeverOvertaken(t *testing.T) {
	p, dsn := newPostgres(t, pgtest.Options{NoSync: true})
	r := mustCreate(t, p, newRun(1))
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	slow, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := codec.AppendEvents(nil, []workflow.Event{{Seq: 1, Kind: workflow.RunCreated, Message: "slow"}})
	if _, err := slow.Exec(t.Context(), `INSERT INTO event (run, seq, data) VALUES ($1, 1, $2)`, r.Handle.(*pgHandle).k, data); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(t.Context(), &workflow.Save{Run: r, Events: []workflow.Event{{Seq: 2, Kind: workflow.RunStarted, Message: "quick"}}}); err != nil {
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
	p, _ := newPostgres(t, pgtest.Options{NoSync: true})
	for i := range 3 {
		mustCreate(t, p, newRun(i))
	}
	if _, err := p.Pool.Exec(t.Context(), `UPDATE run SET body = '\xffff' WHERE id = 'run00001'`); err != nil {
		t.Fatal(err)
	}
	c, err := p.Claim(t.Context(), workflow.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
	if err != nil || len(c.Runs) != 2 {
		t.Fatalf("claim beside an unreadable run: %d runs, %v", len(c.Runs), err)
	}
	if n := count(t, p, `SELECT count(*) FROM run WHERE id = 'run00001' AND owner IS NULL AND due_at > pawl_now()`); n != 1 {
		t.Error("the unreadable run stays owned, or is due at once")
	}
	if _, _, err := p.Load(t.Context(), "run00001"); fault.Of(err) != workflow.StoreCorrupt {
		t.Fatalf("load of an unreadable run: %v", err)
	}
	runs, _, err := p.List(t.Context(), workflow.Query{})
	if err != nil || len(runs) != 3 {
		t.Fatalf("list beside an unreadable run: %d runs, %v", len(runs), err)
	}
}

func TestPostgresWakesOtherProcesses(t *testing.T) {
	p, dsn := newPostgres(t, pgtest.Options{NoSync: true})
	q := reopen(t, dsn)
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
	mustCreate(t, p, newRun(1))
	hear("the creation", "run00001")
	if err := p.Send(t.Context(), "run00001", workflow.Signal{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	hear("the signal", "run00001")
}

func TestPostgresDemandsDurableCommits(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{NoSync: true})
	p := reopen(t, s.Database(t)+" synchronous_commit=off") // the setting in the DSN is overridden
	var value string
	if err := p.Pool.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&value); err != nil || value != "on" {
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
			p, err := openPostgres(t.Context(), dsn, new(secrets.Encrypter))
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
	p := reopen(t, dsn)
	if n := count(t, p, `SELECT count(*) FROM migration`); n != len(db.Migrations("postgres")) {
		t.Fatalf("%d migrations are noted", n)
	}
	if _, err := p.Pool.Exec(t.Context(), `INSERT INTO migration VALUES (9999, 'later', 'x', 0)`); err != nil {
		t.Fatal(err)
	}
	if _, err := openPostgres(t.Context(), dsn, new(secrets.Encrypter)); fault.Of(err) != db.SchemaNewer {
		t.Fatalf("open of a newer schema: %v", err)
	}
}
