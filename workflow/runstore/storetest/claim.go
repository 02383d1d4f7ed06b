package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// claim claims the due runs.
func (x suite) claim(c runstore.Claimer, claim runstore.Claim) runstore.Claimed {
	x.Helper()
	if claim.Lease == 0 {
		claim.Lease = time.Minute
	}
	if claim.Limit == 0 {
		claim.Limit = 100
	}
	claimed, err := c.Claim(x.Context(), claim)
	if err != nil {
		x.Fatalf("claim: %v", err)
	}
	for _, l := range claimed.Runs {
		if l.Run.Owner != claim.Worker {
			x.Fatalf("%s was claimed by %s and is owned by %q", l.Run.ID, claim.Worker, l.Run.Owner)
		}
	}
	return claimed
}

func testClaim(t *testing.T, h Harness) {
	t.Run("soonest first, up to the limit", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		var want []string
		for i := range 5 {
			r := x.createClaimed("w")
			x.wait(r, testTime(20-i))
			want = append([]string{r.ID}, want...)
		}
		first := x.claim(c, runstore.Claim{Worker: "w", Limit: 2})
		second := x.claim(c, runstore.Claim{Worker: "w", Limit: 10})
		var got []string
		for _, l := range append(first.Runs, second.Runs...) {
			got = append(got, l.Run.ID)
		}
		x.wantEqual("claimed", got, want)
		if len(first.Runs) != 2 {
			t.Errorf("%d runs with limit 2", len(first.Runs))
		}
	})
	t.Run("only due runs, and the time of the next", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		soon, later := time.Now().Add(time.Hour).UTC(), time.Now().Add(2*time.Hour).UTC()
		x.wait(x.createClaimed("w"), later)
		x.wait(x.createClaimed("w"), soon)
		x.wait(x.createClaimed("w"), time.Time{})
		claimed := x.claim(c, runstore.Claim{Worker: "w"})
		if len(claimed.Runs) != 0 || claimed.Next.Sub(soon).Abs() > time.Millisecond {
			t.Fatalf("claimed %d, next %s, want none and %s", len(claimed.Runs), claimed.Next, soon)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		x.endRun(x.createClaimed("w"))
		if claimed := x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) != 0 || !claimed.Next.IsZero() {
			t.Fatalf("claimed %d, next %s", len(claimed.Runs), claimed.Next)
		}
	})
	t.Run("paused and cancelling runs too", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		for _, phase := range []runtype.Phase{runtype.Paused, runtype.Cancelling, runtype.Running, runtype.Waiting} {
			r := x.createClaimed("w")
			r.Phase, r.Owner, r.NextAt = phase, "", testTime(3)
			x.save(r)
		}
		if claimed := x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) != 4 {
			t.Fatalf("claimed %d of 4", len(claimed.Runs))
		}
	})
	t.Run("a queued run after it received mail", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		first := x.createClaimed("w")
		queued := x.create(newRun(first.Subject))
		if claimed := x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) != 0 {
			t.Fatal("a queued run without mail was claimed")
		}
		x.send(queued.ID, signal("cancel"))
		claimed := x.claim(c, runstore.Claim{Worker: "w"})
		if len(claimed.Runs) != 1 || claimed.Runs[0].Run.Phase != runtype.Queued || len(claimed.Runs[0].Signals) != 1 {
			t.Fatalf("claimed %d", len(claimed.Runs))
		}
	})
	t.Run("skips flows that have reached their limit", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		for _, flow := range []string{"Full", "Free", "Full", "Free"} {
			r := newRun("")
			r.Flow = flow
			x.create(r)
		}
		claimed := x.claim(c, runstore.Claim{Worker: "w", FullFlows: []string{"Full"}})
		if len(claimed.Runs) != 2 || claimed.Runs[0].Run.Flow != "Free" || claimed.Runs[1].Run.Flow != "Free" {
			t.Fatalf("claimed %d", len(claimed.Runs))
		}
		if claimed = x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) != 2 {
			t.Fatalf("claimed %d of the full flow when it had free slots", len(claimed.Runs))
		}
	})
	t.Run("raises the epoch", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := x.createClaimed("w")
		x.wait(r, testTime(1))
		l := x.claim(c, runstore.Claim{Worker: "w"}).Runs[0]
		if l.Run.Epoch <= r.Epoch {
			t.Fatalf("epoch %d after %d", l.Run.Epoch, r.Epoch)
		}
		x.wait(l.Run, testTime(1))
		again := x.claim(c, runstore.Claim{Worker: "w"}).Runs[0]
		if again.Run.Epoch <= l.Run.Epoch {
			t.Fatalf("epoch %d after %d", again.Run.Epoch, l.Run.Epoch)
		}
		x.wantError("save of the earlier claim", x.stale(l.Run), runstore.ErrFenced)
	})
	t.Run("claim one run", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := x.createClaimed("w")
		x.wait(r, time.Time{})
		l, err := c.ClaimRun(x.Context(), "w", r.ID, time.Minute)
		if err != nil || l.Run.Owner != "w" || l.Run.Epoch <= r.Epoch {
			t.Fatalf("claim: %v", err)
		}
		again, err := c.ClaimRun(x.Context(), "w", r.ID, time.Minute)
		if err != nil || again.Run.Epoch != l.Run.Epoch {
			t.Fatalf("claim by the same worker: %v, epoch %d after %d", err, again.Run.Epoch, l.Run.Epoch)
		}
		_, err = c.ClaimRun(x.Context(), "w", "nobody", time.Minute)
		x.wantError("claim of an unknown run", err, runstore.ErrNotFound)
	})
	t.Run("a signal makes a waiting run due", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := x.createClaimed("w")
		x.wait(r, time.Now().Add(time.Hour))
		drain(c)
		x.send(r.ID, signal("a"))
		x.wantWake(c, r.ID)
		claimed := x.claim(c, runstore.Claim{Worker: "w"})
		if len(claimed.Runs) != 1 || len(claimed.Runs[0].Signals) != 1 {
			t.Fatalf("claimed %d", len(claimed.Runs))
		}
	})
	t.Run("a signal to an owned run is only a wake-up", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := x.createClaimed("w")
		x.save(r)
		drain(c)
		x.send(r.ID, signal("a"))
		x.wantWake(c, r.ID)
		if claimed := x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) != 0 {
			t.Fatal("an owned run was claimed")
		}
	})
	t.Run("no signal is overlooked", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := x.createClaimed("w")
		x.save(r)
		x.send(r.ID, signal("late"))
		x.wait(r, time.Now().Add(time.Hour)) // its Mail does not include the signal
		claimed := x.claim(c, runstore.Claim{Worker: "w"})
		if len(claimed.Runs) != 1 {
			t.Fatal("a run with unread mail is not due")
		}
		x.wait(claimed.Runs[0].Run, time.Now().Add(time.Hour))
		if claimed = x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) != 0 {
			t.Fatal("a run that has read its mail is due again")
		}
	})
	t.Run("release one run", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		for _, saved := range []bool{false, true} {
			r := x.createClaimed("w")
			x.wait(r, testTime(1))
			l := x.claim(c, runstore.Claim{Worker: "w"}).Runs[0]
			if saved {
				x.save(l.Run)
			}
			next := time.Now().Add(time.Hour).UTC()
			if err := c.ReleaseRun(x.Context(), "w", l.Run, next); err != nil {
				t.Fatal(err)
			}
			claimed := x.claim(c, runstore.Claim{Worker: "w"})
			if len(claimed.Runs) != 0 || claimed.Next.Sub(next).Abs() > time.Millisecond {
				t.Fatalf("saved %v: claimed %d, next %s, want %s", saved, len(claimed.Runs), claimed.Next, next)
			}
			x.send(r.ID, signal("a"))
			claimed = x.claim(c, runstore.Claim{Worker: "w"})
			if len(claimed.Runs) != 1 || claimed.Runs[0].Run.Epoch <= l.Run.Epoch {
				t.Fatalf("saved %v: a signal did not wake a resting run, or gave an old epoch", saved)
			}
			x.send(r.ID, signal("b"))
			if err := c.ReleaseRun(x.Context(), "w", claimed.Runs[0].Run, next); err != nil {
				t.Fatal(err)
			}
			claimed = x.claim(c, runstore.Claim{Worker: "w"})
			if len(claimed.Runs) != 1 {
				t.Fatalf("saved %v: a run rests with unseen mail", saved)
			}
			soon := time.Now().Add(50 * time.Millisecond)
			if err := c.ReleaseRun(x.Context(), "w", claimed.Runs[0].Run, soon); err != nil {
				t.Fatal(err)
			}
			x.waitUntil("a resting run is due again", func() bool {
				claimed = x.claim(c, runstore.Claim{Worker: "w"})
				return len(claimed.Runs) == 1
			})
			x.endRun(claimed.Runs[0].Run)
		}
	})
	t.Run("a release does not put a started run back into the queue", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		first := x.createClaimed("w")
		queued := x.create(newRun(first.Subject))
		x.send(queued.ID, signal("a"))
		taken, err := c.ClaimRun(x.Context(), "w", queued.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		x.endRun(first) // starts the queued run while a worker holds it
		if err := c.ReleaseRun(x.Context(), "w", taken.Run, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if claimed := x.claim(c, runstore.Claim{Worker: "w"}); len(claimed.Runs) != 1 || claimed.Runs[0].Run.Phase != runtype.Running {
			t.Fatalf("%d runs are due: the promoted one was forgotten", len(claimed.Runs))
		}
	})
	t.Run("after a crash the owned runs are due", func(t *testing.T) {
		x := reopenable(t, h)
		x.claimer()
		saved, _ := x.createClaimed("dead"), x.createClaimed("dead")
		x.save(saved)
		waiting := x.createClaimed("dead")
		x.wait(waiting, time.Now().Add(time.Hour))
		x.Store = h.Reopen(t, x.Store)
		c := x.claimer()
		var got []runstore.Loaded
		x.waitUntil("the runs of a dead worker are handed out", func() bool {
			got = append(got, x.claim(c, runstore.Claim{Worker: "w2"}).Runs...)
			return len(got) >= 2
		})
		if len(got) != 2 || slices.ContainsFunc(got, func(l runstore.Loaded) bool { return l.Run.ID == waiting.ID || l.Run.Epoch < 2 }) {
			t.Fatalf("claimed %d runs, or with an old epoch", len(got))
		}
		x.wantError("save of the dead worker", x.stale(saved), runstore.ErrFenced)
	})
}

