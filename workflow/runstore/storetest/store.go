package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func testCreate(t *testing.T, h Harness) {
	t.Run("returns what it was given", func(t *testing.T) {
		x := open(t, h)
		r := newRun("")
		r.Labels = map[string]string{"tenant": "blue", "é": "ü"}
		r.Actor, r.Reason, r.Parent, r.ParentRef, r.Inline, r.Depth = "ann", "because", "p", "Step/1", true, 2
		r.State = runtype.State{Ord: 7, Warning: "careful", Stop: &runtype.Stop{Verb: runtype.VerbPause, Actor: "bob", At: testTime(3)}}
		got := x.create(r)
		want := *r
		want.Revision = 1
		x.wantSameRun("created", got, &want)
		loaded, signals := x.load(r.ID)
		x.wantSameRun("loaded", loaded, got)
		x.wantEqual("signals", signals, []runtype.Signal(nil))
	})
	t.Run("a known id changes nothing", func(t *testing.T) {
		x := open(t, h)
		first := x.create(newRun(""))
		other := newRun(first.Subject)
		other.ID, other.Input = first.ID, []byte(`{"n":2}`)
		got := x.create(other)
		x.wantSameRun("second create", got, first)
	})
	t.Run("the same id at once is one run", func(t *testing.T) {
		x := open(t, h)
		r := newRun("")
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() {
				copied := *r
				_, errs[i] = x.Create(x.Context(), &copied, created())
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		got, _ := x.load(r.ID)
		if got.Phase != runtype.Running || got.Revision != 1 {
			t.Fatalf("phase %s, revision %d", got.Phase, got.Revision)
		}
	})
	t.Run("unknown runs", func(t *testing.T) {
		x := open(t, h)
		_, _, err := x.Load(x.Context(), "nobody")
		x.wantError("load", err, runstore.ErrNotFound)
		x.wantError("send", x.Send(x.Context(), "nobody", signal("a")), runstore.ErrNotFound)
	})
	t.Run("claimed on creation", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := x.createClaimed("w")
		if r.Owner != "w" || r.Epoch != 1 || r.Phase != runtype.Running {
			t.Fatalf("owner %q, epoch %d, phase %s", r.Owner, r.Epoch, r.Phase)
		}
		claimed, err := c.Claim(x.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
		if err != nil || len(claimed.Runs) != 0 {
			t.Fatalf("claimed %d, %v: a run that is born claimed was handed out", len(claimed.Runs), err)
		}
		r.Put(&runtype.StepRecord{Name: "One", Phase: runtype.StepRunning, Ord: 1, Attempt: 1, StartedAt: testTime(2), AttemptAt: testTime(2)})
		x.save(r, runtype.RunStarted, runtype.StepStarted)
		again, _ := x.load(r.ID)
		x.wantSameRun("after the first save", again, r)
	})
	t.Run("unowned runs are due", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := newRun("")
		r.NextAt = time.Time{}
		x.create(r)
		claimed, err := c.Claim(x.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
		if err != nil || len(claimed.Runs) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed.Runs), err)
		}
	})
	t.Run("survives a crash", func(t *testing.T) {
		x := reopenable(t, h)
		r := x.create(newRun(""))
		x.Store = h.Reopen(t, x.Store)
		got, _ := x.load(r.ID)
		x.wantSameRun("after the crash", got, r)
	})
}

func reopenable(t *testing.T, h Harness) suite {
	if h.Reopen == nil {
		t.Skip("the store is not durable")
	}
	return open(t, h)
}

