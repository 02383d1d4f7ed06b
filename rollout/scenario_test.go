package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

func TestScale(t *testing.T) {
	for _, kind := range []rollout.Kind{rollout.Deployment, rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet} {
		for _, to := range []int{9, 2} {
			t.Run(string(kind), func(t *testing.T) {
				sim := workloadtest.NewSim(kind, 5)
				size := to
				sim.Wanted.TargetSize = &size
				p := newPlayer(t, sim, rollout.Plan{TargetSize: &size, NumBatches: new(2)})
				p.ends(rollout.Succeeded)
				if got := sim.Target(); got.Replicas != to || got.Controller != nil {
					t.Errorf("it has %d replicas, controller %+v", got.Replicas, got.Controller)
				}
				var sizes []int
				for _, a := range sim.Applied() {
					if a.Replicas != nil {
						sizes = append(sizes, *a.Replicas)
					}
				}
				want := map[int][]int{9: {7, 9}, 2: {4, 2}}[to]
				if !slices.Equal(sizes, want) {
					t.Errorf("the sizes were %v, not %v", sizes, want)
				}
			})
		}
	}
}

func TestRolloutOfDeployments(t *testing.T) {
	for _, strategy := range []rollout.Strategy{rollout.IncreaseFirst, rollout.DecreaseFirst} {
		t.Run(string(strategy), func(t *testing.T) {
			sim := workloadtest.NewSim(rollout.Deployment, 5).WithSource()
			p := newPlayer(t, sim, rollout.Plan{RolloutStrategy: strategy, RolloutBatches: batches(1, 4)})
			least, most := 5, 5
			p.look = func(p *player) {
				f, _ := sim.Observe(t.Context())
				ready := 0
				for _, pod := range f.Pods {
					if pod.Ready {
						ready++
					}
				}
				least, most = min(least, ready), max(most, len(f.Pods))
			}
			p.ends(rollout.Succeeded)
			if sim.Target().Replicas != 5 {
				t.Errorf("the target has %d replicas", sim.Target().Replicas)
			}
			if strategy == rollout.IncreaseFirst && least < 5 {
				t.Errorf("only %d pods were ready", least)
			}
			if strategy == rollout.DecreaseFirst && most > 5 {
				t.Errorf("there were %d pods", most)
			}
		})
	}
}

func TestASourceThatWasDeleted(t *testing.T) {
	for _, strategy := range []rollout.Strategy{rollout.IncreaseFirst, rollout.DecreaseFirst} {
		sim := workloadtest.NewSim(rollout.Deployment, 5).WithSource()
		p := newPlayer(t, sim, rollout.Plan{RolloutStrategy: strategy, RolloutBatches: batches(1, 1, 3)})
		var f rollout.Facts
		ofSource := func(pod rollout.Pod) bool { return pod.Workload == f.Sources[0].UID }
		p.until("batch 1", func() bool {
			f, _ = sim.Observe(t.Context())
			grown := slices.DeleteFunc(slices.Clone(f.Pods), ofSource)
			return p.at.CurrentBatch == 1 && (len(grown) == 2 || strategy == rollout.DecreaseFirst)
		})
		f.Pods = slices.DeleteFunc(f.Pods, ofSource)
		for i := range f.Pods { // a target that grows first waits for its own
			f.Pods[i].Ready = true
		}
		f.Sources = nil
		if d := rollout.Next(p.plan, p.at, f, sim.Now()); d.Outcome.Reason() != "TargetMissing" {
			t.Errorf("%s: %s", strategy, d.Outcome)
		}
	}
}

func TestDeploymentsMayGrow(t *testing.T) {
	sim := workloadtest.NewSim(rollout.Deployment, 4).WithSource()
	size := 6
	sim.Wanted.TargetSize = &size
	p := newPlayer(t, sim, rollout.Plan{TargetSize: &size, NumBatches: new(3)})
	p.ends(rollout.Succeeded)
	if sim.Target().Replicas != 6 {
		t.Errorf("the target has %d replicas", sim.Target().Replicas)
	}
}

// forward starts a held StatefulSet of five whose template has just changed.
func forward(t *testing.T, plan rollout.Plan) (*player, *workloadtest.Sim) {
	t.Helper()
	sim := workloadtest.NewSim(rollout.StatefulSet, 5)
	sim.Wanted.HoldAlways = true
	p := newPlayer(t, sim, plan)
	p.waitsFor("NothingToRoll")
	sim.SetTemplate("r2")
	return p, sim
}

