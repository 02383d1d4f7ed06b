package sqltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// DueRun returns a run that is due now.
func DueRun(n int) *runtype.Run {
	now := time.Now().UTC()
	return &runtype.Run{ID: fmt.Sprintf("r%025d", n), Flow: "Flow", Hash: "h", Subject: fmt.Sprintf("kind/space/%d", n),
		Input: []byte(`{}`), CreatedAt: now, NextAt: now, Seq: 1}
}

// Start creates a run, with an owner if worker is not empty.
func Start(t testing.TB, s runstore.Store, n int, worker string) *runtype.Run {
	t.Helper()
	r := DueRun(n)
	if worker != "" {
		r.Owner, r.Epoch = worker, 1
	}
	stored, err := s.Create(t.Context(), r, []runtype.Event{{Seq: 1, At: r.CreatedAt, Kind: runtype.RunCreated}})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// Step saves one more step of a run, as an engine would.
func Step(t testing.TB, s runstore.Store, r *runtype.Run, n int) error {
	now := time.Now().UTC()
	if old := r.Step(fmt.Sprint("S", n-1)); old != nil {
		old.Phase, old.EndedAt = runtype.StepDone, now
		r.Put(old)
	}
	r.Put(&runtype.StepRecord{Name: fmt.Sprint("S", n), Phase: runtype.StepRunning, Ord: int64(n) + 1, Attempt: 1, StartedAt: now, AttemptAt: now})
	r.Seq++
	return s.Save(t.Context(), &runstore.Save{Run: r, Events: []runtype.Event{{Seq: r.Seq, At: now, Kind: runtype.StepStarted, Step: fmt.Sprint("S", n)}}})
}

// NewRun returns a run.
func NewRun(i int) *runtype.Run {
	return &runtype.Run{ID: fmt.Sprintf("run%05d", i), Flow: "Flow", Version: 1, Hash: "hash", Subject: fmt.Sprintf("demo/default/c%d", i),
		Phase: runtype.Running, CreatedAt: time.Now()}
}

// Walk makes the saves of a run of n steps as an engine does: each save closes a step
// and opens the next.
func Walk(ctx context.Context, p runstore.Store, r *runtype.Run, n int) error {
	r.Owner, r.Epoch = "w", 1
	r, err := p.Create(ctx, r, []runtype.Event{{Seq: 1, At: time.Now(), Kind: runtype.RunCreated}})
	if err != nil {
		return err
	}
	for i := range n + 1 {
		if err := p.Save(ctx, Advance(r, i, n)); err != nil {
			return err
		}
	}
	return nil
}

// Advance returns the save that closes step i and opens step i+1 of n.
func Advance(r *runtype.Run, i, n int) *runstore.Save {
	now := time.Now()
	var events []runtype.Event
	add := func(kind runtype.EventKind, step string) {
		r.Seq++
		events = append(events, runtype.Event{Seq: r.Seq, At: now, Kind: kind, Step: step, Attempt: 1})
	}
	r.Seq = max(r.Seq, 1)
	if i > 0 {
		s := *r.Step(fmt.Sprintf("Step%d", i))
		s.Phase, s.EndedAt = runtype.StepDone, now
		r.Put(&s)
		add(runtype.StepDoneEvent, s.Name)
	}
	if i < n {
		s := &runtype.StepRecord{Name: fmt.Sprintf("Step%d", i+1), Ord: int64(i + 1), Phase: runtype.StepRunning, Attempt: 1, StartedAt: now, AttemptAt: now}
		r.Put(s)
		add(runtype.StepStarted, s.Name)
	} else {
		r.Phase, r.EndedAt, r.Owner = runtype.Succeeded, now, ""
		add(runtype.RunSucceeded, "")
	}
	return &runstore.Save{Run: r, Events: events}
}

// MustCreate creates a run.
func MustCreate(t *testing.T, p runstore.Store, r *runtype.Run) *runtype.Run {
	t.Helper()
	stored, err := p.Create(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// Count returns the number that a statement selects.
func Count(t *testing.T, p *sql.Postgres, statement string, args ...any) int {
	t.Helper()
	var n int
	if err := p.DB.Pool.QueryRow(t.Context(), statement, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
