package backups

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// story is the whole life of a backup: made, paused, resumed, with another period, stopped, started again, and deleted
// with all that it has written.
func story(w *world) (ends []string) {
	end := func() {
		s, b := w.state("default"), w.backup("orders")
		ends = append(ends, fmt.Sprintf("%s paused=%t period=%d %s %+v agents=%d finalizers=%v",
			s.State, s.Paused, s.SnapshotPeriodSeconds, w.condition("orders", ReadyCondition), b.Status.Generations, b.Status.AgentCount, b.Finalizers))
	}
	b := sample("orders")
	b.Spec.DeletionPolicy = v1beta2.BackupDeletionCleanup
	w.make(b)
	w.settle("orders")
	end()
	for _, change := range []func(*v1beta2.FoundationDBBackup){
		func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupPaused },
		func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupRunning },
		func(b *v1beta2.FoundationDBBackup) {
			b.Spec.SnapshotPeriodSeconds = new(7200)
			b.Spec.AgentCount = new(3)
		},
		func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupStopped },
		func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupRunning },
	} {
		w.edit("orders", change)
		w.settle("orders")
		end()
	}
	w.remove("orders")
	for range 10 {
		w.pass("orders")
		w.Advance(refusedWait)
	}
	return append(ends, fmt.Sprint(w.state("default").State), fmt.Sprint("there: ", w.there("orders"), w.agents()))
}

// revived runs a story in which the operator is started again whenever it has died.
func revived(t *testing.T, crash func(effect string, after bool) bool) (*world, []string) {
	w := newWorld(t)
	w.crash = crash
	w.revives = true
	return w, story(w)
}

// TestCrashPoints: the operator dies before or after each of its effects, and the backup comes to the same end, with
// no effect on the database that the story does not have.
func TestCrashPoints(t *testing.T) {
	base, want := revived(t, nil)
	if len(base.effects) < 15 {
		t.Fatalf("the story has only %d effects: %v", len(base.effects), base.effects)
	}
	for at := range base.effects {
		for _, after := range []bool{false, true} {
			seen, struck := 0, ""
			w, got := revived(t, func(effect string, isAfter bool) bool {
				if isAfter != after {
					return false
				}
				if seen++; seen != at+1 {
					return false
				}
				struck = effect
				return true
			})
			if struck == "" {
				t.Errorf("effect %d was not reached", at)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("died after=%t effect %d, %s: %s", after, at+1, struck, d)
			}
			for effect := range calls {
				if n := base.did(effect); w.did(effect) != n {
					t.Errorf("died after=%t effect %d, %s: %q %d times, not %d", after, at+1, struck, effect, w.did(effect), n)
				}
			}
		}
	}
	t.Logf("%d effects: %s", len(base.effects), strings.Join(base.effects, ", "))
}

// calls are the effects on the database that happen once whenever the operator dies.
var calls = map[string]bool{
	string(fdb.CommandStartBackup): true, string(fdb.CommandPauseBackups): true, string(fdb.CommandResumeBackups): true,
	string(fdb.CommandModifyBackup): true, string(fdb.CommandAbortBackup): true,
}

// TestLostReplies: the reply of each call is lost, before or after it was carried out; reading the backup again tells,
// and it comes to the same end.
func TestLostReplies(t *testing.T) {
	_, want := revived(t, nil)
	for _, word := range []string{"start", "pause", "resume", "modify", "discontinue", "abort", "delete", "status"} {
		for _, f := range []sim.Fault{
			{Kind: sim.FaultReplyLost, Command: word}, {Kind: sim.FaultTimedOut, Command: word}, {Kind: sim.FaultTimedOut, Command: word, Before: true},
		} {
			t.Run(fmt.Sprintf("%s %s before=%t", word, f.Kind, f.Before), func(t *testing.T) {
				w := newWorld(t)
				w.db.Inject(f)
				got := story(w)
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
				if w.did("start backup") > 3 {
					t.Errorf("%v", w.effects)
				}
			})
		}
	}
}
