package clusters_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// settled checks that a cluster that is as it should be is left alone.
func (l *life) settled() {
	l.t.Helper()
	for quiet, n := 0, 0; quiet < 2 && n < 60; n++ { // data still move, which the status tells
		before := l.Effects()
		if out := l.pass(); !out.IsDone() {
			l.fail("%s", out)
		}
		if quiet++; l.Effects() != before {
			quiet = 0
		}
	}
	mark := l.Cluster().Mark()
	before := l.Effects()
	for range 3 {
		if out := l.pass(); !out.IsDone() {
			l.fail("%s", out)
		}
	}
	if n := l.Effects() - before; n != 0 {
		l.fail("%d effects on a settled cluster", n)
	}
	l.Cluster().JudgeSettled(mark)
	if v := l.violations(); len(v) > 0 {
		l.fail("invariant %s", v[0])
	}
}

// counts are the numbers of groups by class.
func (l *life) counts() map[v1beta2.ProcessClass]int {
	counts := map[v1beta2.ProcessClass]int{}
	for _, g := range l.cluster().Status.ProcessGroups {
		counts[g.ProcessClass]++
	}
	return counts
}

// kept checks that every key that the client was told to be there is there.
func (l *life) kept() {
	l.t.Helper()
	w := l.Cluster().Written("192.0.2.1:4000")
	if len(w.Missing) > 0 || w.Acknowledged == 0 {
		l.fail("%d keys acknowledged, %d missing", w.Acknowledged, len(w.Missing))
	}
	l.t.Logf("%d keys acknowledged, longest gap %s, %d recoveries caused, %d passes until %s", w.Acknowledged, w.Gap, l.Cluster().CausedRecoveries(), l.passes, l.Now().Format(time.TimeOnly))
}

// story is a change to a settled cluster, and what must be true afterwards.
type story struct {
	name       string
	options    sim.Options
	make       func(*v1beta2.FoundationDBCluster)
	change     func(*life)
	limit      time.Duration
	recoveries int // that the operator causes, at most
	check      func(*life)
}

func runs(version string) func(*life) {
	return func(l *life) {
		l.t.Helper()
		if c := l.cluster(); c.Status.RunningVersion != version {
			l.fail("it runs %s", c.Status.RunningVersion)
		}
	}
}

var stories = []story{
	{name: "create", change: func(*life) {}},
	{
		name: "grow", change: func(l *life) { l.edit(`{"spec":{"processCounts":{"storage":5}}}`) },
		check: func(l *life) { l.has("storage", 5) },
	},
	{
		name: "shrink", make: func(c *v1beta2.FoundationDBCluster) {
			c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 6}
		},
		change: func(l *life) { l.edit(`{"spec":{"processCounts":{"storage":4}}}`) },
		check:  func(l *life) { l.has("storage", 4) },
	},
	{
		name: "shrink logs", change: func(l *life) { l.edit(`{"spec":{"processCounts":{"log":3}}}`) }, recoveries: 2,
		check: func(l *life) { l.has("log", 3) },
	},
	{
		name: "replace by list", change: func(l *life) { l.edit(fmt.Sprintf(`{"spec":{"processGroupsToRemove":[%q]}}`, l.first("storage"))) }, recoveries: 1,
		check: func(l *life) { l.has("storage", 3) },
	},
	{
		name: "replace failed", change: func(l *life) {
			l.edit(`{"spec":{"automationOptions":{"replacements":{"failureDetectionTimeSeconds":300}}}}`)
			l.settle(time.Hour)
			node := l.nodeOf(l.first("storage"))
			l.LoseNode(node)
			for until := l.Now().Add(30 * time.Minute); l.Now().Before(until); {
				l.pass()
			}
			l.has("storage", 4) // the one that is lost, and its successor
			l.ReturnNode(node)
		},
		limit: 3 * time.Hour, recoveries: 1,
		check: func(l *life) { l.has("storage", 3) },
	},
	{
		name: "knob", change: func(l *life) {
			l.edit(`{"spec":{"processes":{"general":{"customParameters":["knob_disable_posix_kernel_aio=1"]}}}}`)
		}, recoveries: 1,
	},
	{
		name: "configuration", change: func(l *life) { l.edit(`{"spec":{"databaseConfiguration":{"logs":4,"storage_engine":"ssd-2"}}}`) }, recoveries: 1,
	},
	{
		name: "triple and back", change: func(l *life) {
			l.edit(`{"spec":{"databaseConfiguration":{"redundancy_mode":"triple"}}}`)
			l.settle(3 * time.Hour)
			if n := len(l.Cluster().Connection().Coordinators); n != 5 {
				l.fail("%d coordinators", n)
			}
			l.edit(`{"spec":{"databaseConfiguration":{"redundancy_mode":"double"}}}`)
		},
		limit: 3 * time.Hour, recoveries: 6,
		check: func(l *life) {
			if n := len(l.Cluster().Connection().Coordinators); n != 3 {
				l.fail("%d coordinators", n)
			}
		},
	},
	{
		name: "compatible upgrade", change: func(l *life) { l.edit(`{"spec":{"version":"7.3.79"}}`) }, limit: 6 * time.Hour, recoveries: 20, check: runs("7.3.79"),
	},
	{
		name: "incompatible upgrade", change: func(l *life) { l.edit(`{"spec":{"version":"7.4.6"}}`) }, limit: 6 * time.Hour, recoveries: 20, check: runs("7.4.6"),
	},
	{
		name: "incompatible upgrade of the split image", make: split, change: func(l *life) { l.edit(`{"spec":{"version":"7.4.6"}}`) }, limit: 6 * time.Hour, recoveries: 20, check: runs("7.4.6"),
	},
	{
		name: "coordinators crash before the restart of an upgrade", make: restartWaits, change: func(l *life) { l.coordinatorsCrash(2) },
		limit: 8 * time.Hour, recoveries: 20, check: runs("7.4.6"),
	},
	{
		name: "TLS", change: func(l *life) { l.edit(`{"spec":{"mainContainer":{"enableTls":true}}}`) }, limit: 6 * time.Hour, recoveries: 20,
		check: func(l *life) {
			for _, a := range l.Cluster().Connection().Coordinators {
				if !a.TLS {
					l.fail("coordinator %s", a)
				}
			}
		},
	},
	{
		name: "names off and on", change: func(l *life) {
			l.edit(`{"spec":{"routing":{"useDNSInClusterFile":false}}}`)
			l.settle(6 * time.Hour)
			l.edit(`{"spec":{"routing":{"useDNSInClusterFile":true}}}`)
		},
		limit: 6 * time.Hour, recoveries: 40,
	},
	{
		name: "split and back", change: func(l *life) {
			l.edit(`{"spec":{"imageType":"split"}}`)
			l.settle(8 * time.Hour)
			l.edit(`{"spec":{"imageType":"unified"}}`)
		},
		limit: 8 * time.Hour, recoveries: 40,
	},
}

