package foundationdb

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// failedFor is a group with a condition of some age at the time 100,000.
func failedFor(id, zone string, kind v1beta2.ProcessGroupConditionType, age int64) v1beta2.ProcessGroupStatus {
	return v1beta2.ProcessGroupStatus{
		ProcessGroupID: v1beta2.ProcessGroupID(id), ProcessClass: "storage", FaultDomain: zone, Addresses: []string{"10.0.0.1"},
		ProcessGroupConditions: []v1beta2.ProcessGroupCondition{{Type: "IncorrectConfigMap", Timestamp: 1}, {Type: kind, Timestamp: 100_000 - age}},
	}
}

var replaceNow = time.Unix(100_000, 0)

func TestReplaceFailed(t *testing.T) {
	type groups = []v1beta2.ProcessGroupStatus
	with := func(g v1beta2.ProcessGroupStatus, change func(g *v1beta2.ProcessGroupStatus)) v1beta2.ProcessGroupStatus {
		change(&g)
		return g
	}
	going := func(g *v1beta2.ProcessGroupStatus) { g.RemovalTimestamp = at(1) }
	gone := func(g *v1beta2.ProcessGroupStatus) { going(g); g.ExclusionTimestamp = at(1) }
	nowhere := func(g *v1beta2.ProcessGroupStatus) { g.Addresses = nil }
	one := failedFor("storage-1", "a", "PodFailing", 7201)
	healthy := ReplaceFacts{Available: true, FullFaultTolerance: true}
	const ipOnly = "automationOptions: {useLocalitiesForExclusion: false}"
	const taints = "taintReplacementOptions: [{key: '*', durationInSeconds: 1}]"
	for _, x := range []struct {
		name, spec string
		facts      ReplaceFacts
		groups     groups
		want       string // marked, skipped, more
	}{
		{"older than 7200 s", ``, healthy, groups{one}, "[storage-1] [] false"},
		{"not older than 7200 s", ``, healthy, groups{failedFor("storage-1", "a", "PodFailing", 7200)}, "[] [] false"},
		{"the spec waits longer", `automationOptions: {replacements: {failureDetectionTimeSeconds: 7201}}`, healthy, groups{one}, "[] [] false"},
		{"the spec does not wait", `automationOptions: {replacements: {failureDetectionTimeSeconds: 0}}`, healthy, groups{failedFor("storage-1", "a", "PodFailing", 1)}, "[storage-1] [] false"},
		{"a healthy group", ``, healthy, groups{failedFor("storage-1", "a", "IncorrectPodSpec", 90_000)}, "[] [] false"},
		{"unavailable", ``, ReplaceFacts{FullFaultTolerance: true}, groups{one}, "[] [] false"},
		{"not wanted", `automationOptions: {replacements: {enabled: false}}`, healthy, groups{one}, "[] [] false"},
		{"never", `automationOptions: {replacements: {maxConcurrentReplacements: 0}}`, healthy, groups{one}, "[] [] false"},
		{"no servers on purpose", `buggify: {emptyMonitorConf: true}`, healthy, groups{one}, "[] [] false"},
		{"CrashLoops on purpose", `buggify: {crashLoopContainers: [{containerName: x, targets: [log-1]}, {containerName: foundationdb, targets: [storage-1]}, {containerName: y}]}`, healthy, groups{one}, "[] [] false"},
		{"CrashLoops on purpose, in the old field", `buggify: {crashLoop: [storage-1]}`, healthy, groups{one}, "[] [] false"},
		{"all crash on purpose", `buggify: {crashLoopContainers: [{containerName: x, targets: ["*"]}]}`, healthy, groups{one}, "[] [] false"},
		{"another CrashLoops on purpose", `buggify: {crashLoop: [storage-11]}`, healthy, groups{one}, "[storage-1] [] false"},
		{"storage under maintenance", ``, ReplaceFacts{Available: true, MaintenanceZone: "a"}, groups{one}, "[] [] false"},
		{"another zone under maintenance", ``, ReplaceFacts{Available: true, MaintenanceZone: "b"}, groups{one}, "[storage-1] [] false"},
		{"a log under maintenance", ``, ReplaceFacts{Available: true, MaintenanceZone: "a"}, groups{with(one, func(g *v1beta2.ProcessGroupStatus) { g.ProcessClass = "log" })}, "[storage-1] [] false"},
		{"servers that do not report, in an upgrade", ``, ReplaceFacts{Available: true, Upgrading: true}, groups{failedFor("storage-1", "a", "MissingProcesses", 8000)}, "[] [] false"},
		{"servers that report, in an upgrade", ``, ReplaceFacts{Available: true, Upgrading: true}, groups{failedFor("storage-1", "a", "SidecarUnreachable", 8000)}, "[storage-1] [] false"},
		{"marked already", ``, healthy, groups{with(one, going)}, "[] [] false"},

		{"the budget is 1", ``, healthy, groups{one, failedFor("storage-2", "a", "MissingPod", 8000), failedFor("storage-3", "b", "MissingPod", 9000)}, "[storage-1] [] true"},
		{"the budget is 2", `automationOptions: {replacements: {maxConcurrentReplacements: 2}}`, healthy,
			groups{one, failedFor("storage-2", "a", "MissingPod", 8000)}, "[storage-1 storage-2] [] false"},
		{"a marked group uses it", ``, healthy, groups{with(failedFor("storage-9", "z", "PodFailing", 1), going), one}, "[] [] true"},
		{"a marked and excluded group does not", ``, healthy, groups{with(failedFor("storage-9", "z", "PodFailing", 1), gone), one}, "[storage-1] [] false"},

		{"one zone", `automationOptions: {replacements: {faultDomainBasedReplacements: true}}`, healthy,
			groups{one, failedFor("storage-2", "b", "MissingPod", 8000), failedFor("storage-3", "a", "MissingPod", 8000), failedFor("storage-4", "b", "MissingPod", 8000)},
			"[storage-1 storage-3] [] true"},
		{"the zone of a marked group", `automationOptions: {replacements: {faultDomainBasedReplacements: true}}`, healthy,
			groups{one, with(failedFor("storage-9", "b", "PodFailing", 1), going), failedFor("storage-4", "b", "MissingPod", 8000)}, "[storage-4] [] true"},
		{"no zone is no common zone", `automationOptions: {replacements: {faultDomainBasedReplacements: true}}`, healthy,
			groups{failedFor("storage-1", "", "MissingPod", 8000), failedFor("storage-2", "", "MissingPod", 8000)}, "[storage-1] [] true"},

		{"no address, but a locality", ``, healthy, groups{with(one, nowhere)}, "[storage-1] [] false"},
		{"no address and no locality", ipOnly, healthy, groups{with(one, nowhere)}, "[storage-1] [storage-1] false"},
		{"no address in an old version", `version: 7.1.41`, healthy, groups{with(one, nowhere)}, "[storage-1] [storage-1] false"},
		{"no address in a version with localities", `version: 7.1.42`, healthy, groups{with(one, nowhere)}, "[storage-1] [] false"},
		{"no address, and replicas are missing", ipOnly, ReplaceFacts{Available: true}, groups{with(one, nowhere), failedFor("storage-2", "b", "PodFailing", 8000)}, "[storage-2] [] false"},

		{"taints do not count by default", ``, healthy, groups{failedFor("storage-1", "a", "NodeTaintReplacing", 90_000)}, "[] [] false"},
		{"a taint older than 1800 s", `automationOptions: {replacements: {` + taints + `}}`, healthy, groups{failedFor("storage-1", "a", "NodeTaintReplacing", 1801)}, "[storage-1] [] false"},
		{"a taint not older than 1800 s", `automationOptions: {replacements: {` + taints + `}}`, healthy, groups{failedFor("storage-1", "a", "NodeTaintReplacing", 1800)}, "[] [] false"},
		{"the spec waits longer for taints", `automationOptions: {replacements: {taintReplacementTimeSeconds: 1801, ` + taints + `}}`, healthy, groups{failedFor("storage-1", "a", "NodeTaintReplacing", 1801)}, "[] [] false"},
		{"a detected taint is none yet", `automationOptions: {replacements: {` + taints + `}}`, healthy, groups{failedFor("storage-1", "a", "NodeTaintDetected", 90_000)}, "[] [] false"},
		{"two tainted zones of two", `automationOptions: {replacements: {` + taints + `}}`, healthy,
			groups{failedFor("storage-1", "a", "NodeTaintReplacing", 90_000), failedFor("storage-2", "b", "NodeTaintReplacing", 90_000)}, "[] [] false"},
		{"two tainted zones, and the spec allows two", `automationOptions: {replacements: {maxConcurrentReplacements: 9, maxFaultDomainsWithTaintedProcessGroups: 2, ` + taints + `}}`, healthy,
			groups{failedFor("storage-1", "a", "NodeTaintReplacing", 90_000), failedFor("storage-2", "b", "NodeTaintReplacing", 90_000)}, "[storage-1 storage-2] [] false"},
		{"another failure of a tainted group counts", ``, healthy,
			groups{with(one, func(g *v1beta2.ProcessGroupStatus) {
				g.ProcessGroupConditions = append(g.ProcessGroupConditions, v1beta2.ProcessGroupCondition{Type: "NodeTaintReplacing", Timestamp: 1})
			})}, "[storage-1] [] false"},
	} {
		c := clusterOf(t, ``)
		c.Spec, c.Status.RunningVersion = specOf(t, x.spec), ""
		c.Status.ProcessGroups = x.groups
		before := c.DeepCopy()
		r := ReplaceFailed(c, x.facts, replaceNow)
		if got := fmt.Sprint(r.Marked, r.Skipped, r.More); got != x.want {
			t.Errorf("%s: %s, expected %s", x.name, got, x.want)
		}
		equal(t, x.name+", the object", c, before)
	}
}

