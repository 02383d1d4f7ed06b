package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// TestStandings: Rollouts are counted by state, those that stall, and the longest pause; one that is gone
// is not counted.
func TestStandings(t *testing.T) {
	now := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	held := rollout.Position{State: rollout.InBatch, BatchState: rollout.BatchReady, Waiting: &rollout.Waiting{Reason: heldReason, Since: ago(time.Minute)}}
	late := rollout.Position{State: rollout.InBatch, BatchState: rollout.BatchVerifying, Pause: &rollout.Pause{By: rollout.ByDeadline, Reason: "BatchDeadline", Since: ago(2 * time.Hour)}}
	done := rollout.Position{State: rollout.Succeeded}
	stands := func(name string, at rollout.Position) {
		m.stands(types.NamespacedName{Name: name}, reading{at: at, out: outcome.Done(), now: now}.standing())
	}
	expect := func(state string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(state), "pawl_rollout_rollouts", "pawl_rollout_stalled", "pawl_rollout_longest_pause_seconds"); err != nil {
			t.Error(err)
		}
	}
	stands("held", held)
	stands("late", late)
	stands("done", done)
	const heads = `
# HELP pawl_rollout_longest_pause_seconds How long the Rollout that is paused longest has been paused; 0: none is.
# TYPE pawl_rollout_longest_pause_seconds gauge
pawl_rollout_longest_pause_seconds PAUSE
# HELP pawl_rollout_rollouts Rollouts by state.
# TYPE pawl_rollout_rollouts gauge
pawl_rollout_rollouts{state="rollingInBatches"} BATCHES
pawl_rollout_rollouts{state="rolloutSucceed"} 1
# HELP pawl_rollout_stalled Rollouts that do not go on without a person.
# TYPE pawl_rollout_stalled gauge
pawl_rollout_stalled STALLED
`
	with := func(pause, batches, stalled string) string {
		return strings.NewReplacer("PAUSE", pause, "BATCHES", batches, "STALLED", stalled).Replace(heads)
	}
	expect(with("7200", "2", "1"))
	m.stands(types.NamespacedName{Name: "late"}, standing{})
	expect(with("60", "1", "0"))
	now = now.Add(time.Hour)
	expect(with("3660", "1", "0"))
	stands("held", done)
	expect(strings.Replace(with("0", "0", "0"), `"rolloutSucceed"} 1`, `"rolloutSucceed"} 2`, 1))
}

// TestExpiredHistory: the ConfigMap that leaves is the one whose records have all expired.
func TestExpiredHistory(t *testing.T) {
	for _, test := range []struct{ expired, first int }{{1, 1}, {20, 1}, {21, 21}, {40, 21}, {41, 41}} {
		if got := firstExpired(test.expired); got != test.first {
			t.Errorf("%d records have expired: %d, want %d", test.expired, got, test.first)
		}
	}
}
