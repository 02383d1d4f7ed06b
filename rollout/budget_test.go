package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

func seconds(n int) *rollout.Duration {
	d := rollout.Duration(time.Duration(n) * time.Second)
	return &d
}

// least plays to the end and returns the smallest number of ready pods.
func (p *player) least(state rollout.State) int {
	p.t.Helper()
	least := 1 << 30
	p.look = func(*player) {
		f, _ := p.sim.Observe(p.t.Context())
		ready := 0
		for _, pod := range f.Pods {
			if pod.Ready {
				ready++
			}
		}
		least = min(least, ready)
	}
	p.ends(state)
	return least
}

func TestMaxUnavailable(t *testing.T) {
	for _, most := range []*rollout.IntOrPercent{rollout.Int(1), rollout.Percent(40)} {
		p, sim := forward(t, rollout.Plan{Disruption: &rollout.Disruption{MaxUnavailable: most}})
		sim.Parallel()
		if got, want := p.least(rollout.Succeeded), 5-most.Of(5); got < want {
			t.Errorf("%s: %d pods were ready", most, got)
		}
	}
}

func TestMaxUnavailablePerZone(t *testing.T) {
	p, sim := forward(t, rollout.Plan{Disruption: &rollout.Disruption{MaxUnavailablePerZone: rollout.Int(1)}})
	sim.Parallel() // five pods in the zones a, b, c, a, b
	sim.Fail("db-1")
	p.waitsFor("MaxUnavailablePerZone")
	if !strings.Contains(p.at.Waiting.Message, "zone-b") {
		t.Errorf("it waits for %s", p.at.Waiting.Message)
	}
	sim.DeletePod("db-1")
	p.ends(rollout.Succeeded)
}

func TestAScaleDownKeepsTheQuorum(t *testing.T) {
	sim := workloadtest.NewSim(rollout.StatefulSet, 7)
	size := 5
	sim.Wanted.TargetSize = &size
	p := newPlayer(t, sim, rollout.Plan{TargetSize: &size, Disruption: &rollout.Disruption{Quorum: &rollout.Quorum{
		Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority,
	}}})
	for _, name := range []string{"db-0", "db-1", "db-2"} {
		sim.Fail(name)
	}
	p.waitsFor("Quorum")
	if sim.Target().Replicas != 7 {
		t.Fatalf("it has %d replicas", sim.Target().Replicas)
	}
	for _, name := range []string{"db-0", "db-1", "db-2"} {
		sim.DeletePod(name)
	}
	p.ends(rollout.Succeeded)
	var sizes []int
	for _, a := range sim.Applied() {
		if a.Replicas != nil {
			sizes = append(sizes, *a.Replicas)
		}
	}
	if !slices.Equal(sizes, []int{6, 5}) {
		t.Errorf("the sizes were %v", sizes)
	}
}

func TestTheTurnOfASharedQuorum(t *testing.T) {
	p, at, f := in(func(p *rollout.Plan, _ *rollout.Position, f *rollout.Facts) {
		p.Disruption = &rollout.Disruption{Quorum: &rollout.Quorum{Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority}}
		for i := range f.Pods {
			f.Pods[i].Labels = map[string]string{"app": "db"}
		}
		f.Turn = &rollout.Turn{Holder: "default/other"}
	})
	d := rollout.Next(p, at, f, time.Now())
	if d.Outcome.Reason() != "QuorumTurn" || !strings.Contains(d.Outcome.Message(), "default/other") || len(d.Acts) > 0 {
		t.Errorf("%s, %v", d.Outcome, d.Acts)
	}
	f.Turn.Mine = true
	if d = rollout.Next(p, at, f, time.Now()); len(d.Acts) != 1 {
		t.Errorf("%s", d.Outcome)
	}
	f.Members = slices.Clone(f.Pods)
	for i := range 4 { // another set of the same quorum is down
		m := f.Pods[i]
		m.Name, m.Workload, m.Ready = "other-"+m.Name, "another", false
		f.Members = append(f.Members, m)
	}
	if d = rollout.Next(p, at, f, time.Now()); d.Outcome.Reason() != "Quorum" || len(d.Acts) > 0 {
		t.Errorf("%s, %v", d.Outcome, d.Acts)
	}
}

