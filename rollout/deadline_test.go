package rollout_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// hanging is a rollout of which a flow never ends, until it is let go.
func hanging(t *testing.T, kind rollout.HookType, plan rollout.Plan) (p *player, request func(rollout.Verb), letGo func()) {
	t.Helper()
	plan.RolloutWebhooks = []rollout.Hook{{Name: "slow", Type: kind, Flow: "slow"}}
	p, sim := forward(t, plan)
	run := ""
	sim.Answers = func(a rollout.Ask) rollout.Answer { return rollout.Answer{Run: run} }
	n := 0
	request = func(verb rollout.Verb) {
		n++
		sim.Wanted.Request = &rollout.Request{ID: string(rune('0' + n)), Verb: verb, By: "ann"}
	}
	return p, request, func() { run = "Succeeded"; sim.Answer(nil) }
}

// TestDeadlineOfTheBegin: the deadline of all counts while the initialize hooks are asked.
func TestDeadlineOfTheBegin(t *testing.T) {
	paused := func(p *player) bool { return p.at.Pause != nil }
	for _, then := range []rollout.OnFailure{rollout.OnFailurePause, rollout.OnFailureContinue} {
		p, request, letGo := hanging(t, rollout.InitializeHook, rollout.Plan{Deadline: seconds(30), OnFailure: then})
		p.until("a deadline", func() bool { return p.at.Waiting != nil && p.at.Waiting.Deadline != nil })
		p.until("a pause", func() bool { return paused(p) })
		if p.at.State != rollout.Initializing || p.at.Pause.By != rollout.ByDeadline || p.at.Pause.Reason != "BatchDeadline" {
			t.Fatalf("%s: it is %s, paused by %+v", then, p.at.State, p.at.Pause)
		}
		request(rollout.Retry) // the whole time anew
		p.until("no pause", func() bool { return !paused(p) })
		p.until("the next pause", func() bool { return paused(p) })
		request(rollout.Resume) // without a deadline
		p.until("no pause", func() bool { return !paused(p) })
		for range 60 {
			if p.pass(); paused(p) || p.at.Waiting.Deadline != nil {
				t.Fatalf("the deadline that was skipped acts: %+v, %+v", p.at.Pause, p.at.Waiting)
			}
		}
		letGo()
		p.ends(rollout.Succeeded)
	}
	p, _, _ := hanging(t, rollout.InitializeHook, rollout.Plan{Deadline: seconds(30), OnFailure: rollout.OnFailureRollback})
	p.ends(rollout.Failed)
	if p.at.Failure.Reason != "BatchDeadline" || p.at.Rollback != nil || p.revisions() != "r1 r1 r1 r1 r1" {
		t.Errorf("%+v, rollback %+v, %s", p.at.Failure, p.at.Rollback, p.revisions())
	}
}

// TestDeadlineOfTheEnd: it counts in finalising too, and pauses whatever onFailure says: all pods have moved.
func TestDeadlineOfTheEnd(t *testing.T) {
	for _, then := range []rollout.OnFailure{rollout.OnFailurePause, rollout.OnFailureRollback} {
		for _, verb := range []rollout.Verb{rollout.Retry, rollout.Resume} {
			p, request, letGo := hanging(t, rollout.FinalizeHook, rollout.Plan{Deadline: seconds(60), OnFailure: then})
			p.until("a pause", func() bool { return p.at.Pause != nil })
			if p.at.State != rollout.Finalising || p.at.Pause.By != rollout.ByDeadline {
				t.Fatalf("%s: it is %s, paused by %+v", then, p.at.State, p.at.Pause)
			}
			letGo()
			for range 5 {
				if p.pass(); p.at.State != rollout.Finalising {
					t.Fatalf("a paused rollout went on to %s", p.at.State)
				}
			}
			request(verb)
			p.ends(rollout.Succeeded)
		}
	}
}