func testQueue(t *testing.T, h Harness) {
	t.Run("one active run of a subject", func(t *testing.T) {
		x := open(t, h)
		first := x.create(newRun(""))
		var queued []*runtype.Run
		for range 3 {
			r := newRun(first.Subject)
			r.Owner, r.Epoch = "w", 1
			queued = append(queued, x.create(r))
		}
		for i, r := range queued {
			if r.Phase != runtype.Queued || r.Queue <= 0 || i > 0 && r.Queue <= queued[i-1].Queue {
				t.Fatalf("run %d: phase %s, number %d", i, r.Phase, r.Queue)
			}
			if r.Owner != "" || r.Epoch != 0 {
				t.Fatalf("a queued run is owned by %q, epoch %d", r.Owner, r.Epoch)
			}
		}
		inline := newRun(first.Subject)
		inline.Inline, inline.Parent = true, first.ID
		if got := x.create(inline); got.Phase != runtype.Running {
			t.Fatalf("an inline run is %s", got.Phase)
		}
		x.endRun(x.claimByID(inline.ID))
		if got, _ := x.load(queued[0].ID); got.Phase != runtype.Queued {
			t.Fatal("the end of an inline run promoted another")
		}
		x.endRun(x.claimByID(first.ID))
		for i, want := range []runtype.Phase{runtype.Running, runtype.Queued, runtype.Queued} {
			got, _ := x.load(queued[i].ID)
			if got.Phase != want {
				t.Fatalf("after the first run, run %d is %s, want %s", i, got.Phase, want)
			}
		}
		next, _ := x.load(queued[0].ID)
		if next.NextAt.IsZero() || next.Queue != 0 || next.Owner != "" {
			t.Fatalf("promoted: next %s, number %d, owner %q", next.NextAt, next.Queue, next.Owner)
		}
		if again := x.create(newRun(first.Subject)); again.Phase != runtype.Queued || again.Queue <= queued[2].Queue {
			t.Fatalf("a later run is %s with number %d, behind %d", again.Phase, again.Queue, queued[2].Queue)
		}
	})
	t.Run("a promoted run is due and sends a wake-up", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		first := x.create(newRun(""))
		second := x.create(newRun(first.Subject))
		x.endRun(x.claimByID(first.ID))
		x.wantWake(c, second.ID)
		claimed, err := c.Claim(x.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
		if err != nil || len(claimed.Runs) != 1 || claimed.Runs[0].Run.ID != second.ID {
			t.Fatalf("claimed %v, %v", claimed.Runs, err)
		}
	})
	t.Run("a queued run may end in the queue", func(t *testing.T) {
		x := open(t, h)
		first := x.create(newRun(""))
		second, third := x.create(newRun(first.Subject)), x.create(newRun(first.Subject))
		r := x.claimByID(second.ID)
		r.Phase, r.EndedAt, r.Owner = runtype.Cancelled, testTime(9), ""
		x.save(r, runtype.RunCancelled)
		if got, _ := x.load(third.ID); got.Phase != runtype.Queued {
			t.Fatalf("the end of a queued run promoted another: %s", got.Phase)
		}
		x.endRun(x.claimByID(first.ID))
		if got, _ := x.load(third.ID); got.Phase != runtype.Running {
			t.Fatalf("the third run is %s", got.Phase)
		}
	})
	t.Run("holds 100", func(t *testing.T) {
		x := open(t, h)
		subject := x.create(newRun("")).Subject
		for range runstore.MaxQueued {
			x.create(newRun(subject))
		}
		_, err := x.Create(x.Context(), newRun(subject), created())
		x.wantCode("the run behind them", err, runstore.QueueFull)
		inline := newRun(subject)
		inline.Inline = true
		x.create(inline)
	})
}

// claimByID claims a run, on stores with and without claims.
func (x suite) claimByID(id string) *runtype.Run {
	x.Helper()
	if c, ok := x.Store.(runstore.Claimer); ok {
		l, err := c.ClaimRun(x.Context(), "w", id, time.Minute)
		if err != nil {
			x.Fatalf("claim %s: %v", id, err)
		}
		return l.Run
	}
	r, _ := x.load(id)
	r.Epoch++
	return r
}

// wantWake reads wake-ups until one is for the run or for any run.
func (x suite) wantWake(c runstore.Claimer, id string) {
	x.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case got := <-c.Wake():
			if got == id || got == "" {
				return
			}
		case <-timeout:
			x.Fatalf("no wake-up for %s", id)
		}
	}
}

