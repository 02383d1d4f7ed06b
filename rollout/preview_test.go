package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
	"pgregory.net/rapid"
)

func lines(all []rollout.BatchPreview) string {
	var b strings.Builder
	for _, p := range all {
		var pods []string
		for _, pod := range p.Pods {
			pods = append(pods, pod.Name)
		}
		fmt.Fprintf(&b, "%d: %d pods to %d [%s], %d writes, %d away, at worst %d", p.Index, p.Size, p.Target, strings.Join(pods, " "), p.Releases, p.Unavailable, p.WorstCase)
		if p.Partition != nil {
			fmt.Fprintf(&b, ", partition %d", *p.Partition)
		}
		if p.QuorumLeft != nil {
			fmt.Fprintf(&b, ", quorum left %d", *p.QuorumLeft)
		}
		for _, more := range [][]string{p.Gates, p.Metrics, p.Webhooks, p.Handovers, p.Stops, p.Warnings} {
			if more != nil {
				fmt.Fprintf(&b, ", %s", strings.Join(more, "; "))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestPreview(t *testing.T) {
	quorum := &rollout.Disruption{Quorum: &rollout.Quorum{Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority}}
	for _, test := range []struct {
		name     string
		kind     rollout.Kind
		replicas int
		plan     rollout.Plan
		want     string
	}{
		{"three batches", rollout.StatefulSet, 5, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(0)}, `
0: 1 pods to 1 [db-4], 1 writes, 1 away, at worst 1, partition 4
1: 2 pods to 3 [db-3 db-2], 1 writes, 1 away, at worst 2, partition 2, batchPartition 0: waits for an approval
2: 2 pods to 5 [db-1 db-0], 1 writes, 1 away, at worst 2, partition 0, batchPartition 0: waits for an approval
`},
		{"a quorum", rollout.StatefulSet, 3, rollout.Plan{Disruption: quorum}, `
0: 3 pods to 3 [db-2 db-1 db-0], 3 writes, 1 away, at worst 1, partition 0, quorum left 2
`},
		{"a gate beside a metric", rollout.StatefulSet, 2, rollout.Plan{
			Gates:        []rollout.Gate{{Name: "lag", When: rollout.AfterBatch, Expression: "true"}},
			CanaryMetric: []rollout.Metric{{Name: "errors", Count: 2, MetricsRange: rollout.Range{Max: new(decimal(t, "1"))}, Provider: rollout.MetricProvider{Prometheus: &rollout.Prometheus{Address: "http://p", Query: "up"}}}},
		}, `
0: 2 pods to 2 [db-1 db-0], 1 writes, 1 away, at worst 2, partition 0, AfterBatch lag, errors
`},
		{"a gate before each pod", rollout.StatefulSet, 4, rollout.Plan{Gates: []rollout.Gate{{Name: "g", When: rollout.BeforePod, Expression: "true"}}}, `
0: 4 pods to 4 [db-3 db-2 db-1 db-0], 4 writes, 1 away, at worst 4, partition 0, BeforePod g
`},
		{"an interval between pods", rollout.StatefulSet, 4, rollout.Plan{RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1)}, {InstanceInterval: *seconds(5)}}}, `
0: 1 pods to 1 [db-3], 1 writes, 1 away, at worst 1, partition 3
1: 3 pods to 4 [db-2 db-1 db-0], 3 writes, 1 away, at worst 3, partition 0
`},
		{"a gate within a budget", rollout.StatefulSet, 5, rollout.Plan{
			Gates: []rollout.Gate{{Name: "g", When: rollout.BeforePod, Expression: "true"}}, Disruption: &rollout.Disruption{MaxUnavailable: rollout.Int(2), Quorum: quorum.Quorum}}, `
0: 5 pods to 5 [db-4 db-3 db-2 db-1 db-0], 5 writes, 1 away, at worst 2, partition 0, quorum left 3, BeforePod g
`},
		{"a batch that may miss a pod", rollout.StatefulSet, 4, rollout.Plan{RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1), MaxUnavailable: rollout.Int(1)}, {Replicas: rollout.Int(1)}, {}}}, `
0: 1 pods to 1 [db-3], 1 writes, 1 away, at worst 1, partition 3
1: 1 pods to 2 [db-2], 1 writes, 1 away, at worst 2, partition 2
2: 2 pods to 4 [db-1 db-0], 1 writes, 1 away, at worst 2, partition 0
`},
		{"a CloneSet", rollout.CloneSet, 4, rollout.Plan{NumBatches: new(2)}, `
0: 2 pods to 2 [db-0 db-1], 1 writes, 2 away, at worst 2, partition 2
1: 2 pods to 4 [db-2 db-3], 1 writes, 2 away, at worst 2, partition 0
`},
		{"a scale", rollout.StatefulSet, 5, rollout.Plan{TargetSize: new(2), NumBatches: new(2)}, `
0: 1 pods to 4 [db-4], 1 writes, 0 away, at worst 0
1: 2 pods to 2 [db-3 db-2], 1 writes, 0 away, at worst 0
`},
		{"probes", rollout.StatefulSet, 2, rollout.Plan{Probes: []rollout.Probe{
			{Name: "a", TCP: &rollout.TCPProbe{Port: 1}, Scope: rollout.ScopeAll}, {Name: "b", TCP: &rollout.TCPProbe{Port: 1}, Scope: rollout.ScopeAll}}}, `
0: 2 pods to 2 [db-1 db-0], 1 writes, 1 away, at worst 2, partition 0
`},
		{"named pods", rollout.StatefulSet, 2, rollout.Plan{RolloutBatches: []rollout.Batch{{PodList: []string{"db-0"}}, {}}}, `
0: 1 pods to 1 [db-0], 1 writes, 1 away, at worst 1, partition 2147483647, pods are replaced one by one, as the type OnDelete has it: one that anybody deletes meanwhile comes back with the new revision
1: 1 pods to 2 [db-1], 1 writes, 1 away, at worst 1, partition 2147483647
`},
		{"Deployments", rollout.Deployment, 3, rollout.Plan{RolloutBatches: batches(1, 2)}, `
0: 1 pods to 1 [db-10001 db-old-0], 2 writes, 1 away, at worst 1
1: 2 pods to 3 [db-10002 db-10003 db-old-1 db-old-2], 2 writes, 2 away, at worst 2
`},
	} {
		all, err := rollout.Preview(test.plan, rollout.IdealFacts(test.kind, "db", test.replicas, test.plan))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := "\n" + lines(all); got != test.want {
			t.Errorf("%s:%s", test.name, got)
		}
	}
}

