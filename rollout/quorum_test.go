package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

func quorumOf(members *int, least int, key string, values ...string) *rollout.Disruption {
	s := rollout.Selector{MatchExpressions: []rollout.Requirement{{Key: key, Operator: rollout.In, Values: values}}}
	return &rollout.Disruption{Quorum: &rollout.Quorum{Selector: s, Members: members, MinHealthy: rollout.Healthy{IntOrPercent: rollout.IntOrPercent{Value: least}}}}
}

// TestAQuorumWithoutThePods: a quorum that counts none of the pods is refused, when the rollout is verified,
// in the preview, and as an edit in the middle.
func TestAQuorumWithoutThePods(t *testing.T) {
	for _, members := range []*int{nil, new(4)} {
		plan := rollout.Plan{Disruption: quorumOf(members, 3, "app", "other")}
		p, sim := forward(t, plan)
		sim.Step()
		f, err := sim.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rollout.Preview(plan, f); fault.Of(err) != rollout.BudgetImpossible || !strings.Contains(err.Error(), "disruption.quorum.selector") {
			t.Errorf("the preview: %v", err)
		}
		p.ends(rollout.Failed)
		if p.at.Failure.Reason != "BudgetImpossible" || sim.Target().Partition != rollout.HoldAll {
			t.Errorf("%+v, partition %d", p.at.Failure, sim.Target().Partition)
		}
		p, _ = forward(t, rollout.Plan{RolloutBatches: batches(1, 4), BatchPartition: new(0)})
		p.waitsFor("HeldByPartition")
		p.plan.Disruption = plan.Disruption
		p.pass()
		if !strings.Contains(p.at.PlanRefused, "disruption.quorum.selector") {
			t.Errorf("the edit: %q", p.at.PlanRefused)
		}
	}
}

// TestAQuorumWithoutOnePod: pods that the quorum does not select are released as if they were members, and
// the preview says so.
func TestAQuorumWithoutOnePod(t *testing.T) {
	plan := rollout.Plan{Disruption: quorumOf(nil, 2, "voter", "yes"), Gates: []rollout.Gate{{Name: "g", When: rollout.BeforePod, Expression: "true"}}}
	sim := workloadtest.NewSim(rollout.StatefulSet, 6).Parallel()
	sim.Wanted.HoldAlways = true
	sim.Labels = func(p rollout.Pod) map[string]string {
		return map[string]string{"voter": map[bool]string{true: "yes", false: "no"}[p.Ordinal < 3]} // three of six
	}
	p := newPlayer(t, sim, plan)
	p.waitsFor("NothingToRoll")
	sim.SetTemplate("r2")
	sim.Break("r2")
	sim.Step()
	f, err := sim.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	preview, err := rollout.Preview(plan, f)
	if err != nil {
		t.Fatal(err)
	}
	if b := preview[0]; b.WorstCase != 1 || !slices.ContainsFunc(b.Warnings, func(w string) bool { return strings.Contains(w, "does not select 3 of 6 pods") }) {
		t.Errorf("the preview: %+v", b)
	}
	p.waitsFor("Quorum")
	for range 20 {
		p.pass()
	}
	if got := sim.Target().Partition; got != 5 { // one voter of three may be away: so may one of the others
		t.Errorf("the partition is %d", got)
	}
}

// TestPodsWithoutAZone: the preview says that they count in every zone.
func TestPodsWithoutAZone(t *testing.T) {
	plan := rollout.Plan{Disruption: &rollout.Disruption{MaxUnavailablePerZone: rollout.Int(1)}}
	f := rollout.IdealFacts(rollout.StatefulSet, "db", 3, plan)
	for i := range f.Pods {
		f.Pods[i].UID, f.Pods[i].Zone = f.Pods[i].Name, "a"
	}
	for _, without := range []int{0, 2} {
		for i := range without {
			f.Pods[i].Zone = ""
		}
		all, err := rollout.Preview(plan, f)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"2 of 3 pods have no label topology.kubernetes.io/zone: each counts in every zone"}
		if without == 0 {
			want = nil
		}
		if !slices.Equal(all[0].Warnings, want) {
			t.Errorf("%d: %q", without, all[0].Warnings)
		}
	}
}

// TestAQuorumByExpressions: without a cluster the pods are those that the selector means.
func TestAQuorumByExpressions(t *testing.T) {
	plan := rollout.Plan{Disruption: quorumOf(nil, 2, "app", "db", "other")}
	if _, err := rollout.Preview(plan, rollout.IdealFacts(rollout.StatefulSet, "db", 3, plan)); err != nil {
		t.Error(err)
	}
}
