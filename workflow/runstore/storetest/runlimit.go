package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// limited returns a run with one limit for each key.
func limited(subject string, atOnce int, keys ...string) *runtype.Run {
	r := newRun(subject)
	for _, key := range keys {
		r.Limits = append(r.Limits, runtype.Limit{Key: key, AtOnce: atOnce})
	}
	return r
}

// start claims what may start and returns the ids of the runs.
func (x suite) start(c runstore.Claimer) []string {
	x.Helper()
	ids := []string{}
	for _, l := range x.claim(c, runstore.Claim{Worker: "w"}).Runs {
		if l.Run.Phase != runtype.Running {
			x.Fatalf("claimed %s in phase %s", l.Run.ID, l.Run.Phase)
		}
		ids = append(ids, l.Run.ID)
	}
	return ids
}

// end ends a run that "w" owns or that waits.
func (x suite) end(c runstore.Claimer, id string) {
	x.Helper()
	l, err := c.ClaimRun(x.Context(), "w", id, time.Minute)
	if err != nil {
		x.Fatal(err)
	}
	x.endRun(l.Run)
}

func (x suite) limitsOf(id string) []runstore.KeyLimit {
	x.Helper()
	list, err := x.Store.(runstore.RunLimiter).RunLimitsOf(x.Context(), id)
	if err != nil {
		x.Fatal(err)
	}
	return list
}