func testSave(t *testing.T, h Harness) {
	t.Run("replaces exactly its revision", func(t *testing.T) {
		x := open(t, h)
		r := x.createClaimed("w")
		stale := x.claimByID(r.ID)
		r = x.claimByID(r.ID)
		r.Version, r.Hash, r.StartedAt = 4, "def", testTime(4)
		r.State.Ord = 9
		r.Fault = &runtype.Fault{Code: "X", Message: "m", At: testTime(3), Details: map[string]any{"node": "a", "n": int64(1) << 60}}
		before := r.Revision
		x.save(r, runtype.RunStarted)
		if r.Revision <= before {
			t.Fatalf("revision %d after %d", r.Revision, before)
		}
		got, _ := x.load(r.ID)
		x.wantSameRun("saved", got, r)
		stale.Hash = "nonsense"
		x.wantError("save of a stale copy", x.Save(x.Context(), &runstore.Save{Run: stale}), runstore.ErrConflict)
		got, _ = x.load(r.ID)
		x.wantSameRun("after the refused save", got, r)
	})
	t.Run("is fenced by a newer epoch", func(t *testing.T) {
		x := open(t, h)
		r := x.createClaimed("w")
		r.Epoch = 5
		x.save(r)
		r.Epoch = 4
		x.wantError("save of an older epoch", x.Save(x.Context(), &runstore.Save{Run: r}), runstore.ErrFenced)
	})
	t.Run("is all or nothing", func(t *testing.T) {
		x := open(t, h)
		r := x.createClaimed("w")
		other := x.create(newRun(""))
		x.send(r.ID, signal("a"))
		stale := x.claimByID(r.ID)
		r = x.claimByID(r.ID)
		x.save(r, runtype.RunStarted)
		before, _ := x.load(r.ID)

		stale.Put(&runtype.StepRecord{Name: "Bad", Phase: runtype.StepDone, Ord: 1, Attempt: 1})
		stale.Phase, stale.Owner = runtype.Paused, ""
		err := x.Save(x.Context(), &runstore.Save{Run: stale, Consumed: []string{"a"},
			Events: []runtype.Event{event(stale, runtype.RunPaused)}, Mail: []runstore.Mail{{To: other.ID, Signal: signal("m")}}})
		x.wantError("save of a stale copy", err, runstore.ErrConflict)
		after, signals := x.load(r.ID)
		x.wantSameRun("after the refused save", after, before)
		x.wantEqual("signals", ids(signals), []string{"a"})
		if _, mail := x.load(other.ID); len(mail) != 0 {
			t.Error("the mail of a refused save was delivered")
		}
		if l, ok := x.Store.(runstore.Lister); ok {
			events, err := l.History(x.Context(), r.ID, 0, 0)
			if err != nil || len(events) != 2 {
				t.Errorf("%d events, %v: want the two that were saved", len(events), err)
			}
		}
		if len(stale.Changed()) != 1 {
			t.Error("a refused save forgot which records changed")
		}
		if after.Owner != "w" {
			t.Errorf("owner %q after a refused release", after.Owner)
		}
	})
	t.Run("one of many at once", func(t *testing.T) {
		x := open(t, h)
		id := x.createClaimed("w").ID
		copies := make([]*runtype.Run, 6)
		for i := range copies {
			copies[i] = x.claimByID(id)
			copies[i].StartedAt = testTime(i + 10)
		}
		var all sync.WaitGroup
		errs := make([]error, len(copies))
		for i, r := range copies {
			all.Go(func() {
				errs[i] = x.Save(x.Context(), &runstore.Save{Run: r, Events: []runtype.Event{event(r, runtype.RunStarted)}})
			})
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won >= 0:
				t.Fatalf("saves %d and %d of the same revision both happened", won, i)
			case err == nil:
				won = i
			case !errors.Is(err, runstore.ErrConflict):
				t.Errorf("save %d: %v", i, err)
			}
		}
		if won < 0 {
			t.Fatal("no save happened")
		}
		got, _ := x.load(id)
		x.wantSameRun("saved", got, copies[won])
	})
	t.Run("survives a crash", func(t *testing.T) {
		x := reopenable(t, h)
		r := x.createClaimed("w")
		for i := range 5 {
			r.Put(&runtype.StepRecord{Name: fmt.Sprint("S", i), Phase: runtype.StepDone, Ord: int64(i) + 1, Attempt: 1, StartedAt: testTime(2), AttemptAt: testTime(2), EndedAt: testTime(3), Output: []byte(`1`)})
			x.save(r, runtype.StepStarted)
		}
		x.send(r.ID, signal("a"))
		x.Store = h.Reopen(t, x.Store)
		got, signals := x.load(r.ID)
		x.wantEqual("signals", ids(signals), []string{"a"})
		x.wantEqual("records", records(got), records(r))
		if got.Revision != r.Revision || got.Epoch != r.Epoch {
			t.Fatalf("revision %d, epoch %d: want %d, %d", got.Revision, got.Epoch, r.Revision, r.Epoch)
		}
	})
	t.Run("a finished run", func(t *testing.T) {
		x := open(t, h)
		r := x.createClaimed("w")
		x.endRun(r)
		got, _ := x.load(r.ID)
		x.wantSameRun("ended", got, r)
		x.wantError("send", x.Send(x.Context(), r.ID, signal("a")), runstore.ErrFinal)
	})
}