func TestARefusedPreview(t *testing.T) {
	for _, test := range []struct {
		name string
		plan rollout.Plan
		kind rollout.Kind
		want *fault.Kind
	}{
		{"too many", rollout.Plan{RolloutBatches: batches(9, 1)}, rollout.StatefulSet, rollout.PlanInvalid},
		{"an order of a Deployment", rollout.Plan{Order: &rollout.Order{RoleLabel: "r", Roles: []string{"a"}}}, rollout.Deployment, rollout.FieldNotHonoured},
		{"no kind", rollout.Plan{}, "DaemonSet", rollout.UnsupportedWorkload},
		{"an impossible budget", rollout.Plan{Disruption: &rollout.Disruption{MaxUnavailable: rollout.Int(0)}}, rollout.StatefulSet, rollout.BudgetImpossible},
	} {
		if _, err := rollout.Preview(test.plan, rollout.IdealFacts(test.kind, "db", 5, test.plan)); fault.Of(err) != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestPreviewIsTheRun: an undisturbed run has the batches, partitions and sizes of its preview.
func TestPreviewIsTheRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet}).Draw(rt, "kind")
		sim := workloadtest.NewSim(kind, rapid.IntRange(1, 9).Draw(rt, "replicas"))
		if kind == rollout.AdvancedStatefulSet && rapid.Bool().Draw(rt, "unordered") {
			sim.Unordered()
		}
		plan := rollout.Plan{NumBatches: new(rapid.IntRange(1, 5).Draw(rt, "batches"))}
		if rapid.Bool().Draw(rt, "scale") {
			plan.TargetSize = new(rapid.IntRange(0, 9).Draw(rt, "size"))
			sim.Wanted.TargetSize = plan.TargetSize
			if *plan.TargetSize == sim.Target().Replicas {
				return
			}
		} else {
			sim.Wanted.HoldAlways = true
			sim.Edit(func(w *rollout.WorkloadFacts) { w.Partition = rollout.HoldAll })
			sim.SetTemplate("r2")
			if rapid.Bool().Draw(rt, "quorum") && sim.Target().Replicas > 2 {
				plan.Disruption = &rollout.Disruption{Quorum: &rollout.Quorum{Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority}}
			}
			if sim.Target().Kind != rollout.StatefulSet && rapid.Bool().Draw(rt, "order") { // by weights, or pod by pod
				sim.Roles = func(p rollout.Pod) string {
					return map[bool]string{true: "voter", false: "learner"}[p.Zone == "zone-a"]
				}
				plan.Order = &rollout.Order{RoleLabel: "role", Roles: []string{"learner", "voter"}}
			}
		}
		sim.Step()
		f, err := sim.Observe(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		preview, err := rollout.Preview(plan, f)
		if err != nil {
			rt.Fatal(err)
		}
		writes := make([]int, len(preview))
		last := make([]rollout.Act, len(preview))
		p := newPlayer(t, sim, plan)
		p.look = func(p *player) {
			for _, a := range p.last.Acts {
				if p.at.State == rollout.InBatch && (a.Partition != nil || a.Replicas != nil || a.Evict != nil) {
					writes[p.at.CurrentBatch]++
					last[p.at.CurrentBatch] = a
				}
			}
		}
		p.ends(rollout.Succeeded)
		for i, b := range preview {
			switch {
			case b.Size != p.at.Batches[i].Size || b.Releases != writes[i]:
				rt.Fatalf("batch %d: the preview has %d pods and %d writes, the run %d and %d", i, b.Size, b.Releases, p.at.Batches[i].Size, writes[i])
			case last[i].Partition != nil && *last[i].Partition != *b.Partition, last[i].Replicas != nil && *last[i].Replicas != b.Replicas["db"]:
				rt.Fatalf("batch %d: the preview ends at partition %v, %v, the run at %+v", i, b.Partition, b.Replicas, last[i])
			}
		}
	})
}