func testRunLimits(t *testing.T, h Harness) {
	limits := func(t *testing.T) (suite, runstore.Claimer) {
		x := open(t, h)
		optional[runstore.RunLimiter](x)
		return x, x.claimer()
	}
	t.Run("only so many run, the first come first", func(t *testing.T) {
		x, c := limits(t)
		var ids []string
		for range 5 {
			ids = append(ids, x.create(limited("", 2, "k")).ID)
		}
		other := x.create(limited("", 1, "other")).ID
		x.wantEqual("started", slices.Sorted(slices.Values(x.start(c))), []string{ids[0], ids[1], other})
		r, _ := x.load(ids[2])
		if r.Phase != runtype.Queued || r.Queue != 0 || len(r.Limits) != 1 || r.Limits[0] != (runtype.Limit{Key: "k", AtOnce: 2}) {
			t.Errorf("waiting: %+v", r)
		}
		x.wantEqual("limits of the last", x.limitsOf(ids[4]), []runstore.KeyLimit{{Key: "k", AtOnce: 2, Running: 2, Waiting: 3, Before: 2, Holders: ids[:2]}})
		x.wantEqual("limits of the first", x.limitsOf(ids[0]), []runstore.KeyLimit{{Key: "k", AtOnce: 2, Running: 2, Waiting: 3, Holders: ids[:2]}})
		drain(c)
		x.end(c, ids[1])
		x.waitUntil("the end of a run is a wake-up", func() bool {
			select {
			case <-c.Wake():
				return true
			default:
				return false
			}
		})
		x.wantEqual("started after an end", x.start(c), ids[2:3])
		x.end(c, ids[0])
		x.end(c, ids[2])
		x.wantEqual("started after two ends", x.start(c), ids[3:])
		x.wantEqual("limits of one that has ended", x.limitsOf(ids[0]), []runstore.KeyLimit{})
	})
	t.Run("a limit is kept in every phase, and by a run that nobody owns", func(t *testing.T) {
		x, c := limits(t)
		r := x.create(limited("", 1, "k"))
		x.start(c)
		next := x.create(limited("", 1, "k"))
		for _, phase := range []runtype.Phase{runtype.Waiting, runtype.Paused, runtype.Cancelling} {
			l, err := c.ClaimRun(x.Context(), "w", r.ID, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			l.Run.Phase, l.Run.Owner, l.Run.NextAt = phase, "", time.Time{}
			x.save(l.Run)
			x.wantEqual("started in phase "+string(phase), x.start(c), []string{})
		}
		x.end(c, r.ID)
		x.wantEqual("started", x.start(c), []string{next.ID})
	})
	t.Run("a lost worker acquires no limit with it and leaves none", func(t *testing.T) {
		x, c := limits(t)
		r := x.create(limited("", 1, "k"))
		first := x.claim(c, runstore.Claim{Worker: "dead", Lease: h.Lease})
		next := x.create(limited("", 1, "k"))
		if len(first.Runs) == 0 { // its wake-up may come late
			t.Fatal("nothing was claimed")
		}
		var got []runstore.Loaded
		x.waitUntil("the run of a dead worker is handed out", func() bool {
			got = append(got, x.claim(c, runstore.Claim{Worker: "w"}).Runs...)
			return len(got) > 0
		})
		if len(got) != 1 || got[0].Run.ID != r.ID {
			t.Fatalf("%d runs were handed out, or the wrong one", len(got))
		}
		x.wantEqual("limits", x.limitsOf(next.ID), []runstore.KeyLimit{{Key: "k", AtOnce: 1, Running: 1, Waiting: 1, Holders: []string{r.ID}}})
		x.endRun(got[0].Run)
		x.wantEqual("started", x.start(c), []string{next.ID})
	})
	t.Run("priority, and age", func(t *testing.T) {
		x, c := limits(t)
		holder := x.create(limited("", 1, "k"))
		x.start(c)
		add := func(priority int, at time.Time) string {
			r := limited("", 1, "k")
			r.Priority, r.CreatedAt = priority, at
			return x.create(r).ID
		}
		at := testTime(1)
		low := add(-1, at)
		plain, later := add(0, at), add(0, at.Add(time.Second))
		high := add(2, at.Add(time.Second))
		younger := add(2, at.Add(2*runtype.PriorityAge+2*time.Second)) // its head start is used up: those of priority 0 have aged
		order := []string{high, plain, later, younger, low}
		for i, want := range order {
			x.wantEqual("runs before "+want, x.limitsOf(want)[0].Before, i)
		}
		for _, want := range order {
			x.end(c, holder.ID)
			x.wantEqual("started", x.start(c), []string{want})
			holder.ID = want
		}
	})
	t.Run("a run with two keys takes both or none, and nobody passes it", func(t *testing.T) {
		x, c := limits(t)
		a, b := x.create(limited("", 1, "a")), x.create(limited("", 1, "b"))
		x.start(c)
		both, other := x.create(limited("", 1, "a", "b")), x.create(limited("", 1, "b", "c"))
		late := x.create(limited("", 1, "a"))
		x.end(c, a.ID)
		x.wantEqual("started while b is taken", x.start(c), []string{})
		x.end(c, b.ID)
		x.wantEqual("started", x.start(c), []string{both.ID})
		x.end(c, both.ID)
		x.wantEqual("started then", slices.Sorted(slices.Values(x.start(c))), []string{other.ID, late.ID})
	})
	t.Run("behind another run of the subject first", func(t *testing.T) {
		x, c := limits(t)
		holder := x.create(limited("", 1, "k"))
		active := x.create(newRun(""))
		x.start(c)
		behind := x.create(limited(active.Subject, 1, "k"))
		last := x.create(newRun(active.Subject))
		x.wantEqual("limits while another run of the subject is active", x.limitsOf(behind.ID), []runstore.KeyLimit{})
		if behind.Queue == 0 {
			t.Error("it has no number in the queue of its subject")
		}
		x.end(c, active.ID)
		x.wantEqual("started when the other run has ended", x.start(c), []string{})
		if r, _ := x.load(behind.ID); r.Phase != runtype.Queued || r.Queue != 0 {
			t.Errorf("%s with number %d", r.Phase, r.Queue)
		}
		newest := x.create(newRun(active.Subject))
		if newest.Phase != runtype.Queued || newest.Queue <= last.Queue {
			t.Error("a run has passed one of its subject that waits for a limit")
		}
		x.end(c, holder.ID)
		x.wantEqual("started when the limit is free", x.start(c), []string{behind.ID})
		x.end(c, behind.ID)
		x.wantEqual("started last", x.start(c), []string{last.ID})
	})
	t.Run("a child run passes the runs of its subject that wait for limits", func(t *testing.T) {
		x, c := limits(t)
		parent := x.create(limited("", 1, "k"))
		x.start(c)
		waiting := x.create(limited("", 1, "k"))
		next := x.create(limited("", 1, "k"))
		before, _ := x.load(waiting.ID)
		plain := x.create(newRun(waiting.Subject))
		child := func() *runtype.Run {
			r := newRun(waiting.Subject)
			r.Parent = parent.ID
			return x.create(r)
		}
		x.wantEqual("started while the limit is held", x.start(c), []string{})
		first := child()
		if first.Phase != runtype.Running || first.Queue != 0 {
			t.Fatalf("the child is %s with number %d", first.Phase, first.Queue)
		}
		second := child()
		if second.Phase != runtype.Queued {
			t.Fatalf("the second child is %s, and the first one runs", second.Phase)
		}
		if got, _ := x.load(waiting.ID); got.Phase != runtype.Queued || got.Queue <= 0 || got.Revision <= before.Revision || got.Queue > plain.Queue {
			t.Fatalf("passed: %s with number %d, revision %d after %d", got.Phase, got.Queue, got.Revision, before.Revision)
		}
		x.wantEqual("limits of the run that was passed", x.limitsOf(waiting.ID), []runstore.KeyLimit{})
		x.wantEqual("limits of the next", x.limitsOf(next.ID), []runstore.KeyLimit{{Key: "k", AtOnce: 1, Running: 1, Waiting: 1, Holders: []string{parent.ID}}})
		x.wantEqual("started", x.start(c), []string{first.ID})
		x.end(c, first.ID)
		x.wantEqual("started after the child", x.start(c), []string{second.ID})
		x.end(c, second.ID)
		x.wantEqual("started after both", x.start(c), []string{})
		x.wantEqual("its turn is the old one", x.limitsOf(waiting.ID), []runstore.KeyLimit{{Key: "k", AtOnce: 1, Running: 1, Waiting: 2, Holders: []string{parent.ID}}})
		x.end(c, parent.ID)
		x.wantEqual("started after the parent", x.start(c), []string{waiting.ID})
		third := child() // it has begun now
		x.wantEqual("started beside a run that has begun", x.start(c), []string{})
		x.end(c, waiting.ID)
		x.wantEqual("started then", slices.Sorted(slices.Values(x.start(c))), slices.Sorted(slices.Values([]string{plain.ID, next.ID})))
		x.end(c, plain.ID)
		x.wantEqual("started last", x.start(c), []string{third.ID})
	})
	t.Run("the line goes on when its first run is passed", func(t *testing.T) {
		x, c := limits(t)
		a := x.create(limited("", 1, "a"))
		x.start(c)
		both, behind := x.create(limited("", 1, "a", "b")), x.create(limited("", 1, "b"))
		x.wantEqual("started", x.start(c), []string{})
		r := newRun(both.Subject)
		r.Parent = a.ID
		child := x.create(r)
		x.wantEqual("started", slices.Sorted(slices.Values(x.start(c))), slices.Sorted(slices.Values([]string{behind.ID, child.ID})))
		x.send(both.ID, signal("cancel"))
		l := x.claimByID(both.ID)
		x.endRun(l)
		for _, id := range []string{child.ID, behind.ID, a.ID} {
			x.end(c, id)
		}
		if r := x.create(newRun(both.Subject)); r.Phase != runtype.Running {
			t.Errorf("the subject is not free: %s", r.Phase)
		}
	})
	t.Run("a waiting run ends by mail", func(t *testing.T) {
		x, c := limits(t)
		holder := x.create(limited("", 1, "k"))
		x.start(c)
		first, second := x.create(limited("", 1, "k")), x.create(limited("", 1, "k"))
		x.send(first.ID, signal("cancel"))
		claimed := x.claim(c, runstore.Claim{Worker: "w"}).Runs
		if len(claimed) != 1 || claimed[0].Run.Phase != runtype.Queued {
			t.Fatalf("claimed %d", len(claimed))
		}
		running := claimed[0].Run
		running.Phase = runtype.Running
		x.wantError("a waiting run cannot start itself", x.Save(x.Context(), &runstore.Save{Run: running}), runstore.ErrConflict)
		running.Phase = runtype.Queued
		x.endRun(running)
		x.wantEqual("started", x.start(c), []string{})
		x.end(c, holder.ID)
		x.wantEqual("started", x.start(c), []string{second.ID})
	})
	t.Run("a number that is set counts at once", func(t *testing.T) {
		x, c := limits(t)
		set := x.Store.(runstore.RunLimiter)
		var ids []string
		for range 4 {
			ids = append(ids, x.create(limited("", 1, "k")).ID)
		}
		x.wantEqual("started", x.start(c), ids[:1])
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(set.SetRunLimit(t.Context(), "k", 3))
		must(set.SetRunLimit(t.Context(), "nobody", 7))
		x.wantEqual("started with 3", slices.Sorted(slices.Values(x.start(c))), ids[1:3])
		list, err := set.RunLimits(t.Context(), "", 0)
		must(err)
		x.wantEqual("limits", list, []runstore.KeyLimit{{Key: "k", AtOnce: 3, Set: true, Running: 3, Waiting: 1}, {Key: "nobody", AtOnce: 7, Set: true}})
		list, err = set.RunLimits(t.Context(), "k", 1)
		must(err)
		x.wantEqual("limits behind k", list, []runstore.KeyLimit{{Key: "nobody", AtOnce: 7, Set: true}})
		must(set.SetRunLimit(t.Context(), "k", 0))
		for _, id := range ids[:3] {
			x.end(c, id)
		}
		x.wantEqual("started with 0", x.start(c), []string{})
		must(set.ResetRunLimit(t.Context(), "k"))
		must(set.ResetRunLimit(t.Context(), "nobody"))
		x.wantEqual("started without a set number", x.start(c), ids[3:])
		list, err = set.RunLimits(t.Context(), "", 0)
		must(err)
		x.wantEqual("limits", list, []runstore.KeyLimit{{Key: "k", AtOnce: 1, Running: 1}})
		x.end(c, ids[3])
		list, err = set.RunLimits(t.Context(), "", 0)
		must(err)
		x.wantEqual("limits", list, []runstore.KeyLimit{})
		_, err = set.RunLimitsOf(t.Context(), "nobody")
		x.wantError("limits of no run", err, runstore.ErrNotFound)
	})
	t.Run("after a crash", func(t *testing.T) {
		x := reopenable(t, h)
		optional[runstore.RunLimiter](x)
		holder, waiting := x.create(limited("", 1, "k")), x.create(limited("", 1, "k"))
		x.wantEqual("started", x.start(x.claimer()), []string{holder.ID})
		x.Store = h.Reopen(t, x.Store)
		c := x.claimer()
		var got []string
		x.waitUntil("the run of the dead process is handed out", func() bool {
			got = append(got, x.start(c)...)
			return len(got) > 0 || ownedBy(x, holder.ID) == "w"
		})
		x.wantEqual("limits", x.limitsOf(waiting.ID), []runstore.KeyLimit{{Key: "k", AtOnce: 1, Running: 1, Waiting: 1, Holders: []string{holder.ID}}})
		x.end(c, holder.ID)
		x.wantEqual("started", x.start(c), []string{waiting.ID})
	})
	t.Run("workers side by side", func(t *testing.T) { testLimitsSideBySide(t, h) })
	t.Run("random", func(t *testing.T) { testLimitsAtRandom(t, h) })
	t.Run("nobody waits for ever", func(t *testing.T) { testNobodyWaits(t, h, false) })
	t.Run("nobody waits for ever, with a crash after each write", func(t *testing.T) { testNobodyWaits(t, h, true) })
}

func ownedBy(x suite, id string) string {
	r, _ := x.load(id)
	return r.Owner
}

// testLimitsSideBySide: workers that claim and end runs at the same time never own more runs of a key than it allows,
// and all runs end.
func testLimitsSideBySide(t *testing.T, h Harness) {
	x := open(t, h)
	optional[runstore.RunLimiter](x)
	c := x.claimer()
	const runs, workers, atOnce = 40, 3, 2
	keys := []string{"a", "b", "c"}
	var mu sync.Mutex
	owned, ended := map[string]int{}, 0
	count := func(r *runtype.Run, n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range r.Limits {
			if owned[l.Key] += n; owned[l.Key] > atOnce {
				t.Errorf("%d runs of %s run at once", owned[l.Key], l.Key)
			}
		}
		if n < 0 {
			ended++
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range runs {
			r := limited("", atOnce, keys[i%3])
			if i%4 == 0 {
				r.Limits = []runtype.Limit{{Key: "a", AtOnce: atOnce}, {Key: "c", AtOnce: atOnce}}
			}
			if _, err := x.Create(x.Context(), r, created()); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range workers {
		all.Go(func() {
			deadline := time.Now().Add(60 * time.Second)
			for done := false; !done && time.Now().Before(deadline); {
				claimed, err := c.Claim(x.Context(), runstore.Claim{Worker: fmt.Sprint("w", i), Limit: 3, Lease: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				for _, l := range claimed.Runs {
					count(l.Run, 1)
				}
				for _, l := range claimed.Runs {
					count(l.Run, -1)
					r := l.Run
					r.Phase, r.EndedAt, r.Owner, r.NextAt = runtype.Succeeded, testTime(30), "", time.Time{}
					if err := x.Save(x.Context(), &runstore.Save{Run: r, Events: []runtype.Event{event(r, runtype.RunSucceeded)}}); err != nil {
						t.Error(err)
						return
					}
				}
				mu.Lock()
				done = ended == runs
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if ended != runs {
		t.Errorf("%d of %d runs have ended", ended, runs)
	}
}