// TestFailures: exactly these conditions replace a group. Flaw 9: ProcessHasHighRunLoopBusy is none of them.
func TestFailures(t *testing.T) {
	all := []v1beta2.ProcessGroupConditionType{
		"IncorrectPodSpec", "IncorrectPodMetadata", "IncorrectConfigMap", "IncorrectCommandLine", "IncorrectSidecarImage", "PodFailing", "PodPending", "ResourcesTerminating",
		"MissingPod", "MissingPVC", "MissingService", "MissingProcesses", "SidecarUnreachable", "NodeTaintDetected", "NodeTaintReplacing", "ProcessIsMarkedAsExcluded",
		"ProcessHasIOError", "ProcessHasHighRunLoopBusy", "Ready",
	}
	var replaced []v1beta2.ProcessGroupConditionType
	for _, kind := range all {
		c := clusterOf(t, `spec: {automationOptions: {replacements: {taintReplacementOptions: [{key: a, durationInSeconds: 1}]}}}`)
		c.Status.ProcessGroups = []v1beta2.ProcessGroupStatus{failedFor("storage-1", "a", kind, 90_000)}
		if r := ReplaceFailed(c, ReplaceFacts{Available: true}, replaceNow); len(r.Marked) == 1 {
			replaced = append(replaced, kind)
		}
	}
	equal(t, "conditions that replace", replaced, []v1beta2.ProcessGroupConditionType{
		"PodFailing", "PodPending", "MissingPod", "MissingPVC", "MissingService", "MissingProcesses", "SidecarUnreachable", "NodeTaintReplacing", "ProcessIsMarkedAsExcluded", "ProcessHasIOError",
	})
}