func TestRequestsBeforeTheFirstBatch(t *testing.T) {
	sim := workloadtest.NewSim(rollout.StatefulSet, 3)
	p := newPlayer(t, sim, rollout.Plan{})
	for verb, code := range map[rollout.Verb]string{
		rollout.Approve: "ROLLOUT_REQUEST_INVALID", rollout.RollBackVerb: "ROLLOUT_REQUEST_INVALID", rollout.Resume: "NOT_PAUSED", rollout.Retry: "NOT_PAUSED", "dance": "ROLLOUT_REQUEST_INVALID",
	} {
		sim.Wanted.Request = &rollout.Request{ID: string(verb), Verb: verb, Argument: "next"}
		p.pass()
		if got := p.at.LastRequest; got == nil || got.ID != string(verb) || got.Code != code || p.at.Approved != nil {
			t.Errorf("%s was answered with %+v", verb, got)
		}
		sequence := p.at.Sequence
		if p.pass(); p.at.Sequence != sequence {
			t.Errorf("%s was answered twice", verb)
		}
	}
}

// TestHoldIsEditedAtRest: the workload is parked or let go without another rollout, and no pod moves.
func TestHoldIsEditedAtRest(t *testing.T) {
	for _, ended := range []bool{true, false} {
		p, sim := forward(t, rollout.Plan{})
		if ended {
			p.ends(rollout.Succeeded)
		} else {
			sim = workloadtest.NewSim(rollout.StatefulSet, 3)
			sim.Wanted.HoldAlways = true
			p = newPlayer(t, sim, rollout.Plan{})
			p.waitsFor("NothingToRoll")
		}
		for _, always := range []bool{false, true, false} {
			sim.Wanted.HoldAlways = always
			p.pass()
			p.pass()
			w, want := sim.Target(), 0
			if always {
				want = rollout.HoldAll
			}
			if w.Held != always || w.Partition != want || len(p.last.Acts) > 0 {
				t.Errorf("ended %t, always %t: held %t, partition %d, acts %+v", ended, always, w.Held, w.Partition, p.last.Acts)
			}
		}
	}
}

// TestTheTypeOnDeleteIsRestored: a native StatefulSet of that type has no partition to give back.
func TestTheTypeOnDeleteIsRestored(t *testing.T) {
	f := rollout.IdealFacts(rollout.StatefulSet, "db", 1, rollout.Plan{})
	f.Pods[0].Revision, f.Target.CurrentRevision, f.Target.UpdateType = "new", "new", rollout.OnDelete
	one := 1
	at := rollout.Position{
		State: rollout.Finalising, BatchState: rollout.BatchReady, Mode: rollout.Rollout, Number: 1, OriginalSize: &one, TargetSize: &one,
		TargetRevision: "new", SourceRevision: "old", TargetHash: "new", Original: &rollout.Original{UpdateType: rollout.OnDelete},
		Batches: map[int]rollout.BatchPosition{0: {Size: 1, Target: 1}},
	}
	if d := rollout.Next(rollout.Plan{}, at, f, f.Now); len(d.Acts) > 0 || d.Position.State != rollout.Succeeded {
		t.Errorf("%s, it does %+v", d.Position.State, d.Acts)
	}
}

// TestRollbackBeforeTheFirstBatch is an abandon.
func TestRollbackBeforeTheFirstBatch(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutWebhooks: []rollout.Hook{{Name: "h", Type: rollout.InitializeHook, URL: "http://h"}}})
	sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Status: 503} }
	p.waitsFor("WebhookRetry")
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb, By: "ann"}
	p.ends(rollout.Failed)
	if p.at.LastRequest.Code != "" || p.at.Failure.Reason != "Abandoned" || p.revisions() != "r1 r1 r1 r1 r1" {
		t.Errorf("%+v, %+v, %s", p.at.LastRequest, p.at.Failure, p.revisions())
	}
}