func TestInstanceInterval(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: []rollout.Batch{{InstanceInterval: *seconds(30)}}})
	p.ends(rollout.Succeeded)
	var at []time.Duration
	for _, r := range p.records {
		at = append(at, r.Time.Sub(p.records[0].Time))
	}
	if took := at[len(at)-1]; took < 2*time.Minute {
		t.Errorf("five pods took %s", took)
	}
	if n := len(slices.DeleteFunc(sim.Applied(), func(a rollout.Act) bool { return a.Partition == nil })); n != 7 {
		t.Errorf("%d writes of the partition", n) // the hold, five releases, the park
	}
}

// TestPacedGrowth: a gate before each pod, and an interval between them, count for pods that are born.
func TestPacedGrowth(t *testing.T) {
	size := 6
	for name, plan := range map[string]rollout.Plan{
		"gate":     {TargetSize: &size, Gates: []rollout.Gate{{Name: "g", When: rollout.BeforePod, Expression: "true"}}},
		"interval": {TargetSize: &size, RolloutBatches: []rollout.Batch{{InstanceInterval: *seconds(5)}}},
	} {
		sim := workloadtest.NewSim(rollout.StatefulSet, 3)
		sim.Wanted.TargetSize = &size
		p := newPlayer(t, sim, plan)
		p.ends(rollout.Succeeded)
		var sizes []int
		for _, a := range sim.Applied() {
			if a.Replicas != nil {
				sizes = append(sizes, *a.Replicas)
			}
		}
		if !slices.Equal(sizes, []int{4, 5, 6}) {
			t.Errorf("%s: the sizes were %v", name, sizes)
		}
	}
}

func TestProbes(t *testing.T) {
	plan := rollout.Plan{RolloutBatches: batches(1, 4), Probes: []rollout.Probe{{Name: "lag", TCP: &rollout.TCPProbe{Port: 1}, OnFailure: rollout.OnFailureRollback}}}
	p, sim := forward(t, plan)
	works := false
	sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Open: works} }
	p.until("a probe that fails", func() bool { return p.at.Rollback != nil })
	if p.at.Failure.Reason != "ProbeFailed" {
		t.Errorf("%+v", p.at.Failure)
	}
	p, sim = forward(t, plan)
	asked := map[string]bool{}
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		for _, name := range a.Pods {
			asked[name] = true
		}
		return rollout.Answer{Open: true}
	}
	p.ends(rollout.Succeeded)
	if len(asked) != 5 {
		t.Errorf("the pods asked were %v", asked)
	}
}