// TestTheWorstCaseIsTheRun: when no pod of the new revision becomes ready, as many are away or let go as the
// preview says, and not one more.
func TestTheWorstCaseIsTheRun(t *testing.T) {
	gate := []rollout.Gate{{Name: "g", When: rollout.BeforePod, Expression: "true"}}
	for name, plan := range map[string]rollout.Plan{
		"a gate":              {Gates: gate},
		"an interval":         {RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(3), InstanceInterval: *seconds(5)}, {}}},
		"two may be away":     {Disruption: &rollout.Disruption{MaxUnavailable: rollout.Int(2)}},
		"a gate and a budget": {Gates: gate, Disruption: &rollout.Disruption{MaxUnavailable: rollout.Percent(60)}},
		"a batch with slack":  {RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1), MaxUnavailable: rollout.Int(1)}, {Replicas: rollout.Int(2)}, {}}},
	} {
		p, sim := forward(t, plan)
		sim.Parallel()
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
		want, most := 0, 0
		for _, b := range preview {
			want = max(want, b.WorstCase)
		}
		for range 100 {
			p.pass()
			f, _ := sim.Observe(t.Context())
			away := 5
			for _, pod := range f.Pods {
				if released := f.Target.Partition <= pod.Ordinal && pod.Revision != "r2"; pod.Ready && !pod.Terminating && !released {
					away-- // it is there, and nothing may replace it
				}
			}
			most = max(most, away)
		}
		if most != want {
			t.Errorf("%s: %d pods were away, the preview says %d", name, most, want)
		}
	}
}