// stale saves a copy of a run that a newer claim has made obsolete.
func (x suite) stale(r *runtype.Run) error {
	err := x.Save(x.Context(), &runstore.Save{Run: r})
	if err != nil && !errors.Is(err, runstore.ErrFenced) {
		// Both errors are right for a copy with an old epoch and an old revision.
		if fmt.Sprint(err) == fmt.Sprint(runstore.ErrConflict) {
			return runstore.ErrFenced
		}
	}
	return err
}

// drain discards the wake-ups so far.
func drain(c runstore.Claimer) {
	for {
		select {
		case <-c.Wake():
		default:
			return
		}
	}
}

func testWorkers(t *testing.T, h Harness) {
	t.Run("two workers compete for one run", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		r := x.createClaimed("a")
		x.save(r)
		_, err := c.ClaimRun(x.Context(), "b", r.ID, time.Minute)
		x.wantError("claim run", err, runstore.ErrOwned)
		if claimed := x.claim(c, runstore.Claim{Worker: "b"}); len(claimed.Runs) != 0 {
			t.Fatal("a run of a living worker was claimed")
		}
	})
	t.Run("a worker that does not renew loses its runs", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		x.create(newRun(""))
		old := x.claim(c, runstore.Claim{Worker: "a", Lease: h.Lease}).Runs[0]
		x.save(old.Run)
		var got []runstore.Loaded
		x.waitUntil("takeover", func() bool {
			got = x.claim(c, runstore.Claim{Worker: "b"}).Runs
			return len(got) > 0
		})
		if got[0].Run.Epoch <= old.Run.Epoch {
			t.Fatalf("epoch %d after %d", got[0].Run.Epoch, old.Run.Epoch)
		}
		x.wantError("renew", c.Renew(x.Context(), "a", time.Minute), runstore.ErrFenced)
		x.wantError("save", x.stale(old.Run), runstore.ErrFenced)
		_, err := c.ClaimRun(x.Context(), "a", old.Run.ID, time.Minute)
		x.wantError("claim run", err, runstore.ErrOwned)
		x.save(got[0].Run)
	})
	t.Run("a worker that renews keeps its runs", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		x.create(newRun(""))
		x.claim(c, runstore.Claim{Worker: "a", Lease: 2 * h.Lease})
		for end := time.Now().Add(4 * h.Lease); time.Now().Before(end); {
			if err := c.Renew(x.Context(), "a", 2*h.Lease); err != nil {
				t.Fatal(err)
			}
			if claimed := x.claim(c, runstore.Claim{Worker: "b"}); len(claimed.Runs) != 0 {
				t.Fatal("the run of a worker that renews was claimed")
			}
			<-time.After(h.Lease / 10)
		}
	})
	t.Run("release returns everything", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		under, limited, wait, mailed := x.createClaimed("a"), x.createClaimed("a"), x.createClaimed("a"), x.createClaimed("a")
		under.NextAt = time.Time{}
		x.save(under)
		later := time.Now().Add(time.Hour).UTC()
		limited.NextAt = later // its deadline, while an attempt is open
		x.save(limited)
		wait.Phase, wait.NextAt = runtype.Waiting, later
		x.save(wait)
		mailed.Phase, mailed.NextAt = runtype.Waiting, later
		x.save(mailed)
		x.send(mailed.ID, signal("a"))
		if err := c.Release(x.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		var got []string
		claimed := x.claim(c, runstore.Claim{Worker: "b"})
		for _, l := range claimed.Runs {
			got = append(got, l.Run.ID)
			if l.Run.Epoch <= 1 {
				t.Errorf("epoch %d", l.Run.Epoch)
			}
		}
		slices.Sort(got)
		want := []string{under.ID, limited.ID, mailed.ID}
		slices.Sort(want)
		x.wantEqual("claimed by the next worker", got, want)
		if claimed.Next.Sub(later).Abs() > time.Millisecond {
			t.Errorf("next %s, want %s", claimed.Next, later)
		}
		x.wantError("save of the worker that released", x.stale(under), runstore.ErrFenced)
		if err := c.Release(x.Context(), "nobody"); err != nil {
			t.Errorf("release of an unknown worker: %v", err)
		}
	})
	t.Run("many claim at once, each run once", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		n := 60
		for range n {
			x.create(newRun(""))
		}
		results := make(chan []runstore.Loaded)
		for w := range 4 {
			go func() {
				var mine []runstore.Loaded
				for {
					claimed, err := c.Claim(x.Context(), runstore.Claim{Worker: fmt.Sprint("w", w), Limit: 4, Lease: time.Minute})
					if err != nil {
						x.Error(err)
					}
					if len(claimed.Runs) == 0 {
						break
					}
					mine = append(mine, claimed.Runs...)
				}
				results <- mine
			}()
		}
		seen := map[string]bool{}
		for range 4 {
			for _, l := range <-results {
				if seen[l.Run.ID] {
					t.Errorf("%s was claimed twice", l.Run.ID)
				}
				seen[l.Run.ID] = true
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d runs were claimed", len(seen), n)
		}
	})
}