func TestPartitionHoldsUntilItIsApproved(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	if p.at.CurrentBatch != 0 || sim.Target().Partition != 4 {
		t.Fatalf("batch %d, partition %d", p.at.CurrentBatch, sim.Target().Partition)
	}
	since := p.at.Waiting.Since
	p.pass()
	if !p.at.Waiting.Since.Equal(since) {
		t.Error("the wait began anew")
	}
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Approve, Argument: "next", By: "eve", Reason: "smoke tests passed"}
	p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
	p.waitsFor("HeldByPartition")
	if !slices.ContainsFunc(p.records, func(r rollout.Record) bool { return r.By == "eve" && strings.Contains(r.Why, "smoke tests passed") }) {
		t.Error("the approval is not in the history")
	}
	p.plan.BatchPartition = new(1) // an edit takes approvals back
	p.pass()
	if p.at.Approved != nil {
		t.Error("the approval outlived the edit")
	}
	sim.Wanted.Request = &rollout.Request{ID: "2", Verb: rollout.Approve, Argument: "9"}
	p.pass()
	if p.at.LastRequest.Code != "ROLLOUT_REQUEST_INVALID" {
		t.Errorf("the answer was %+v", p.at.LastRequest)
	}
	p.plan.BatchPartition = nil
	p.ends(rollout.Succeeded)
}

func TestPausedByTheUser(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), Paused: true})
	p.until("pause", func() bool { return p.at.Pause != nil })
	if got := sim.Target().Partition; got != rollout.HoldAll {
		t.Fatalf("the partition is %d while paused", got)
	}
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Resume, Pause: "another"}
	p.pass()
	if p.at.LastRequest.Code != "NOT_PAUSED" {
		t.Errorf("an old resume was answered with %+v", p.at.LastRequest)
	}
	sim.Wanted.Request = &rollout.Request{ID: "2", Verb: rollout.Resume, Pause: p.at.Pause.ID, By: "eve"}
	p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
	p.plan.Paused = false
	p.pass()
	p.plan.Paused = true
	p.until("pause", func() bool { return p.at.Pause != nil })
	p.plan.Paused = false
	p.ends(rollout.Succeeded)
}

func TestDeadlineRollsBackABrokenRevision(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		deadline := rollout.Duration(30 * time.Second)
		p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchDeadline: &deadline, OnFailure: rollout.OnFailureRollback})
		if parallel {
			sim.Parallel()
		}
		sim.Break("r2")
		p.ends(rollout.Failed)
		if p.at.Rollback == nil || !strings.Contains(p.at.Rollback.Reason, "batch 0") {
			t.Fatalf("the rollback is %+v", p.at.Rollback)
		}
		if got := p.revisions(); got != "r1 r1 r1 r1 r1" {
			t.Errorf("parallel %v: the pods have %s", parallel, got)
		}
		if sim.Target().Partition != rollout.HoldAll || !sim.Target().Held {
			t.Errorf("it is not held: %+v", *sim.Target())
		}
		deleted := slices.ContainsFunc(sim.Applied(), func(a rollout.Act) bool { return a.Delete != nil })
		if deleted == parallel {
			t.Errorf("parallel %v: a pod was deleted: %v", parallel, deleted)
		}
		if f, _ := sim.Observe(t.Context()); rollout.Modified(f.Wanted, p.at) {
			t.Error("the template of the source counts as a new wish")
		}
		sim.SetTemplate("r3")
		p.until("the next rollout", func() bool { return p.at.TargetRevision == "r3" })
		p.ends(rollout.Succeeded)
	}
}

func TestDeadlinePauses(t *testing.T) {
	deadline := rollout.Duration(20 * time.Second)
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), BatchDeadline: &deadline})
	sim.Break("r2")
	p.until("pause", func() bool { return p.at.Pause != nil })
	if p.at.Pause.By != rollout.ByDeadline || p.at.Pause.Reason != "BatchDeadline" {
		t.Fatalf("the pause is %+v", p.at.Pause)
	}
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb, By: "eve"}
	p.ends(rollout.Failed)
	if got := p.revisions(); got != "r1 r1 r1 r1 r1" {
		t.Errorf("the pods have %s", got)
	}
}

func TestScaleIsTakenBack(t *testing.T) {
	sim := workloadtest.NewSim(rollout.StatefulSet, 3)
	size := 9
	sim.Wanted.TargetSize = &size
	p := newPlayer(t, sim, rollout.Plan{TargetSize: &size, NumBatches: new(3)})
	p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
	p.ends(rollout.Failed)
	if got := sim.Target().Replicas; got != 3 {
		t.Errorf("it has %d replicas", got)
	}
}

