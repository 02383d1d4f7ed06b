package clusters_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// always are faults that last until the story is over, with what the cluster must reach all the same: all that was
// asked for, unless it says otherwise.
var always = []struct {
	name   string
	inject func(*life)
	blocks bool // what is asked for is reached only after the fault
}{
	{name: "a quota admits every second pod", inject: func(l *life) { l.Inject(sim.Fault{Kind: sim.FaultQuota, Object: "Pod"}) }},
	{name: "a cache is stale after each write", inject: func(l *life) { l.Inject(sim.Fault{Kind: sim.FaultStaleList, Lag: 10 * time.Second}) }},
	{name: "each third write conflicts", inject: func(l *life) {
		l.Before(func(e sim.Effect) error {
			if e.Number%3 == 0 && e.Verb == "Patch" {
				l.Inject(sim.Fault{Kind: sim.FaultConflict, Times: 1})
			}
			return nil
		})
	}},
	{name: "the status is late", inject: func(l *life) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusLate, Takes: 8 * time.Second})
	}},
	{name: "the status has processes twice", inject: func(l *life) { l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusDoubled}) }},
	{name: "the status has fields missing", blocks: true, inject: func(l *life) { l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusPartial}) }},
	{name: "the status is that of an hour ago", blocks: true, inject: func(l *life) { l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusStale}) }},
	{name: "no data move", blocks: true, inject: func(l *life) { l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStuckMovement}) }},
	{name: "each exclude hangs", blocks: true, inject: func(l *life) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultTimedOut, Command: "exclude", Before: true, For: 24 * time.Hour})
	}},
	{name: "each second reply is lost", inject: func(l *life) {
		calls := 0
		l.Before(func(e sim.Effect) error {
			if calls++; e.Verb == "Run" && calls%2 == 1 {
				l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultReplyLost, Command: string(e.Call.Command)})
			}
			return nil
		})
	}},
	{name: "each recovery is followed by another one", inject: func(l *life) {
		l.Before(func(e sim.Effect) error {
			if e.Verb == "Run" && (e.Call.Command == fdb.CommandKill || e.Call.Command == fdb.CommandConfigure) {
				l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultSecondRecovery})
			}
			return nil
		})
	}},
	{name: "no sidecar is reached", blocks: true, inject: func(l *life) { l.Inject(sim.Fault{Kind: sim.FaultSidecarSilent}) }},
	{name: "no Event is recorded", inject: func(l *life) { l.Inject(sim.Fault{Kind: sim.FaultEventLost}) }},
	{name: "a claim never binds", inject: func(l *life) {
		claims := 0
		l.Before(func(e sim.Effect) error {
			if e.Verb == "Create" && e.Kind == "PersistentVolumeClaim" {
				if claims++; claims == 1 {
					l.Inject(sim.Fault{Kind: sim.FaultClaimUnbound, Name: e.Name})
				}
			}
			return nil
		})
	}},
	{name: "a claim never goes", blocks: true, inject: func(l *life) {
		l.Inject(sim.Fault{Kind: sim.FaultClaimStuck, Object: "PersistentVolumeClaim"})
	}},
	{name: "the clock is an hour behind", blocks: true, inject: func(l *life) { l.skew = -time.Hour }},
	{name: "the clock is an hour ahead", blocks: true, inject: func(l *life) { l.skew = time.Hour }},
	{name: "a node is lost", blocks: true, inject: func(l *life) {
		l.lost = l.nodeOfPod(0)
		l.LoseNode(l.lost)
	}},
}

// disturbed is a settled cluster on which a client writes.
func disturbed(t tester) *life {
	l := begin(t, sim.Options{Nodes: 14}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.MinimumUptimeSecondsForBounce = 60
		c.Spec.AutomationOptions.Replacements.FailureDetectionTimeSeconds = new(600)
	})
	l.settle(time.Hour)
	l.writes(2*time.Second, "7.1.67", "7.3.69", "7.4.6")
	l.forgiving = true
	return l
}

// TestFaultsThatLast: a cluster grows, shrinks and gets a knob under a fault that does not end. Where that is
// possible all is reached; where it is not, nothing wrong is done, and all is reached when the fault ends.
func TestFaultsThatLast(t *testing.T) {
	for _, f := range always {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			l := disturbed(t)
			f.inject(l)
			l.edit(`{"spec":{"processCounts":{"storage":5,"log":3},"processes":{"general":{"customParameters":["knob_x=1"]}}}}`)
			if f.blocks {
				for until := l.Now().Add(time.Hour); l.Now().Before(until); {
					l.pass()
				}
			} else {
				l.settle(6 * time.Hour)
				l.has("storage", 5)
				l.has("log", 3)
			}
			l.skew = 0
			l.calm()
			l.settle(4 * time.Hour)
			l.forgiving = false
			l.settled()
			l.tidy()
			l.has("storage", 5)
			l.has("log", 3)
			l.kept()
		})
	}
}

// TestPairsOfFaults: each two accidents at the same time, while the cluster changes. All pairs in make test-fdb, each
// eighth otherwise.
func TestPairsOfFaults(t *testing.T) {
	kinds := kindsOf(accidents)
	n := 0
	for i, one := range kinds {
		for _, other := range kinds[i:] {
			if n++; n%8 != 0 && os.Getenv("PAWL_TEST_FDB") != "whole" {
				continue
			}
			t.Run(fmt.Sprintf("%s and %s", one, other), func(t *testing.T) {
				t.Parallel()
				script := fmt.Sprintf("storage 2 1; %s %d 2; %s %d 3; remove %d 2; knob 1 3; log 1 2", one, n, other, n/2, n)
				parse(t, script).runs(t, uint64(n))
			})
		}
	}
}