func TestTaintBudget(t *testing.T) {
	for _, x := range []struct {
		most    *intstr.IntOrString
		domains int
		want    int
	}{
		{nil, 0, 1}, {nil, 9, 1}, {nil, 10, 1}, {nil, 19, 1}, {nil, 20, 2}, {nil, 29, 2}, {nil, 30, 3},
		{percent("50%"), 3, 1}, {percent("50%"), 4, 2}, {percent("0%"), 100, 1}, {percent("100%"), 7, 7},
		{number(0), 100, 1}, {number(-3), 100, 1}, {number(5), 3, 5},
		{percent("many"), 100, 0}, {percent("10"), 100, 0},
	} {
		s := v1beta2.FoundationDBClusterSpec{}
		s.AutomationOptions.Replacements.MaxFaultDomainsWithTaintedProcessGroups = x.most
		equal(t, fmt.Sprint(x.most, " of ", x.domains), TaintBudget(s, x.domains), x.want)
	}
}

func percent(text string) *intstr.IntOrString { v := intstr.FromString(text); return &v }

func number(n int) *intstr.IntOrString { v := intstr.FromInt(n); return &v }

// TestReplacementBudget: what is marked before and after never exceeds the budget, no group is marked that has not
// failed, and the rest is told.
func TestReplacementBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &v1beta2.FoundationDBCluster{}
		c.Spec.Version = "7.3.69"
		most, byZone := rapid.IntRange(0, 4).Draw(t, "most"), rapid.Bool().Draw(t, "by zone")
		r := &c.Spec.AutomationOptions.Replacements
		r.MaxConcurrentReplacements, r.FaultDomainBasedReplacements = &most, &byZone
		for i := range rapid.IntRange(0, 9).Draw(t, "groups") {
			age := rapid.Int64Range(7199, 7202).Draw(t, "age")
			g := failedFor(fmt.Sprintf("storage-%d", i+1), rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "zone"), "PodFailing", age)
			if rapid.Bool().Draw(t, "marked") {
				g.RemovalTimestamp = at(1)
				g.ExclusionSkipped = rapid.Bool().Draw(t, "excluded")
			}
			c.Status.ProcessGroups = append(c.Status.ProcessGroups, g)
		}
		got := ReplaceFailed(c, ReplaceFacts{Available: true}, replaceNow)
		before, after, rest := map[string]bool{}, map[string]bool{}, false
		for _, g := range c.Status.ProcessGroups {
			key := string(g.ProcessGroupID)
			if byZone {
				key = g.FaultDomain
			}
			old := g.ProcessGroupConditions[1].Timestamp < 100_000-7200
			chosen := slices.Contains(got.Marked, g.ProcessGroupID)
			if chosen && (!old || g.RemovalTimestamp != nil) {
				t.Fatalf("%s is marked", g.ProcessGroupID)
			}
			if g.RemovalTimestamp != nil && !g.ExclusionSkipped {
				before[key], after[key] = true, true
			}
			if chosen {
				after[key] = true
			}
			rest = rest || old && !chosen && g.RemovalTimestamp == nil
		}
		if len(after) > max(most, len(before)) {
			t.Fatalf("%d replacements at once, at most %d", len(after), most)
		}
		if most > 0 && got.More != rest {
			t.Fatalf("more: %v, but others have failed: %v", got.More, rest)
		}
		if rest && most > 0 && len(after) < most {
			t.Fatalf("%d replacements at once while others have failed, at most %d", len(after), most)
		}
	})
}