func TestDeploymentsAreTakenBack(t *testing.T) {
	sim := workloadtest.NewSim(rollout.Deployment, 4).WithSource()
	p := newPlayer(t, sim, rollout.Plan{NumBatches: new(4)})
	p.until("batch 2", func() bool { return p.at.CurrentBatch == 2 })
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
	p.ends(rollout.Failed)
	f, _ := sim.Observe(t.Context())
	if f.Target.Replicas != 0 || f.Sources[0].Replicas != 4 {
		t.Errorf("the target has %d replicas, the source %d", f.Target.Replicas, f.Sources[0].Replicas)
	}
}

func TestTheOldTemplatePutBackIsARollback(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(2, 3), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	sim.SetTemplate("r1")
	p.ends(rollout.Failed)
	if p.at.Rollback == nil || p.revisions() != "r1 r1 r1 r1 r1" {
		t.Errorf("rollback %+v, pods %s", p.at.Rollback, p.revisions())
	}
}

func TestASecondTemplateInTheMiddle(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(2, 3), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r3", rollout.HoldAll }) // the guard adds the hold
	p.until("another number", func() bool { return p.at.Number == 2 })
	p.plan.BatchPartition = nil
	p.ends(rollout.Succeeded)
	if got := p.revisions(); got != "r3 r3 r3 r3 r3" {
		t.Errorf("the pods have %s", got)
	}
}

func TestABrokenRevisionIsReplacedByAThird(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(2, 3)})
	sim.Break("r2")
	p.waitsFor("PodsNotReady")
	for range 10 {
		p.pass()
	}
	sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r3", rollout.HoldAll })
	p.ends(rollout.Succeeded)
	if got := p.revisions(); got != "r3 r3 r3 r3 r3" {
		t.Errorf("the pods have %s", got)
	}
}

func TestResizeDuringARollout(t *testing.T) {
	for _, to := range []int{8, 3} {
		p, sim := forward(t, rollout.Plan{RolloutBatches: []rollout.Batch{{Replicas: rollout.Percent(20)}, {Replicas: rollout.Percent(40)}, {}}, BatchPartition: new(0)})
		p.waitsFor("HeldByPartition")
		sim.Edit(func(w *rollout.WorkloadFacts) { w.Replicas = to })
		p.until("the replan", func() bool { return p.at.Replans == 1 })
		if *p.at.TargetSize != to {
			t.Errorf("the target size is %d", *p.at.TargetSize)
		}
		lowest := rollout.HoldAll
		p.look = func(p *player) {
			if w := sim.Target(); w.Controller != nil {
				if w.Partition > lowest {
					t.Errorf("the partition rose from %d to %d", lowest, w.Partition)
				}
				lowest = w.Partition
			}
		}
		p.plan.BatchPartition = nil
		p.ends(rollout.Succeeded)
		f, _ := sim.Observe(t.Context())
		if len(f.Pods) != to || strings.Contains(p.revisions(), "r1") {
			t.Errorf("to %d: the pods have %s", to, p.revisions())
		}
	}
}

func TestAContestedScalePauses(t *testing.T) {
	sim := workloadtest.NewSim(rollout.CloneSet, 3)
	size := 9
	sim.Wanted.TargetSize = &size
	p := newPlayer(t, sim, rollout.Plan{TargetSize: &size, NumBatches: new(3)})
	p.until("a batch", func() bool { return p.at.BatchState == rollout.BatchVerifying })
	p.look = func(*player) {
		if sim.Target().Replicas != 1 {
			sim.Edit(func(w *rollout.WorkloadFacts) { w.Replicas = 1 })
		}
	}
	p.until("pause", func() bool { return p.at.Pause != nil })
	if p.at.Pause.Reason != "ReplicasContested" {
		t.Errorf("the pause is %+v", p.at.Pause)
	}
	p.look = nil
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Resume, Pause: p.at.Pause.ID}
	p.ends(rollout.Succeeded)
	if got := sim.Target().Replicas; got != 9 {
		t.Errorf("it has %d replicas", got)
	}
}