func split(c *v1beta2.FoundationDBCluster) { c.Spec.ImageType = v1beta2.ImageTypeSplit }

func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, s.options, s.make)
			l.settle(30 * time.Minute)
			l.writes(200*time.Millisecond, "7.1.67", "7.3.69", "7.4.6")
			before := l.Cluster().CausedRecoveries()
			s.change(l)
			l.settle(max(s.limit, time.Hour))
			s.ended(l)
			if n := l.Cluster().CausedRecoveries() - before; n > s.recoveries {
				l.fail("%d recoveries caused, at most %d", n, s.recoveries)
			}
		})
	}
}

// ended checks what must be true at the end of a story.
func (s story) ended(l *life) {
	l.t.Helper()
	l.settled()
	l.tidy()
	if s.check != nil {
		s.check(l)
	}
	l.kept()
}

// tidy checks that nothing is left over: each child belongs to a group, each group has its children, nothing is
// excluded, and nobody holds the lock or waits for an upgrade.
func (l *life) tidy() {
	l.t.Helper()
	c := l.cluster()
	groups := map[string]bool{}
	for _, g := range c.Status.ProcessGroups {
		groups[string(g.ProcessGroupID)] = true
	}
	ctx, objects := context.Background(), l.As("").Objects
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	var services corev1.ServiceList
	for _, list := range []runtime.Object{&pods, &claims, &services} {
		if err := objects.List(ctx, list, namespace, nil); err != nil {
			l.t.Fatal(err)
		}
	}
	var left []string
	orphan := func(kind string, o port.Object) {
		if id := o.GetLabels()[foundationdb.GroupLabel]; !groups[id] && (kind != "service" || o.GetName() != l.name) {
			left = append(left, kind+" "+o.GetName())
		}
	}
	for i := range pods.Items {
		orphan("pod", &pods.Items[i])
	}
	for i := range claims.Items {
		orphan("claim", &claims.Items[i])
	}
	for i := range services.Items {
		orphan("service", &services.Items[i])
	}
	for _, excluded := range l.Cluster().Exclusions() {
		left = append(left, "exclusion "+excluded)
	}
	if len(left) > 0 || len(pods.Items) != len(groups) {
		l.fail("%d pods of %d groups; left over: %v", len(pods.Items), len(groups), left)
	}
}

func (l *life) has(class v1beta2.ProcessClass, n int) {
	l.t.Helper()
	if have := l.counts()[class]; have != n {
		l.fail("%d groups of class %s", have, class)
	}
}

// first is the first group of a class.
func (l *life) first(class fdb.Class) v1beta2.ProcessGroupID {
	l.t.Helper()
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.ProcessClass == v1beta2.ProcessClass(class) {
			return g.ProcessGroupID
		}
	}
	l.fail("no group of class %s", class)
	return ""
}

func (l *life) nodeOf(id v1beta2.ProcessGroupID) string {
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.ProcessGroupID == id {
			return g.FaultDomain
		}
	}
	return ""
}

// What the creation of a cluster costs.
func TestCallsOfACreation(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	calls := l.Calls()
	keys := slices.SortedFunc(maps.Keys(calls), func(a, b sim.Call) int { return calls[b] - calls[a] })
	for _, k := range keys {
		t.Log(k.Verb, k.Kind, calls[k])
	}
	t.Logf("%d passes, %d writes", l.passes, l.Writes())
}
