package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
)

// TestPodsThatGoFirst: which pods a release of a CloneSet names, and what it waits for.
func TestPodsThatGoFirst(t *testing.T) {
	pods := func(edit ...func([]rollout.Pod)) []rollout.Pod {
		var all []rollout.Pod
		for i, role := range []string{"replica", "leader", "replica", "replica"} {
			all = append(all, rollout.Pod{Name: fmt.Sprint("db-", i), UID: fmt.Sprint(i), Ordinal: -1, Revision: "r1", Ready: true, Role: role, Labels: map[string]string{"app": "db"}})
		}
		for _, e := range edit {
			e(all)
		}
		return all
	}
	updated := func(i int) func([]rollout.Pod) { return func(p []rollout.Pod) { p[i].Revision = "r2" } }
	down := func(i int) func([]rollout.Pod) { return func(p []rollout.Pod) { p[i].Ready = false } }
	order := rollout.Plan{NumBatches: new(1), Order: &rollout.Order{RoleLabel: "role", Roles: []string{"replica", "leader"}, Handover: &rollout.Handover{Exec: &rollout.ExecProbe{Command: []string{"x"}}}}}
	named := rollout.Plan{RolloutBatches: []rollout.Batch{{PodList: []string{"db-2"}}, {}}}
	budget := rollout.Plan{NumBatches: new(1), Disruption: &rollout.Disruption{MaxUnavailable: rollout.Int(1)}}
	for _, test := range []struct {
		name      string
		plan      rollout.Plan
		partition int
		first     []string
		priority  bool
		pods      []rollout.Pod
		want      string
	}{
		{"a replica before the leader", order, rollout.HoldAll, nil, false, pods(), "[db-0] 3"},
		{"a replica that is away before the others", order, rollout.HoldAll, nil, false, pods(down(3)), "[db-3] 3"},
		{"the next beside one that has not gone", order, 3, []string{"db-0"}, false, pods(), "[db-0 db-2] 2"},
		{"one that has gone is not named again", order, 3, []string{"db-0"}, false, pods(updated(0)), "[db-2] 2"},
		{"the leader is handed over first", order, 1, []string{"db-3"}, false, pods(updated(0), updated(2), updated(3)), "HandoverPending"},
		{"the leader waits for a replica that has not gone", order, 1, []string{"db-3"}, false, pods(updated(0), updated(2)), "PodsNotGone"},
		{"names that somebody took away come back before more is released", order, 3, nil, false, pods(), "[db-0] 3"},
		{"a batch names its pod", named, rollout.HoldAll, nil, false, pods(), "[db-2] 3"},
		{"another takes the place of one that is gone", named, rollout.HoldAll, nil, false, pods(func(p []rollout.Pod) { p[2].Name = "db-9" }), "[db-0] 3"},
		{"a budget names a pod", budget, rollout.HoldAll, nil, false, pods(), "[db-0] 3"},
		{"and waits until it is back", budget, 3, []string{"db-0"}, false, pods(), "MaxUnavailable"},
		{"a pod that is away may always go", budget, rollout.HoldAll, nil, false, pods(down(2)), "[db-2] 3"},
		{"the order of the user stands beside a budget", budget, rollout.HoldAll, nil, true, pods(), "[] 3"},
		{"and the worst case is reckoned with", budget, 3, nil, true, pods(), "MaxUnavailable"},
	} {
		target := rollout.WorkloadFacts{
			Kind: rollout.CloneSet, Name: "db", UID: "w", Generation: 1, ObservedGeneration: 1, Replicas: 4, StatusReplicas: 4, Partition: test.partition, UpdateType: rollout.RollingUpdate,
			Template: "r2", CurrentRevision: "r1", UpdateRevision: "r2", First: test.first, Priority: test.priority || test.first != nil, Strategy: `{"partition":"100%"}`,
		}
		f := rollout.Facts{Now: time.Unix(1000, 0), Target: &target, Pods: test.pods, Rollout: rollout.Identity{UID: "r"}, Wanted: rollout.Wanted{Kind: rollout.CloneSet}}
		at := rollout.Position{State: rollout.InBatch, BatchState: rollout.BatchInRolling, Mode: rollout.Rollout, OriginalSize: new(4), TargetSize: new(4), TargetHash: "r2", TargetRevision: "r2", SourceHash: "r1"}
		rules, err := rollout.RulesOf(rollout.CloneSet, rollout.Rollout)
		if err != nil {
			t.Fatal(err)
		}
		v := rules.RolloutOneBatchPods(test.plan, at, f)
		got := v.Outcome.Reason()
		if len(v.Acts) == 1 {
			got = fmt.Sprintf("%v %d", v.Acts[0].First, *v.Acts[0].Partition)
			if v.Acts[0].First != nil && (v.Position.Original == nil || v.Position.Original.Strategy == "") {
				t.Errorf("%s: the strategy is not recorded before it is changed", test.name)
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, expected %s (%+v)", test.name, got, test.want, v)
		}
	}
}

// TestChosenPodsThatCannotBe: what no CloneSet and no scale can choose.
func TestChosenPodsThatCannotBe(t *testing.T) {
	set := func(ordinals ...string) []rollout.Batch {
		return []rollout.Batch{{Pods: &rollout.PodSet{Ordinals: ordinals}}, {}}
	}
	for _, test := range []struct {
		name string
		kind rollout.Kind
		plan rollout.Plan
		want *fault.Kind
	}{
		{"ordinals of a CloneSet", rollout.CloneSet, rollout.Plan{RolloutBatches: set("1")}, rollout.FieldNotHonoured},
		{"a scale down of a CloneSet", rollout.CloneSet, rollout.Plan{TargetSize: new(3), RolloutBatches: []rollout.Batch{{PodList: []string{"db-1"}}, {}}}, rollout.FieldNotHonoured},
		{"a pod that is not there", rollout.AdvancedStatefulSet, rollout.Plan{TargetSize: new(3), RolloutBatches: set("7")}, rollout.FieldNotHonoured},
		{"a pod that is there", rollout.AdvancedStatefulSet, rollout.Plan{TargetSize: new(3), RolloutBatches: set("1")}, nil},
		{"a pod of a native set", rollout.StatefulSet, rollout.Plan{TargetSize: new(3), RolloutBatches: set("1")}, rollout.FieldNotHonoured},
		{"an order of a smaller CloneSet", rollout.CloneSet, rollout.Plan{TargetSize: new(3), Order: &rollout.Order{RoleLabel: "role", Roles: []string{"leader"}}}, rollout.FieldNotHonoured},
		{"an order of a larger CloneSet", rollout.CloneSet, rollout.Plan{TargetSize: new(7), Order: &rollout.Order{RoleLabel: "role", Roles: []string{"leader"}}}, nil},
		{"an order of a smaller set", rollout.StatefulSet, rollout.Plan{TargetSize: new(3), Order: &rollout.Order{RoleLabel: "role", Roles: []string{"leader"}}}, nil},
		{"an order of a CloneSet", rollout.CloneSet, rollout.Plan{Order: &rollout.Order{RoleLabel: "role", Roles: []string{"leader"}}}, nil},
	} {
		if _, err := rollout.Preview(test.plan, rollout.IdealFacts(test.kind, "db", 5, test.plan)); fault.Of(err) != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestReservedOrdinalsAreChanging: a rollout waits while a set still has pods that it will skip.
func TestReservedOrdinalsAreChanging(t *testing.T) {
	f := rollout.IdealFacts(rollout.AdvancedStatefulSet, "db", 4, rollout.Plan{})
	f.Wanted.TargetRevision = "new"
	rules, err := rollout.RulesOf(rollout.AdvancedStatefulSet, rollout.Rollout)
	if err != nil {
		t.Fatal(err)
	}
	at := rollout.Position{State: rollout.Verifying, Mode: rollout.Rollout, TargetRevision: "new"}
	f.Target.Reserved = []string{"1-2"}
	if v := rules.VerifySpec(rollout.Plan{}, at, f); v.Outcome.Reason() != "WorkloadBusy" {
		t.Errorf("with pods 1 and 2 still there: %+v", v)
	}
	f.Pods[1].Ordinal, f.Pods[2].Ordinal = 4, 5
	if v := rules.VerifySpec(rollout.Plan{}, at, f); !v.Done {
		t.Errorf("with pods 0, 3, 4 and 5: %+v", v)
	}
}