// TestPreviewOfARefusedEdit: while an edit of the plan is refused the plan from before it counts, in size
// and target of each batch, and the preview says so.
func TestPreviewOfARefusedEdit(t *testing.T) {
	before := rollout.Plan{RolloutBatches: batches(1, 4)}
	f := rollout.IdealFacts(rollout.StatefulSet, "db", 5, before)
	at := rollout.Position{
		State: rollout.InBatch, BatchState: rollout.BatchInRolling, Mode: rollout.Rollout, OriginalSize: new(5), TargetSize: new(5),
		TargetRevision: f.Wanted.TargetRevision, SourceRevision: f.Wanted.SourceRevision, PlanHash: "before",
		Batches: map[int]rollout.BatchPosition{0: {Replicas: before.RolloutBatches[0].Replicas, Size: 1, Target: 1}, 1: {Replicas: before.RolloutBatches[1].Replicas, Size: 4, Target: 5}},
	}
	after := before
	after.RolloutBatches, after.Disruption = batches(1, 1, 3), &rollout.Disruption{ZoneKey: "rack"}
	all, err := rollout.PreviewFrom(after, at, f)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[1].Size != 4 || all[1].Target != 5 || !strings.Contains(strings.Join(all[0].Warnings, " "), "the plan as it was before its last edit counts: disruption.zoneKey") {
		t.Errorf("the preview is\n%s", lines(all))
	}
}

// TestPreviewOfAHoldThatIsNotObserved: the write of the rollout itself, a moment ago, hides nothing.
func TestPreviewOfAHoldThatIsNotObserved(t *testing.T) {
	p, sim := forward(t, rollout.Plan{})
	p.until("the hold is written", func() bool { return p.at.State == rollout.Initializing && sim.Target().Held })
	f, err := sim.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Target.ObservedGeneration = f.Target.Generation - 1
	if all, err := rollout.PreviewFrom(p.plan, p.at, f); err != nil || len(all) == 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestPreviewOfAPodThatStarts: a released pod that is not ready yet will be.
func TestPreviewOfAPodThatStarts(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), BatchDeadline: seconds(600)})
	sim.StartSteps = 10
	starting := func(pod rollout.Pod) bool { return pod.Revision == "r2" && !pod.Ready }
	var f rollout.Facts
	p.until("a pod starts", func() bool {
		var err error
		if f, err = sim.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p.at.State == rollout.InBatch && slices.ContainsFunc(f.Pods, starting)
	})
	if all, err := rollout.PreviewFrom(p.plan, p.at, f); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestPreviewOfAReleaseOfThisMoment: roles are read after a release that the clock of the facts is behind.
func TestPreviewOfAReleaseOfThisMoment(t *testing.T) {
	probe := rollout.Probe{Name: "role", Exec: &rollout.ExecProbe{Command: []string{"role"}}}
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), BatchDeadline: seconds(60), Probes: []rollout.Probe{probe}, Order: &rollout.Order{RoleProbe: "role", Roles: []string{"replica", "leader"}}})
	p.until("a pod is released", func() bool { return p.at.Released != nil })
	f, err := sim.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	later := f.Now.Add(time.Second)
	p.at.Released = &later
	if all, err := rollout.PreviewFrom(p.plan, p.at, f); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestPreviewAtAnyMoment: whenever a run that ends well is looked at, also between a pod that starts and the