func testListOfWorkers(t *testing.T, h Harness) {
	x := open(t, h)
	workers, c := optional[runstore.Workers](x), x.claimer()
	list := func() map[string]runstore.Worker {
		found, err := workers.Workers(x.Context())
		if err != nil {
			x.Fatal(err)
		}
		if !slices.IsSortedFunc(found, func(a, b runstore.Worker) int { return strings.Compare(a.Name, b.Name) }) {
			x.Errorf("not in the order of their names: %+v", found)
		}
		named := map[string]runstore.Worker{}
		for _, w := range found {
			named[w.Name] = w
		}
		return named
	}
	x.wantEqual("workers of an empty store", len(list()), 0)

	began := time.Now().Add(-time.Minute)
	var ids []string
	for range runstore.MaxOwned + 3 {
		r := x.createClaimed("")
		ids = append(ids, r.ID)
	}
	x.claim(c, runstore.Claim{Worker: "b", Limit: 1, Lease: time.Minute})
	mine := x.claim(c, runstore.Claim{Worker: "a", Limit: 100, Lease: 2 * time.Minute})
	x.claim(c, runstore.Claim{Worker: "idle", Limit: 1, Lease: time.Minute})
	found := list()
	x.wantEqual("workers", slices.Sorted(maps.Keys(found)), []string{"a", "b", "idle"})
	a, b, idle := found["a"], found["b"], found["idle"]
	x.wantEqual("counts", []int{a.Count, b.Count, idle.Count}, []int{len(mine.Runs), 1, 0})
	x.wantEqual("listed runs", []int{len(a.Runs), len(b.Runs), len(idle.Runs)}, []int{runstore.MaxOwned, 1, 0})
	ordered := []string{}
	for _, id := range ids {
		if id != b.Runs[0] {
			ordered = append(ordered, id)
		}
	}
	x.wantEqual("the oldest runs", a.Runs, ordered[:runstore.MaxOwned])
	if a.Since.Before(began) || a.Until.Sub(a.Since) < time.Minute || a.Lease != 2*time.Minute || a.Expired || idle.Expired {
		x.Errorf("a is %+v, idle is %+v", a, idle)
	}

	// a lease that ends, the runs of which another worker takes
	x.claim(c, runstore.Claim{Worker: "short", Limit: 1, Lease: h.Lease})
	short := x.createClaimed("")
	if _, err := c.ClaimRun(x.Context(), "short", short.ID, h.Lease); err != nil {
		x.Fatal(err)
	}
	x.waitUntil("the lease ends", func() bool { return list()["short"].Expired })
	x.wantEqual("runs of the expired worker", list()["short"].Runs, []string{short.ID})
	x.waitUntil("the lease ends", func() bool {
		x.claim(c, runstore.Claim{Worker: "b", Limit: 100, Lease: time.Minute})
		return slices.Contains(list()["b"].Runs, short.ID)
	})
	if left, there := list()["short"]; there && left.Count > 0 {
		x.Errorf("the lost worker still has runs: %+v", left)
	}

	if err := c.Release(x.Context(), "a"); err != nil {
		x.Fatal(err)
	}
	if _, there := list()["a"]; there {
		x.Error("a released worker is in the list")
	}
}