func TestQuorumIsKept(t *testing.T) {
	plan := rollout.Plan{RolloutBatches: batches(5), Disruption: &rollout.Disruption{Quorum: &rollout.Quorum{
		Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Healthy{IntOrPercent: rollout.IntOrPercent{Value: 4}},
	}}}
	for _, parallel := range []bool{false, true} {
		p, sim := forward(t, plan)
		if parallel {
			sim.Parallel()
		}
		least := 5
		p.look = func(*player) {
			f, _ := sim.Observe(t.Context())
			ready := 0
			for _, pod := range f.Pods {
				if pod.Ready {
					ready++
				}
			}
			least = min(least, ready)
		}
		p.ends(rollout.Succeeded)
		if least != 4 {
			t.Errorf("parallel %v: %d pods were ready", parallel, least)
		}
	}
}

func TestAShortQuorumReleasesNothing(t *testing.T) {
	p, sim := forward(t, rollout.Plan{Disruption: &rollout.Disruption{Quorum: &rollout.Quorum{
		Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority,
	}}})
	sim.Fail("db-0")
	sim.Fail("db-1")
	p.waitsFor("Quorum")
	if got := sim.Target().Partition; got != rollout.HoldAll {
		t.Errorf("the partition is %d", got)
	}
}

func TestPodDisruptionBudget(t *testing.T) {
	p, sim := forward(t, rollout.Plan{})
	sim.Budgets = []rollout.PodBudget{{Name: "db", Allowed: 0, Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}}}
	p.waitsFor("DisruptionBudget")
	if !strings.Contains(p.at.Waiting.Message, "db") || sim.Target().Partition != rollout.HoldAll {
		t.Errorf("%+v, partition %d", p.at.Waiting, sim.Target().Partition)
	}
	sim.Budgets[0].Allowed = 1
	p.ends(rollout.Succeeded)
}

func TestTheLeaderGoesLastAfterAHandover(t *testing.T) {
	leader := "db-3"
	p, sim := forward(t, rollout.Plan{Order: &rollout.Order{RoleLabel: "role", Roles: []string{"replica", "leader"}, Handover: &rollout.Handover{
		Exec: &rollout.ExecProbe{Command: []string{"move-leader"}},
	}}})
	sim.Roles = func(p rollout.Pod) string {
		if p.Name == leader {
			return "leader"
		}
		return "replica"
	}
	asked := 0
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		if a.Kind == rollout.AskHandover {
			if asked++; asked > 1 { // the first attempt says yes, and nothing moves
				leader = "db-0"
			}
		}
		return rollout.Answer{}
	}
	p.ends(rollout.Succeeded)
	var order []string
	for _, a := range sim.Applied() {
		if a.Evict != nil {
			order = append(order, a.Evict.Name)
		}
	}
	if got := strings.Join(order, " "); got != "db-4 db-2 db-1 db-0 db-3" {
		t.Errorf("the order was %s", got)
	}
	if w := sim.Target(); w.UpdateType != rollout.RollingUpdate || w.Partition != rollout.HoldAll {
		t.Errorf("it is left with %s, partition %d", w.UpdateType, w.Partition)
	}
}

func TestNamedPods(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: []rollout.Batch{{PodList: []string{"db-1"}}, {Pods: &rollout.PodSet{Ordinals: []string{"3-4"}}}, {}}})
	p.ends(rollout.Succeeded)
	var order []string
	for _, a := range sim.Applied() {
		if a.Evict != nil {
			order = append(order, a.Evict.Name)
		}
	}
	if got := strings.Join(order, " "); got != "db-1 db-4 db-3 db-2 db-0" {
		t.Errorf("the order was %s", got)
	}
}

func TestChosenOrdinalsLeaveAnAdvancedStatefulSet(t *testing.T) {
	sim := workloadtest.NewSim(rollout.AdvancedStatefulSet, 5)
	size := 4
	sim.Wanted.TargetSize = &size
	p := newPlayer(t, sim, rollout.Plan{TargetSize: &size, RolloutBatches: []rollout.Batch{{Pods: &rollout.PodSet{Ordinals: []string{"1"}}}}})
	p.ends(rollout.Succeeded)
	f, _ := sim.Observe(t.Context())
	for _, pod := range f.Pods {
		if pod.Ordinal == 1 {
			t.Errorf("pod 1 is still there: %s", sim)
		}
	}
}

func TestSoakBeginsAnewWhenAPodFalls(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), Soak: rollout.Duration(20 * time.Second), BatchPartition: new(0)})
	p.waitsFor("Soaking")
	first := *p.at.Verified
	for range 10 {
		p.pass()
	}
	sim.Fail("db-4")
	p.waitsFor("PodsNotReady")
	sim.DeletePod("db-4")
	p.waitsFor("Soaking")
	if !p.at.Verified.After(first) {
		t.Error("the soak went on")
	}
	p.waitsFor("HeldByPartition")
}

