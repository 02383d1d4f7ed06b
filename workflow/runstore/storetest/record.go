package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func testRecords(t *testing.T, h Harness) {
	t.Run("every field of every record", func(t *testing.T) {
		x := open(t, h)
		checks := 0
		most := 100
		if h.Slow {
			most = 10
		}
		rapid.Check(t, func(rt *rapid.T) {
			if checks++; checks > most {
				return
			}
			r := x.createClaimed("w")
			for i := range rapid.IntRange(1, 4).Draw(rt, "saves") {
				drawRun(rt, r)
				for range rapid.IntRange(0, 3).Draw(rt, "records") {
					r.Put(drawRecord(rt, r))
				}
				if err := x.Save(x.Context(), &runstore.Save{Run: r, Events: []runtype.Event{event(r, runtype.StepStarted)}}); err != nil {
					rt.Fatalf("save %d: %v", i, err)
				}
				if len(r.Changed()) != 0 {
					rt.Fatal("after a save some records are still marked as changed")
				}
				got, _ := x.load(r.ID)
				if diff := cmp.Diff(r, got, compareOptions) + cmp.Diff(records(r), records(got), compareOptions); diff != "" {
					rt.Fatalf("loaded (-want +got):\n%s", diff)
				}
			}
		})
	})
	t.Run("a thousand steps", func(t *testing.T) {
		x := open(t, h)
		n := 1000
		if h.Slow {
			n = 100
		}
		r := x.createClaimed("w")
		for i := range n {
			if old := r.Step(fmt.Sprint("S", i-1)); old != nil {
				old.Phase, old.EndedAt = runtype.StepDone, testTime(4)
				r.Put(old)
			}
			r.Put(&runtype.StepRecord{Name: fmt.Sprint("S", i), Phase: runtype.StepRunning, Ord: int64(i) + 1, Attempt: 1, StartedAt: testTime(3), AttemptAt: testTime(3)})
			x.save(r, runtype.StepStarted)
		}
		got, _ := x.load(r.ID)
		x.wantEqual("records", records(got), records(r))
	})
	t.Run("a run of one mebibyte", func(t *testing.T) {
		if h.Slow {
			t.Skip("limits of this store are smaller")
		}
		x := open(t, h)
		r := newRun("")
		r.Input = bigJSON(runtype.MaxInput)
		r.Owner, r.Epoch = "w", 1
		r = x.create(r)
		for i := range 3 {
			r.Put(&runtype.StepRecord{Name: fmt.Sprint("S", i), Phase: runtype.StepDone, Ord: int64(i) + 1, Output: bigJSON(runtype.MaxOutputRaised)})
			x.save(r)
		}
		got, _ := x.load(r.ID)
		x.wantSameRun("loaded", got, r)
	})
}

func bigJSON(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = 'x'
	}
	data[0], data[size-1] = '"', '"'
	return data
}