// TestNoDeadlineCountsAnOutage: what one process has seen of it stays excused in the next, a pause does not
// excuse it twice, and a process that comes after the deadline has some time to work.
func TestNoDeadlineCountsAnOutage(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	five := 5
	stands := func(state rollout.State, change func(*rollout.Position)) rollout.Position {
		p := rollout.Position{
			State: state, BatchState: rollout.BatchVerifying, Mode: rollout.Rollout, Number: 1, OriginalSize: &five, TargetSize: &five, Started: &begin,
			TargetRevision: "new", SourceRevision: "old", TargetHash: "new", Batches: map[int]rollout.BatchPosition{0: {Size: 5, Target: 5, Start: &begin}},
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	minute := rollout.Duration(time.Minute)
	for _, test := range []struct {
		name        string
		plan        rollout.Plan
		at          rollout.Position
		unavailable time.Duration
		since       time.Duration // behind the begin; 0: unknown
		now         time.Duration
		until       time.Duration // behind the begin; 0: it is paused
	}{
		{"in time", rollout.Plan{BatchDeadline: &minute}, stands(rollout.InBatch, nil), 0, 0, 59 * time.Second, time.Minute},
		{"late", rollout.Plan{BatchDeadline: &minute}, stands(rollout.InBatch, nil), 0, 0, time.Minute, 0},
		{"an outage", rollout.Plan{BatchDeadline: &minute}, stands(rollout.InBatch, nil), 40 * time.Second, 0, 99 * time.Second, 100 * time.Second},
		{"an outage, and late", rollout.Plan{BatchDeadline: &minute}, stands(rollout.InBatch, nil), 40 * time.Second, 0, 100 * time.Second, 0},
		{"an outage of the whole", rollout.Plan{Deadline: &minute}, stands(rollout.InBatch, nil), 40 * time.Second, 0, 99 * time.Second, 100 * time.Second},
		{"the next process", rollout.Plan{BatchDeadline: &minute, Deadline: &minute}, stands(rollout.InBatch, func(p *rollout.Position) {
			p.Outage, p.Excused = rollout.Duration(40*time.Second), rollout.Duration(40*time.Second)
			p.Batches[0] = rollout.BatchPosition{Size: 5, Target: 5, Start: &begin, Excused: p.Excused}
		}), 40 * time.Second, 0, 99 * time.Second, 100 * time.Second},
		{"a rollback", rollout.Plan{Rollback: &rollout.RollbackPlan{Deadline: &minute}}, stands(rollout.RollingBack, func(p *rollout.Position) {
			p.Rollback = &rollout.RollbackPosition{Since: begin, Size: 5, Reverted: true}
		}), 40 * time.Second, 0, 99 * time.Second, 100 * time.Second},
		{"a process that comes late", rollout.Plan{BatchDeadline: &minute}, stands(rollout.InBatch, nil), 0, time.Hour, time.Hour, time.Hour + 30*time.Second},
		{"which is late too", rollout.Plan{BatchDeadline: &minute}, stands(rollout.InBatch, nil), 0, time.Hour, time.Hour + 30*time.Second, 0},
		{"a short deadline", rollout.Plan{BatchDeadline: seconds(5)}, stands(rollout.InBatch, nil), 0, time.Hour, time.Hour, time.Hour + 5*time.Second},
		{"a process that comes in time", rollout.Plan{BatchDeadline: &minute}, stands(rollout.InBatch, nil), 0, 10 * time.Second, 20 * time.Second, time.Minute},
		{"the whole", rollout.Plan{Deadline: &minute}, stands(rollout.InBatch, nil), 0, time.Hour, time.Hour, time.Hour + 30*time.Second},
	} {
		f := rollout.IdealFacts(rollout.StatefulSet, "db", 5, test.plan)
		f.Target.Held, f.Target.Anchored, f.Target.Partition = true, true, 0
		f.Target.Controller = &rollout.Owner{Name: "db", UID: f.Rollout.UID}
		f.Pods[0].Revision, f.Pods[0].Ready = "new", false
		if test.at.Rollback != nil {
			f.Target.Template, f.Target.UpdateRevision = "old", "old"
		}
		f.Unavailable = rollout.Duration(test.unavailable)
		if test.since > 0 {
			f.Since = at(test.since)
		}
		got := rollout.Next(test.plan, test.at, f, at(test.now)).Position
		switch w := got.Waiting; {
		case (got.Pause != nil) != (test.until == 0):
			t.Errorf("%s: paused by %+v, it waits for %+v", test.name, got.Pause, w)
		case test.until > 0 && (w == nil || w.Deadline == nil || !w.Deadline.Equal(at(test.until))):
			t.Errorf("%s: it waits for %+v", test.name, w)
		}
		if again := rollout.Next(test.plan, got, f, at(test.now)).Position; again.Excused != got.Excused {
			t.Errorf("%s: %s are excused, then %s", test.name, got.Excused, again.Excused)
		}
	}
	paused := stands(rollout.InBatch, func(p *rollout.Position) {
		p.Pause = &rollout.Pause{ID: "p", By: rollout.ByMetric, Reason: "MetricFailed", Since: begin}
	})
	f := rollout.IdealFacts(rollout.StatefulSet, "db", 5, rollout.Plan{})
	f.Unavailable = rollout.Duration(time.Minute)
	if got := rollout.Next(rollout.Plan{}, paused, f, at(time.Minute)).Position; got.Excused != 0 || got.Outage != f.Unavailable {
		t.Errorf("in a pause %s are excused, of %s", got.Excused, got.Outage)
	}
}