func TestHooks(t *testing.T) {
	hook := func(name string, kind rollout.HookType) rollout.Hook {
		return rollout.Hook{Name: name, Type: kind, URL: "http://hooks.example"}
	}
	p, sim := forward(t, rollout.Plan{
		RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1)}, {BatchRolloutWebhooks: []rollout.Hook{hook("extra", rollout.PreBatchHook)}}},
		RolloutWebhooks: []rollout.Hook{
			hook("begin", rollout.InitializeHook), hook("pre", rollout.PreBatchHook), hook("post", rollout.PostBatchHook), hook("end", rollout.FinalizeHook),
		},
	})
	var asked []string
	keys := map[string]string{}
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		asked = append(asked, a.Name)
		if what := a.Name + a.Phase + string(rune('0'+a.Batch)); keys[a.Key] != "" && keys[a.Key] != what {
			t.Errorf("key %s has two meanings", a.Key)
		} else {
			keys[a.Key] = what
		}
		if a.Name == "pre" && a.Attempt == 1 && a.Batch == 0 {
			return rollout.Answer{Status: 503}
		}
		if a.Name == "end" {
			return rollout.Answer{Status: 500}
		}
		return rollout.Answer{Status: 204}
	}
	p.ends(rollout.Succeeded)
	if got := strings.Join(asked, " "); got != "begin pre pre post pre extra post end end end end" {
		t.Errorf("the hooks were %s", got)
	}
}

// TestHooksOfARollback: they are called for each batch that goes back, behind the hold and before the pods,
// under keys of their own.
func TestHooksOfARollback(t *testing.T) {
	for _, test := range []struct {
		then   rollout.OnFailure
		pauses bool
	}{{rollout.OnFailurePause, true}, {rollout.OnFailureContinue, false}, {rollout.OnFailureRollback, false}} {
		p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(1), RolloutWebhooks: []rollout.Hook{
			{Name: "pre", Type: rollout.PreBatchHook, URL: "http://h", OnFailure: test.then}, {Name: "post", Type: rollout.PostBatchHook, URL: "http://h"},
		}})
		var asked []string
		keys := map[string]bool{}
		back, pods := false, ""
		p.look = func(p *player) { pods = p.revisions() }
		sim.Answers = func(a rollout.Ask) rollout.Answer {
			if asked = append(asked, a.Name); keys[a.Key] {
				t.Errorf("key %s has two meanings", a.Key)
			}
			keys[a.Key] = true
			if w := sim.Target(); back && a.Name == "pre" && a.Batch == 0 && (w.Template != "r1" || w.Partition != rollout.HoldAll || pods != "r1 r1 r2 r2 r2") {
				t.Errorf("hook %s is asked when the template is %s, the partition %d, the pods %s", a.Name, w.Template, w.Partition, pods)
			}
			if back && a.Name == "pre" && a.Batch == 1 {
				return rollout.Answer{Status: 409}
			}
			return rollout.Answer{Status: 200}
		}
		p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
		p.waitsFor("HeldByPartition")
		asked, back = nil, true
		sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
		if test.pauses {
			p.until("a pause", func() bool { return p.at.Pause != nil })
			if p.at.State != rollout.RollingBack || p.at.CurrentBatch != 1 || p.at.Pause.By != rollout.ByWebhook {
				t.Errorf("it is %s, batch %d, paused by %+v", p.at.State, p.at.CurrentBatch, p.at.Pause)
			}
			sim.Wanted.Request = &rollout.Request{ID: "2", Verb: rollout.Resume}
		}
		p.ends(rollout.Failed)
		if got := strings.Join(asked, " "); got != "pre post pre post" || p.revisions() != "r1 r1 r1 r1 r1" {
			t.Errorf("%s: the hooks were %s, the pods have %s", test.then, got, p.revisions())
		}
	}
}

