package restores

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fdb/sim"
)

// story is two restores, one after the other, the second with a tag of the spec.
func story(w *world) (ends []string) {
	for _, name := range []string{"first", "second"} {
		r := sample(name)
		if name == "second" {
			r.Spec.Tag = "mine"
			w.clear()
		}
		w.make(r)
		w.run(name)
		s := w.restore(name).Status
		ends = append(ends, fmt.Sprint(s.Tag, s.State, s.Running, s.StartedAt != nil, s.CompletedAt != nil, w.condition(name, ReadyCondition), w.keys()))
	}
	return ends
}

// TestCrashPoints: the operator dies before or after each of its effects; each restore is started exactly once and comes
// to its end.
func TestCrashPoints(t *testing.T) {
	base := backedUp(t)
	want := story(base)
	if len(base.effects) < 6 {
		t.Fatalf("%v", base.effects)
	}
	for at := range base.effects {
		for _, after := range []bool{false, true} {
			w := backedUp(t)
			w.revives = true
			seen, struck := 0, ""
			w.crash = func(effect string, isAfter bool) bool {
				if isAfter == after {
					seen++
				}
				if isAfter != after || seen != at+1 || struck != "" {
					return false
				}
				struck = effect
				return true
			}
			got := story(w)
			if d := cmp.Diff(want, got); d != "" || struck == "" {
				t.Errorf("died after=%t effect %d, %q: %s", after, at+1, struck, d)
			}
			if n := w.did("start restore"); n != 2 {
				t.Errorf("died after=%t effect %d, %s: %d starts", after, at+1, struck, n)
			}
		}
	}
	t.Logf("%d effects: %v", len(base.effects), base.effects)
}

// TestLostReplies: after a lost reply the tag tells whether the restore has begun.
func TestLostReplies(t *testing.T) {
	want := story(backedUp(t))
	for _, f := range []sim.Fault{
		{Kind: sim.FaultReplyLost, Command: "start"}, {Kind: sim.FaultTimedOut, Command: "start"}, {Kind: sim.FaultTimedOut, Command: "start", Before: true},
		{Kind: sim.FaultReplyLost, Command: "status"}, {Kind: sim.FaultTimedOut, Command: "status"},
	} {
		t.Run(fmt.Sprintf("%s %s before=%t", f.Command, f.Kind, f.Before), func(t *testing.T) {
			w := backedUp(t)
			w.db.Inject(f)
			if d := cmp.Diff(want, story(w)); d != "" {
				t.Error(d)
			}
			starts := 2
			if f.Before {
				starts = 3 // the first one was not carried out
			}
			if n := w.did("start restore"); n != starts {
				t.Errorf("%d starts", n)
			}
		})
	}
}