// next look at its role, the preview has all of its batches.
func TestPreviewAtAnyMoment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet}).Draw(rt, "kind")
		sim := workloadtest.NewSim(kind, rapid.IntRange(3, 6).Draw(rt, "replicas"))
		sim.Wanted.HoldAlways = true
		sim.Edit(func(w *rollout.WorkloadFacts) { w.Partition = rollout.HoldAll })
		sim.SetTemplate("r2")
		sim.StartSteps, sim.StopSteps = rapid.IntRange(1, 8).Draw(rt, "start"), rapid.IntRange(1, 4).Draw(rt, "stop")
		plan := rollout.Plan{RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1)}, {Replicas: rollout.Int(1)}, {}}, BatchDeadline: seconds(3600)}
		if rapid.Bool().Draw(rt, "gate") {
			plan.Gates = []rollout.Gate{{Name: "g", When: rollout.BeforePod, Expression: "true"}}
		}
		if rapid.Bool().Draw(rt, "quorum") {
			plan.Disruption = &rollout.Disruption{Quorum: &rollout.Quorum{Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority}}
		}
		if rapid.Bool().Draw(rt, "budget") {
			sim.Budgets = []rollout.PodBudget{{Name: "db", Allowed: 1, Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}}}
		}
		if rapid.Bool().Draw(rt, "order") {
			plan.Probes = []rollout.Probe{{Name: "role", Exec: &rollout.ExecProbe{Command: []string{"role"}}}}
			plan.Order = &rollout.Order{RoleProbe: "role", Roles: []string{"replica", "leader"}}
		}
		sim.Step()
		p := newPlayer(t, sim, plan)
		p.look = func(p *player) {
			if sim.Budgets != nil { // as the disruption controller has it: one pod may be away
				f, _ := sim.Observe(t.Context())
				healthy := 0
				for _, pod := range f.Pods {
					if pod.Ready && !pod.Terminating {
						healthy++
					}
				}
				sim.Budgets[0].Allowed = max(healthy-(f.Target.Replicas-1), 0)
			}
			f, err := sim.Observe(t.Context())
			if err != nil {
				rt.Fatal(err)
			}
			if f.Target.ObservedGeneration < f.Target.Generation && p.at.TargetRevision != "" { // as the operator has it
				f.Wanted.TargetRevision = p.at.TargetRevision
			}
			if p.at.State.Terminal() || p.at.State == rollout.Finalising {
				return
			}
			if all, err := rollout.PreviewFrom(plan, p.at, f); err != nil || len(all) != 3 {
				rt.Fatalf("in %s/%s, batch %d, released %v: %v, %d batches; %s", p.at.State, p.at.BatchState, p.at.CurrentBatch, p.at.Released, err, len(all), sim)
			}
		}
		p.ends(rollout.Succeeded)
	})
}

// TestABatchThatIsNotRecorded: a position that names a batch without saying what it is, as somebody may have
// written it, stops the rollout and ends no process.
func TestABatchThatIsNotRecorded(t *testing.T) {
	for _, state := range []rollout.State{rollout.InBatch, rollout.RollingBack} {
		for _, batch := range []rollout.BatchState{rollout.BatchInitializing, rollout.BatchInRolling, rollout.BatchVerifying, rollout.BatchFinalizing, rollout.BatchReady} {
			p, _ := forward(t, rollout.Plan{RolloutBatches: batches(1, 4)})
			p.until("the first batch", func() bool { return p.at.State == rollout.InBatch })
			p.at.State, p.at.BatchState, p.at.Batches = state, batch, nil
			p.pass()
			if got := fault.Of(p.last.Outcome.Err()); got != rollout.StateUnknown {
				t.Errorf("%s/%s: %s", state, batch, p.last.Outcome)
			}
			f, err := p.sim.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rollout.PreviewFrom(p.plan, p.at, f); err == nil {
				t.Errorf("%s/%s has a preview", state, batch)
			}
		}
	}
}