func TestARefusedHook(t *testing.T) {
	for _, then := range []rollout.OnFailure{rollout.OnFailurePause, rollout.OnFailureContinue, rollout.OnFailureRollback} {
		t.Run(string(then), func(t *testing.T) {
			p, sim := forward(t, rollout.Plan{OnFailure: then, RolloutBatches: batches(1, 4), RolloutWebhooks: []rollout.Hook{{Name: "check", Type: rollout.PostBatchHook, URL: "http://hooks.example"}}})
			sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Status: 409, Body: "not now"} }
			switch then {
			case rollout.OnFailureContinue:
				p.ends(rollout.Succeeded)
			case rollout.OnFailureRollback:
				p.ends(rollout.Failed)
				if p.at.Failure.Reason != "WebhookFailed" || p.revisions() != "r1 r1 r1 r1 r1" {
					t.Errorf("%+v, %s", p.at.Failure, p.revisions())
				}
			default:
				p.until("pause", func() bool { return p.at.Pause != nil })
				if p.at.Pause.By != rollout.ByWebhook || !strings.Contains(p.at.Pause.Message, "not now") {
					t.Errorf("the pause is %+v", p.at.Pause)
				}
				sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Resume}
				p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	low, high := decimal(t, "0"), decimal(t, "0.05")
	plan := rollout.Plan{RolloutBatches: batches(1, 4), CanaryMetric: []rollout.Metric{{
		Name: "errors", Interval: rollout.Duration(5 * time.Second), Count: 3, MetricsRange: rollout.Range{Min: &low, Max: &high},
		Provider: rollout.MetricProvider{Prometheus: &rollout.Prometheus{Address: "http://prometheus", Query: "errors"}}, OnFailure: rollout.OnFailureRollback,
	}}}
	p, sim := forward(t, plan)
	measured := 0
	sim.Answers = func(rollout.Ask) rollout.Answer { measured++; return rollout.Answer{Samples: []string{"0.01"}} }
	p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
	if measured != 3 {
		t.Errorf("it was measured %d times", measured)
	}
	sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Samples: []string{"0.2"}} }
	p.ends(rollout.Failed)
	if p.at.Failure.Reason != "MetricFailed" || p.revisions() != "r1 r1 r1 r1 r1" {
		t.Errorf("%+v, %s", p.at.Failure, p.revisions())
	}
}

func decimal(t *testing.T, text string) rollout.Decimal {
	t.Helper()
	d, err := rollout.ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMetricsWhileABatchSoaks: they are measured all the time, and a value out of range counts.
func TestMetricsWhileABatchSoaks(t *testing.T) {
	metric := rollout.Metric{Name: "errors", MetricsRange: rollout.Range{Max: new(decimal(t, "1"))}, Provider: rollout.MetricProvider{Prometheus: &rollout.Prometheus{Address: "http://a", Query: "b"}}}
	plan := rollout.Plan{RolloutBatches: batches(1, 4), Soak: *seconds(300), CanaryMetric: []rollout.Metric{metric}}
	p, sim := forward(t, plan)
	asked := 0
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		asked++
		return rollout.Answer{Samples: []string{"0"}}
	}
	p.until("the second batch", func() bool { return p.at.CurrentBatch == 1 })
	if asked < 5 || asked > 7 {
		t.Errorf("in five minutes it was measured %d times", asked)
	}
	p, sim = forward(t, plan)
	asked = 0
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		if asked++; asked == 5 {
			return rollout.Answer{Samples: []string{"7"}}
		}
		return rollout.Answer{Samples: []string{"0"}}
	}
	p.until("a pause", func() bool { return p.at.Pause != nil })
	if p.at.Pause.Reason != "MetricFailed" || p.at.CurrentBatch != 0 {
		t.Errorf("it is paused by %+v in batch %d", p.at.Pause, p.at.CurrentBatch)
	}
}

func TestGates(t *testing.T) {
	timeout := rollout.Duration(3 * time.Minute)
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), Gates: []rollout.Gate{
		{Name: "window", When: rollout.BeforeBatch, Expression: "true", Timeout: &timeout}, {Name: "pods", When: rollout.BeforePod, Expression: "true"},
	}})
	open := false
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		return rollout.Answer{Open: open || a.Name != "window", Value: "hour 12"}
	}
	p.until("closed gate", func() bool { return p.at.Waiting != nil && p.at.Waiting.Reason == "GateClosed" })
	if sim.Target().Partition != rollout.HoldAll {
		t.Error("a pod was released behind a closed gate")
	}
	open = true
	sim.Answer(nil)
	p.ends(rollout.Succeeded)
}