func testFaults(t *testing.T, h Harness) {
	t.Run("a write of unknown result", func(t *testing.T) {
		x := open(t, h)
		lost := h.LostReply
		if lost == nil {
			lost = func(_ testing.TB, s runstore.Store) runstore.Store { return &lossyStore{Store: s} }
		}
		view := lost(t, x.Store)
		r := x.createClaimed("w")
		r.Put(&runtype.StepRecord{Name: "One", Phase: runtype.StepDone, Ord: 1, Attempt: 1, Output: []byte(`{}`)})
		err := view.Save(x.Context(), &runstore.Save{Run: r, Events: []runtype.Event{event(r, runtype.StepDoneEvent)}})
		if err == nil || errors.Is(err, runstore.ErrConflict) {
			t.Fatalf("the lost answer is %v", err)
		}
		got, _ := x.load(r.ID)
		if got.Revision != r.Revision+1 && got.Revision != r.Revision {
			t.Fatalf("revision %d after %d", got.Revision, r.Revision)
		}
		again := x.Save(x.Context(), &runstore.Save{Run: r, Events: []runtype.Event{{Seq: r.Seq, At: testTime(1), Kind: runtype.StepDoneEvent}}})
		if got.Revision > r.Revision {
			x.wantError("the same save again, after it happened", again, runstore.ErrConflict)
		} else if again != nil {
			t.Fatal(again)
		}
	})
	t.Run("a cancelled context", func(t *testing.T) {
		x := open(t, h)
		r := x.createClaimed("w")
		ctx, cancel := context.WithCancel(x.Context())
		cancel()
		before, _ := x.load(r.ID)
		r.StartedAt = testTime(8)
		x.wantError("save", x.Save(ctx, &runstore.Save{Run: r}), context.Canceled)
		after, _ := x.load(r.ID)
		x.wantSameRun("after it", after, before)
	})
	t.Run("a full disk", func(t *testing.T) {
		if h.DiskFull == nil {
			t.Skip("cannot be injected")
		}
		x := open(t, h)
		r := x.createClaimed("w")
		heal := h.DiskFull(t, x.Store)
		r.Put(&runtype.StepRecord{Name: "Big", Phase: runtype.StepDone, Ord: 1, Output: bigJSON(runtype.MaxOutput)})
		var err error
		for range 20 {
			if err = x.Save(x.Context(), &runstore.Save{Run: r, Events: []runtype.Event{{Seq: r.Seq + 1, At: testTime(1), Kind: runtype.StepDoneEvent}}}); err != nil {
				break
			}
			r.Seq++
			r.Put(&runtype.StepRecord{Name: fmt.Sprint("Big", r.Seq), Phase: runtype.StepDone, Ord: r.Seq, Output: bigJSON(runtype.MaxOutput)})
		}
		x.wantCode("save", err, runstore.StoreFull)
		before, _ := x.load(r.ID)
		if before.Revision != r.Revision {
			t.Fatalf("revision %d after a failed save, want %d", before.Revision, r.Revision)
		}
		heal()
		x.save(r, runtype.StepDoneEvent)
		got, _ := x.load(r.ID)
		x.wantSameRun("after space came back", got, r)
	})
}

// lossyStore performs a save and returns an error.
type lossyStore struct{ runstore.Store }

func (f *lossyStore) Save(ctx context.Context, s *runstore.Save) error {
	revision, mail := s.Run.Revision, s.Run.Mail
	marked := append([]*runtype.StepRecord{}, s.Run.Changed()...)
	if err := f.Store.Save(ctx, s); err != nil {
		return err
	}
	s.Run.Revision, s.Run.Mail = revision, mail
	for _, record := range marked {
		s.Run.Put(record)
	}
	return runstore.StoreUnavailable.Errorf("the answer was lost")
}