// TestPodsThatWereNotProbed: a pod of which nothing is known yet is not one that is away.
func TestPodsThatWereNotProbed(t *testing.T) {
	quorum := &rollout.Disruption{Quorum: &rollout.Quorum{Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Healthy{IntOrPercent: *rollout.Int(4)}}}
	plan := rollout.Plan{Disruption: quorum, Probes: []rollout.Probe{{Name: "up", TCP: &rollout.TCPProbe{Port: 1}, Scope: rollout.ScopeAll}}}
	for _, kind := range []rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet} {
		one := 5
		f := rollout.IdealFacts(kind, "db", 5, plan)
		for i := range f.Pods {
			f.Pods[i].Labels = map[string]string{"app": "db"}
		}
		f.Target.Controller, f.Target.Anchored, f.Target.Held = &rollout.Owner{UID: "rollout"}, true, true
		at := rollout.Position{
			State: rollout.InBatch, BatchState: rollout.BatchInRolling, Mode: rollout.Rollout, OriginalSize: &one, TargetSize: &one,
			TargetRevision: "new", SourceRevision: "old", TargetHash: "new", Batches: map[int]rollout.BatchPosition{0: {Size: 5, Target: 5}},
		}
		d := rollout.Next(plan, at, f, f.Now)
		if len(d.Acts) > 0 || d.Outcome.Reason() != "ProbePending" || len(d.Asks) != 1 || len(d.Asks[0].Pods) != 5 {
			t.Errorf("%s: it does %+v, waits for %s, asks %+v", kind, d.Acts, d.Outcome, d.Asks)
		}
		for i := range f.Pods { // one failed attempt of three
			f.Pods[i].Probes = map[string]rollout.ProbeFacts{"up": {Value: "connection refused"}}
		}
		if d = rollout.Next(plan, at, f, f.Now); len(d.Acts) > 0 {
			t.Errorf("%s: it does %+v", kind, d.Acts)
		}
		for i := range f.Pods {
			f.Pods[i].Probes = map[string]rollout.ProbeFacts{"up": {Passing: true}}
		}
		if d = rollout.Next(plan, at, f, f.Now); len(d.Acts) != 1 {
			t.Errorf("%s: it does %+v, waits for %s", kind, d.Acts, d.Outcome)
		}
	}
}

// TestACloneSetThatHasNotBegun: which pod a lower partition takes is not seen yet; until it is, no other
// one goes.
func TestACloneSetThatHasNotBegun(t *testing.T) {
	most := rollout.Plan{Disruption: &rollout.Disruption{MaxUnavailable: rollout.Int(1)}}
	one := 5
	f := rollout.IdealFacts(rollout.CloneSet, "db", 5, most)
	f.Target.Controller, f.Target.Anchored, f.Target.Held, f.Target.Partition = &rollout.Owner{UID: "rollout"}, true, true, 4
	at := rollout.Position{
		State: rollout.InBatch, BatchState: rollout.BatchInRolling, Mode: rollout.Rollout, OriginalSize: &one, TargetSize: &one,
		TargetRevision: "new", SourceRevision: "old", TargetHash: "new", Batches: map[int]rollout.BatchPosition{0: {Size: 5, Target: 5}},
	}
	if d := rollout.Next(most, at, f, f.Now); len(d.Acts) != 1 || *d.Acts[0].Partition != 4 || len(d.Acts[0].First) != 1 { // it names the one that goes
		t.Errorf("it does %+v, waits for %s", d.Acts, d.Outcome)
	}
	f.Target.First = []string{f.Pods[0].Name}
	if d := rollout.Next(most, at, f, f.Now); len(d.Acts) > 0 || d.Outcome.Reason() != "MaxUnavailable" {
		t.Errorf("it does %+v, waits for %s", d.Acts, d.Outcome)
	}
	f.Target.First, f.Target.Priority = nil, true // its user has an order, which stands
	if d := rollout.Next(most, at, f, f.Now); len(d.Acts) > 0 || d.Outcome.Reason() != "MaxUnavailable" {
		t.Errorf("it does %+v, waits for %s", d.Acts, d.Outcome)
	}
}

func TestAFlowAsAHook(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutWebhooks: []rollout.Hook{{Name: "backup", Type: rollout.InitializeHook, Flow: "Backup"}}})
	answer, runs := rollout.Answer{}, map[int]bool{}
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		if a.Kind != rollout.AskFlow {
			t.Errorf("asked %+v", a)
		}
		runs[a.Attempt] = true
		return answer
	}
	p.waitsFor("FlowRunning")
	answer = rollout.Answer{Message: "the API server is away"}
	p.waitsFor("FlowUnavailable")
	answer = rollout.Answer{Run: "Paused", Code: "DISK_FULL", Message: "no space"}
	p.waitsFor("FlowPaused")
	if !strings.Contains(p.at.Waiting.Message, "no space") || sim.Target().Controller != nil {
		t.Errorf("%+v", p.at.Waiting)
	}
	answer = rollout.Answer{Run: "Cancelled"}
	p.until("pause", func() bool { return p.at.Pause != nil })
	if p.at.Pause.Reason != "WebhookFailed" || len(runs) != 1 {
		t.Errorf("%+v, runs %v", p.at.Pause, runs)
	}
	answer = rollout.Answer{Run: "Succeeded"}
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Retry, Pause: p.at.Pause.ID}
	p.ends(rollout.Succeeded)
	if !runs[2] || len(runs) != 2 {
		t.Errorf("a retry needs a run of its own: %v", runs)
	}
}