func testSignals(t *testing.T, h Harness) {
	t.Run("in order, once, also after they were consumed", func(t *testing.T) {
		x := open(t, h)
		r := x.createClaimed("w")
		for _, id := range []string{"c", "a", "b", "a"} {
			x.send(r.ID, signal(id))
		}
		got, signals := x.load(r.ID)
		x.wantEqual("unread", signals, []runtype.Signal{signal("c"), signal("a"), signal("b")})
		if got.Mail != 3 {
			t.Fatalf("mail %d, want 3", got.Mail)
		}
		r = x.claimByID(r.ID)
		if err := x.Save(x.Context(), &runstore.Save{Run: r, Consumed: []string{"a", "unknown"}}); err != nil {
			t.Fatal(err)
		}
		x.send(r.ID, signal("a"))
		_, signals = x.load(r.ID)
		x.wantEqual("unread after one was consumed", ids(signals), []string{"c", "b"})
	})
	t.Run("early signals are kept", func(t *testing.T) {
		x := open(t, h)
		first := x.create(newRun(""))
		queued := x.create(newRun(first.Subject))
		x.send(queued.ID, signal("early"))
		x.endRun(x.claimByID(first.ID))
		_, signals := x.load(queued.ID)
		x.wantEqual("unread", ids(signals), []string{"early"})
	})
	t.Run("a save tells the new count", func(t *testing.T) {
		x := open(t, h)
		r := x.createClaimed("w")
		x.save(r)
		if r.Mail != 0 {
			t.Fatalf("mail %d", r.Mail)
		}
		x.send(r.ID, signal("a"))
		x.save(r)
		if r.Mail != 1 {
			t.Fatalf("mail %d after a signal, want 1", r.Mail)
		}
	})
	t.Run("at most 1000 unread", func(t *testing.T) {
		if h.Slow {
			t.Skip("too many calls")
		}
		x := open(t, h)
		r := x.createClaimed("w")
		for i := range runstore.MaxUnread {
			x.send(r.ID, signal(fmt.Sprint(i)))
		}
		x.wantCode("one more", x.Send(x.Context(), r.ID, signal("more")), runstore.QueueFull)
		x.send(r.ID, signal("7")) // a known id counts once
		r = x.claimByID(r.ID)
		if err := x.Save(x.Context(), &runstore.Save{Run: r, Consumed: []string{"0"}}); err != nil {
			t.Fatal(err)
		}
		x.send(r.ID, signal("more"))
		x.send(r.ID, signal("999"))
		_, signals := x.load(r.ID)
		if len(signals) != runstore.MaxUnread || signals[0].ID != "1" || signals[len(signals)-1].ID != "more" {
			t.Fatalf("%d unread", len(signals))
		}
	})
	t.Run("survive a crash", func(t *testing.T) {
		x := reopenable(t, h)
		r := x.createClaimed("w")
		x.send(r.ID, signal("a"))
		x.send(r.ID, signal("b"))
		r = x.claimByID(r.ID)
		if err := x.Save(x.Context(), &runstore.Save{Run: r, Consumed: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		x.Store = h.Reopen(t, x.Store)
		x.send(r.ID, signal("a"))
		_, signals := x.load(r.ID)
		x.wantEqual("unread", signals, []runtype.Signal{signal("b")})
	})
}

func testMail(t *testing.T, h Harness) {
	t.Run("is delivered by the write that causes it", func(t *testing.T) {
		x := open(t, h)
		c := x.claimer()
		parent := x.createClaimed("w")
		x.wait(parent, time.Time{})
		child := x.createClaimed("w")
		child.Phase, child.EndedAt, child.Owner = runtype.Succeeded, testTime(9), ""
		err := x.Save(x.Context(), &runstore.Save{Run: child, Events: []runtype.Event{event(child, runtype.RunSucceeded)},
			Mail: []runstore.Mail{{To: parent.ID, Signal: signal("end")}, {To: "nobody", Signal: signal("end")}, {To: parent.ID, Signal: signal("end")}}})
		if err != nil {
			t.Fatal(err)
		}
		x.wantWake(c, parent.ID)
		claimed, err := c.Claim(x.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
		if err != nil || len(claimed.Runs) != 1 || claimed.Runs[0].Run.ID != parent.ID {
			t.Fatalf("claimed %d, %v: the parent is not due", len(claimed.Runs), err)
		}
		x.wantEqual("unread", ids(claimed.Runs[0].Signals), []string{"end"})
	})
	t.Run("to a finished run is not an error", func(t *testing.T) {
		x := open(t, h)
		gone, r := x.createClaimed("w"), x.createClaimed("w")
		x.endRun(gone)
		if err := x.Save(x.Context(), &runstore.Save{Run: r, Mail: []runstore.Mail{{To: gone.ID, Signal: signal("x")}}}); err != nil {
			t.Fatal(err)
		}
	})
}