func TestDeletion(t *testing.T) {
	for _, test := range []struct {
		policy rollout.DeletionPolicy
		pods   string
	}{{rollout.Keep, "r1 r1 r1 r2 r2"}, {rollout.RollbackOnDelete, "r1 r1 r1 r1 r1"}, {rollout.Complete, "r2 r2 r2 r2 r2"}} {
		t.Run(string(test.policy), func(t *testing.T) {
			p, sim := forward(t, rollout.Plan{RolloutBatches: batches(2, 3), BatchPartition: new(0)})
			p.waitsFor("HeldByPartition")
			p.plan.Paused = true // a person's pause does not hold a deletion
			p.waitsFor("PausedByUser")
			sim.Wanted.Deleting, sim.Wanted.DeletionPolicy = true, test.policy
			sim.Target().Controller, sim.Target().Anchored = nil, false // as the garbage collector of a foreground deletion does
			p.until("the end", func() bool { return p.at.State.Terminal() && p.last.Outcome.IsDone() })
			got := strings.Fields(p.revisions())
			slices.Sort(got)
			if strings.Join(got, " ") != test.pods {
				t.Errorf("the pods have %v", got)
			}
			if w := sim.Target(); w.Controller != nil || w.Held != (test.policy == rollout.Keep) {
				t.Errorf("it is left as %+v", *w)
			}
		})
	}
}

func TestAnotherControllerIsRefused(t *testing.T) {
	p, sim := forward(t, rollout.Plan{})
	sim.Target().Controller = &rollout.Owner{Kind: "Rollout", Name: "other", UID: "other"}
	p.ends(rollout.Failed)
	if p.at.Failure.Reason != "ClaimedByOther" || sim.Target().Controller.UID != "other" {
		t.Errorf("%+v, controller %+v", p.at.Failure, sim.Target().Controller)
	}
	p, sim = forward(t, rollout.Plan{})
	sim.Target().Controller = &rollout.Owner{Kind: "Rollout", Name: "other", UID: "other", Gone: true}
	p.ends(rollout.Succeeded)
}

func TestALostClaimIsTakenAgain(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4)})
	p.waitsFor("PodsNotReady")
	sim.Target().Controller, sim.Target().Anchored, sim.Target().Held = nil, false, false
	p.pass()
	if w := sim.Target(); w.Controller == nil || !w.Anchored || !w.Held {
		t.Errorf("it is left as %+v", *w)
	}
	p.ends(rollout.Succeeded)
}

func TestTheWorkloadMadeAgain(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4)})
	p.waitsFor("PodsNotReady")
	sim.Target().UID, sim.Target().Controller = "another", nil
	p.ends(rollout.Failed)
	if p.at.Failure.Reason != "TargetReplaced" || p.at.BatchState != rollout.BatchVerifyFailed {
		t.Errorf("%+v, %s", p.at.Failure, p.at.BatchState)
	}
}

func TestAStateOfANewerVersion(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4)})
	p.waitsFor("PodsNotReady")
	p.at.State = "shadowing"
	writes := len(sim.Applied())
	for range 5 {
		p.pass()
	}
	if p.at.State != "shadowing" || len(sim.Applied()) != writes || !p.last.Outcome.IsFail() {
		t.Fatalf("it is %s after %d writes: %s", p.at.State, len(sim.Applied())-writes, p.last.Outcome)
	}
	sim.SetTemplate("r3")
	p.ends(rollout.Succeeded)
}

func TestAbandon(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(2, 3), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Abandon, By: "eve"}
	p.ends(rollout.Failed)
	if got := sim.Target(); got.Controller != nil || got.Partition != 3 || !got.Held {
		t.Errorf("it is left as %+v", *got)
	}
}

func TestThePlanOfBegunBatchesStays(t *testing.T) {
	p, _ := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	p.plan.RolloutBatches = batches(3, 1, 1)
	p.pass()
	if p.at.PlanRefused == "" || p.at.Batches[0].Size != 1 {
		t.Errorf("%q, batch 0 has %d pods", p.at.PlanRefused, p.at.Batches[0].Size)
	}
	p.plan.RolloutBatches = batches(1, 1, 1, 2)
	p.pass()
	if p.at.PlanRefused != "" || len(p.at.Batches) != 4 {
		t.Errorf("%q, %d batches", p.at.PlanRefused, len(p.at.Batches))
	}
	p.plan.BatchPartition = nil
	p.ends(rollout.Succeeded)
}