func TestAnInconclusiveMetric(t *testing.T) {
	high := decimal(t, "1")
	metric := rollout.Metric{
		Name: "errors", Interval: *seconds(5), InconclusiveLimit: new(1), MetricsRange: rollout.Range{Max: &high}, OnFailure: rollout.OnFailureRollback,
		Provider: rollout.MetricProvider{Prometheus: &rollout.Prometheus{Address: "http://prometheus", Query: "q"}},
	}
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), CanaryMetric: []rollout.Metric{metric}})
	sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Samples: []string{"NaN"}} }
	p.until("pause", func() bool { return p.at.Pause != nil })
	if p.at.Pause.Reason != "MetricInconclusive" || p.at.Rollback != nil {
		t.Errorf("%+v", p.at.Pause)
	}
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Retry, Pause: p.at.Pause.ID}
	sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Samples: []string{"0.5"}} }
	p.ends(rollout.Succeeded)

	metric.DryRun = true
	p, sim = forward(t, rollout.Plan{CanaryMetric: []rollout.Metric{metric}})
	sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Samples: []string{"7"}} }
	p.ends(rollout.Succeeded)
	if !slices.ContainsFunc(p.records, func(r rollout.Record) bool { return strings.Contains(r.Why, "dry run") }) {
		t.Error("the dry run is not in the history")
	}
}

func TestARollbackPastItsDeadlinePauses(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(2, 3), BatchPartition: new(0), Rollback: &rollout.RollbackPlan{Deadline: seconds(20)}})
	p.waitsFor("HeldByPartition")
	sim.Break("r1")
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
	p.until("pause", func() bool { return p.at.Pause != nil })
	if p.at.State != rollout.RollingBack || p.at.Pause.By != rollout.ByDeadline || sim.Target().Template != "r1" {
		t.Errorf("%s, %+v, %s", p.at.State, p.at.Pause, sim)
	}
}

func TestARollbackAllAtOnce(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(1), Rollback: &rollout.RollbackPlan{Mode: rollout.AllAtOnce}})
	p.until("batch 1 is held", func() bool { return p.at.CurrentBatch == 1 && p.at.Waiting.Reason == "HeldByPartition" })
	before := len(sim.Applied())
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
	p.ends(rollout.Failed)
	releases := 0
	for _, a := range sim.Applied()[before:] {
		if a.Partition != nil && *a.Partition < rollout.HoldAll {
			releases++
		}
	}
	if releases != 1 || p.revisions() != "r1 r1 r1 r1 r1" {
		t.Errorf("%d releases, %s", releases, p.revisions())
	}
}

func TestTheSizeOfARolloutInPlaceIsNotEdited(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(2, 3), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	p.plan.TargetSize, sim.Wanted.TargetSize = new(7), new(7)
	p.pass()
	if !strings.Contains(p.at.PlanRefused, "targetSize") || p.at.State != rollout.InBatch {
		t.Fatalf("%s, %q", p.at.State, p.at.PlanRefused)
	}
	p.plan.BatchPartition = nil
	p.ends(rollout.Succeeded)
	p.plan.RolloutBatches = nil
	p.until("the scale", func() bool { return p.at.Mode == rollout.Scale })
	p.ends(rollout.Succeeded)
	if got := sim.Target().Replicas; got != 7 {
		t.Errorf("it has %d replicas", got)
	}
}
