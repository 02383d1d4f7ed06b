package clusters_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// troubles are what may be wrong with one group for ever. Each returns what ends it.
var troubles = []struct {
	name  string
	begin func(l *life, id v1beta2.ProcessGroupID) (end func())
}{
	{"its node is lost", func(l *life, id v1beta2.ProcessGroupID) func() {
		node := l.nodeOf(id)
		l.LoseNode(node)
		return func() { l.ReturnNode(node) }
	}},
	{"its pod is refused", func(l *life, id v1beta2.ProcessGroupID) func() {
		pod := l.podOf(id)
		l.Inject(sim.Fault{Kind: sim.FaultRefused, Verb: "Create", Object: "Pod", Name: pod})
		l.Evict(namespace, pod)
		return func() { l.Clear(sim.FaultRefused) }
	}},
	{"its claim does not go", func(l *life, id v1beta2.ProcessGroupID) func() {
		l.Inject(sim.Fault{Kind: sim.FaultClaimStuck, Name: l.podOf(id) + "-data"})
		l.edit(fmt.Sprintf(`{"spec":{"processGroupsToRemove":[%q]}}`, id))
		return func() { l.Clear(sim.FaultClaimStuck) }
	}},
	{"its pod waits for a volume", func(l *life, id v1beta2.ProcessGroupID) func() {
		pod := l.podOf(id)
		l.Inject(sim.Fault{Kind: sim.FaultClaimUnbound, Name: pod + "-data"})
		l.DeleteClaim(namespace, pod+"-data")
		l.Evict(namespace, pod)
		return func() { l.Clear(sim.FaultClaimUnbound) }
	}},
}

// TestStuckGroup: whatever is wrong with one group, all others become what the spec says, and once the trouble has
// ended, that one does too.
func TestStuckGroup(t *testing.T) {
	changes := []struct{ name, patch string }{
		{"grow", `{"spec":{"processCounts":{"storage":7,"log":5,"stateless":5}}}`},
		{"shrink", `{"spec":{"processCounts":{"storage":4,"log":4}}}`},
		{"knob", `{"spec":{"processes":{"general":{"customParameters":["knob_disable_posix_kernel_aio=1"]}}}}`},
		{"compatible upgrade", `{"spec":{"version":"7.3.79"}}`},
		{"incompatible upgrade", `{"spec":{"version":"7.4.6"}}`},
	}
	for i, trouble := range troubles {
		for j, change := range changes {
			if crashStep(t) > 1 && (i+j)%4 != 0 {
				continue
			}
			t.Run(trouble.name+"/"+change.name, func(t *testing.T) {
				t.Parallel()
				l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
					c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 5, "log": 5, "stateless": 4}
					c.Spec.MinimumUptimeSecondsForBounce = 60
					c.Spec.AutomationOptions.Replacements.Enabled = new(false)
				})
				l.settle(time.Hour)
				l.writes(2*time.Second, "7.1.67", "7.3.69", "7.4.6")
				id := l.first("storage")
				end := trouble.begin(l, id)
				for range 20 {
					l.pass()
				}
				l.edit(change.patch)
				for until := l.Now().Add(4 * time.Hour); len(l.unlike(id)) > 0; l.pass() {
					if l.Now().After(until) {
						l.fail("%s holds back %v", id, l.unlike(id))
					}
				}
				end()
				// Coordinators may have changed while it was away, so that its cluster file leads nowhere.
				l.edit(`{"spec":{"automationOptions":{"replacements":{"enabled":true,"failureDetectionTimeSeconds":600}}}}`)
				l.settle(4 * time.Hour)
				l.settled()
				l.tidy()
				l.kept()
			})
		}
	}
}

// unlike are the groups but one that are not what they should be, and the classes of which there are too few or
// too many.
func (l *life) unlike(but v1beta2.ProcessGroupID) (wrong []string) {
	c := l.cluster()
	for _, g := range c.Status.ProcessGroups {
		if g.ProcessGroupID != but && (g.Marked() || !g.Has(v1beta2.ProcessGroupConditionReady)) {
			wrong = append(wrong, string(g.ProcessGroupID))
		}
	}
	if c.Status.ObservedGeneration != c.Generation || c.Status.Generations.NeedsGrow != 0 || c.Status.Generations.NeedsConfigurationChange != 0 {
		wrong = append(wrong, "the cluster")
	}
	return wrong
}
