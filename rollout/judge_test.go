package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
)

func TestHookJudge(t *testing.T) {
	for _, test := range []struct {
		name    string
		hook    rollout.Hook
		attempt int
		answer  rollout.Answer
		want    string // passed, again, or a part of the message of the failure
	}{
		{"200", rollout.Hook{}, 1, rollout.Answer{Status: 200}, "passed"},
		{"204", rollout.Hook{}, 1, rollout.Answer{Status: 204}, "passed"},
		{"301", rollout.Hook{}, 1, rollout.Answer{Status: 301}, "301"},
		{"404", rollout.Hook{}, 1, rollout.Answer{Status: 404, Body: strings.Repeat("x", 300)}, "status 404: " + strings.Repeat("x", 256)},
		{"an expected 404", rollout.Hook{ExpectedStatus: []int{404}}, 1, rollout.Answer{Status: 404}, "passed"},
		{"an unexpected 200", rollout.Hook{ExpectedStatus: []int{404}}, 1, rollout.Answer{Status: 200}, "status 200"},
		{"408", rollout.Hook{}, 1, rollout.Answer{Status: 408}, "again"},
		{"425", rollout.Hook{}, 2, rollout.Answer{Status: 425}, "again"},
		{"429", rollout.Hook{}, 3, rollout.Answer{Status: 429}, "again"},
		{"500, the last attempt", rollout.Hook{}, 4, rollout.Answer{Status: 500}, "500"},
		{"500, no retries", rollout.Hook{Retries: new(0)}, 1, rollout.Answer{Status: 500}, "500"},
		{"no answer", rollout.Hook{}, 1, rollout.Answer{Code: "HTTP_UNAVAILABLE", Message: "timeout"}, "again"},
		{"no answer, the last attempt", rollout.Hook{}, 4, rollout.Answer{Code: "HTTP_UNAVAILABLE", Message: "timeout"}, "timeout"},
		{"a refused address", rollout.Hook{}, 1, rollout.Answer{Code: "HTTP_ADDRESS_REFUSED", Message: "169.254.169.254"}, "HTTP_ADDRESS_REFUSED"},
		{"a flow runs", rollout.Hook{Flow: "f"}, 1, rollout.Answer{}, "again"},
		{"a flow is paused", rollout.Hook{Flow: "f"}, 1, rollout.Answer{Run: "Paused", Code: "DISK_FULL"}, "again"},
		{"a flow has succeeded", rollout.Hook{Flow: "f"}, 1, rollout.Answer{Run: "Succeeded"}, "passed"},
		{"a flow was cancelled", rollout.Hook{Flow: "f"}, 1, rollout.Answer{Run: "Cancelled"}, "the run of flow f ended"},
	} {
		v := test.hook.Judge(test.attempt, test.answer)
		switch {
		case test.want == "passed" && v.Done, test.want == "again" && v.Outcome.IsWait():
		case v.Outcome.IsFail() && fault.Of(v.Outcome.Err()) == rollout.WebhookFailed && strings.Contains(v.Outcome.Message(), test.want):
		default:
			t.Errorf("%s: %+v %s", test.name, v.Done, v.Outcome)
		}
	}
	var last time.Duration
	for attempt := 1; attempt < 4; attempt++ {
		after := rollout.Hook{Name: "a"}.Judge(attempt, rollout.Answer{Status: 500}).Outcome.After()
		if after <= last || after > time.Minute {
			t.Errorf("attempt %d follows after %s", attempt, after)
		}
		last = after
	}
	if after := (rollout.Hook{}).Judge(1, rollout.Answer{Status: 429, RetryAfter: rollout.Duration(20 * time.Second)}).Outcome.After(); after != 20*time.Second {
		t.Errorf("Retry-After of 20s gives %s", after)
	}
}

func TestMetricJudge(t *testing.T) {
	low, high := decimal(t, "0"), decimal(t, "0.05")
	metric := rollout.Metric{Name: "errors", Interval: rollout.Duration(5 * time.Second), Count: 2, FailureLimit: 1, InconclusiveLimit: new(1), MetricsRange: rollout.Range{Min: &low, Max: &high}}
	for _, test := range []struct {
		name   string
		answer rollout.Answer
		so     rollout.Measured
		want   rollout.Measured
		kind   *fault.Kind // nil: no failure
		done   bool
	}{
		{"inside", rollout.Answer{Samples: []string{"0.05"}}, rollout.Measured{}, rollout.Measured{Passed: 1}, nil, false},
		{"the last one", rollout.Answer{Samples: []string{"0", "0.01"}}, rollout.Measured{Passed: 1, Inconclusive: 1}, rollout.Measured{Passed: 2}, nil, true},
		{"one outside", rollout.Answer{Samples: []string{"0.01", "0.051"}}, rollout.Measured{}, rollout.Measured{Failed: 1}, nil, false},
		{"too often outside", rollout.Answer{Samples: []string{"-1"}}, rollout.Measured{Failed: 1}, rollout.Measured{Failed: 2}, rollout.MetricFailed, false},
		{"no sample", rollout.Answer{}, rollout.Measured{}, rollout.Measured{Inconclusive: 1}, nil, false},
		{"NaN", rollout.Answer{Samples: []string{"NaN"}}, rollout.Measured{Inconclusive: 1}, rollout.Measured{Inconclusive: 2}, rollout.MetricInconclusive, false},
		{"infinity", rollout.Answer{Samples: []string{"+Inf"}}, rollout.Measured{}, rollout.Measured{Inconclusive: 1}, nil, false},
		{"an error", rollout.Answer{Code: "HTTP_UNAVAILABLE", Message: "no route"}, rollout.Measured{Passed: 1}, rollout.Measured{Passed: 1, Inconclusive: 1}, nil, false},
		{"no number", rollout.Answer{Samples: []string{"many"}}, rollout.Measured{}, rollout.Measured{Inconclusive: 1}, nil, false},
	} {
		v := metric.Judge(test.answer, test.so)
		if v.Measured != test.want || v.Done != test.done || fault.Of(v.Outcome.Err()) != test.kind {
			t.Errorf("%s: %+v, done %v, %s", test.name, v.Measured, v.Done, v.Outcome)
		}
		if !v.Done && test.kind == nil && v.Outcome.After() != 5*time.Second {
			t.Errorf("%s: again after %s", test.name, v.Outcome.After())
		}
	}
}

func TestModifiedAndSettled(t *testing.T) {
	ended := rollout.Position{State: rollout.Succeeded, Mode: rollout.Rollout, TargetRevision: "r2", SourceRevision: "r1", TargetSize: new(5)}
	running := ended
	running.State, running.BatchState = rollout.InBatch, rollout.BatchVerifying
	back := ended
	back.State, back.Rollback = rollout.Failed, &rollout.RollbackPosition{}
	for _, test := range []struct {
		name string
		want rollout.Wanted
		at   rollout.Position
		got  bool
	}{
		{"the same", rollout.Wanted{TargetRevision: "r2"}, ended, false},
		{"another template", rollout.Wanted{TargetRevision: "r3"}, ended, true},
		{"another size", rollout.Wanted{TargetRevision: "r2", TargetSize: new(7)}, ended, true},
		{"another size while it runs", rollout.Wanted{TargetRevision: "r2", TargetSize: new(7)}, running, false},
		{"the source after a rollback", rollout.Wanted{TargetRevision: "r1"}, back, false},
		{"the refused revision again", rollout.Wanted{TargetRevision: "r2"}, back, false},
		{"a third after a rollback", rollout.Wanted{TargetRevision: "r3"}, back, true},
		{"another source", rollout.Wanted{Named: true, TargetRevision: "r2", SourceRevision: "r0"}, ended, true},
		{"before it is located", rollout.Wanted{TargetRevision: "r3"}, rollout.Position{State: rollout.Locating}, false},
	} {
		if got := rollout.Modified(test.want, test.at); got != test.got {
			t.Errorf("%s: modified %v", test.name, got)
		}
		if got, want := rollout.Settled(test.want, test.at), test.at.State.Terminal() && !test.got; got != want {
			t.Errorf("%s: settled %v", test.name, got)
		}
	}
}

// in is a StatefulSet of five in the middle of a rollout of 2 and 3 pods.
func in(edit func(*rollout.Plan, *rollout.Position, *rollout.Facts)) (rollout.Plan, rollout.Position, rollout.Facts) {
	plan := rollout.Plan{RolloutBatches: batches(2, 3)}
	at := rollout.Position{
		State: rollout.InBatch, BatchState: rollout.BatchInRolling, Mode: rollout.Rollout, OriginalSize: new(5), TargetSize: new(5),
		TargetRevision: "r2", SourceRevision: "r1", SourceHash: "r1", TargetHash: "r2", TargetUID: "w",
		Batches: map[int]rollout.BatchPosition{0: {Replicas: rollout.Int(2), Size: 2, Target: 2}, 1: {Replicas: rollout.Int(3), Size: 3, Target: 5}},
	}
	f := rollout.Facts{
		Rollout: rollout.Identity{UID: "me"}, Wanted: rollout.Wanted{Kind: rollout.StatefulSet, TargetRevision: "r2"},
		Target: &rollout.WorkloadFacts{
			Kind: rollout.StatefulSet, Name: "db", UID: "w", Generation: 3, ObservedGeneration: 3, Replicas: 5, StatusReplicas: 5, Partition: rollout.HoldAll,
			UpdateType: rollout.RollingUpdate, Template: "r2", CurrentRevision: "r1", UpdateRevision: "r2", Controller: &rollout.Owner{UID: "me"}, Anchored: true, Held: true,
		},
	}
	for i := range 5 {
		f.Pods = append(f.Pods, rollout.Pod{Name: "db-" + string(rune('0'+i)), Workload: "w", Ordinal: i, Revision: "r1", Ready: true})
	}
	edit(&plan, &at, &f)
	return plan, at, f
}

func rules(t *testing.T, k rollout.Kind, m rollout.Mode) rollout.Rules {
	t.Helper()
	r, err := rollout.RulesOf(k, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRulesOfAStatefulSet(t *testing.T) {
	r := rules(t, rollout.StatefulSet, rollout.Rollout)
	partition := func(v rollout.Verdict) int {
		if len(v.Acts) != 1 || v.Acts[0].Partition == nil {
			return -1
		}
		return *v.Acts[0].Partition
	}
	p, at, f := in(func(*rollout.Plan, *rollout.Position, *rollout.Facts) {})
	if v := r.RolloutOneBatchPods(p, at, f); partition(v) != 3 {
		t.Errorf("a batch of two: %+v", v.Acts)
	}
	f.Target.Partition = 3
	if v := r.RolloutOneBatchPods(p, at, f); !v.Done {
		t.Errorf("it is released: %+v", v)
	}
	if v := r.CheckOneBatchPods(p, at, f); v.Done || v.Outcome.Reason() != "PodsNotReady" {
		t.Errorf("nothing has moved: %+v", v)
	}
	f.Pods[3].Revision, f.Pods[4].Revision = "r2", "r2"
	if v := r.CheckOneBatchPods(p, at, f); !v.Done || v.Position.UpgradedReady != 2 {
		t.Errorf("both have moved: %+v", v)
	}
	f.Pods[4].Ready = false
	if v := r.CheckOneBatchPods(p, at, f); v.Done || v.Position.Upgraded != 2 || v.Position.UpgradedReady != 1 {
		t.Errorf("one is not ready: %+v", v)
	}
	b := at.Batches[0]
	b.MaxUnavailable = rollout.Percent(20)
	at.Batches[0] = b
	if v := r.CheckOneBatchPods(p, at, f); !v.Done {
		t.Errorf("one may be missing: %+v", v)
	}
	f.Target.ObservedGeneration = 2
	if v := r.CheckOneBatchPods(p, at, f); v.Done || v.Outcome.Reason() != "WorkloadBusy" {
		t.Errorf("a stale status: %+v", v)
	}
	f.Target.ObservedGeneration = 3
	f.Target.MinReadySeconds, f.Now = 60, time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	f.Pods[4].Ready = true
	for i := range f.Pods {
		f.Pods[i].ReadySince = f.Now.Add(-50 * time.Second)
	}
	if v := r.CheckOneBatchPods(p, at, f); v.Done || v.Outcome.After() != 10*time.Second {
		t.Errorf("minReadySeconds: %+v", v.Outcome)
	}
	f.Target.Partition = 1
	if v := r.FinalizeOneBatch(p, at, f); fault.Of(v.Outcome.Err()) != rollout.BatchOutOfRange {
		t.Errorf("a partition that somebody lowered: %+v", v)
	}
}

func TestVerifySpec(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*rollout.Plan, *rollout.Position, *rollout.Facts)
		want string // the reason; empty: done
	}{
		{"good", func(*rollout.Plan, *rollout.Position, *rollout.Facts) {}, ""},
		{"a bad plan", func(p *rollout.Plan, _ *rollout.Position, _ *rollout.Facts) { p.OnFailure = "no" }, "PlanInvalid"},
		{"batches that do not fit", func(p *rollout.Plan, _ *rollout.Position, _ *rollout.Facts) { p.RolloutBatches = batches(2, 2) }, "PlanInvalid"},
		{"size and template", func(p *rollout.Plan, _ *rollout.Position, _ *rollout.Facts) { p.TargetSize = new(7) }, "SizeAndTemplateChanged"},
		{"nothing to roll", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) {
			f.Target.CurrentRevision = "r2"
			for i := range f.Pods {
				f.Pods[i].Revision = "r2"
			}
		}, "NothingToRoll"},
		{"another controller", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) {
			f.Target.Controller = &rollout.Owner{Kind: "Rollout", Name: "x", UID: "y"}
		}, "ClaimedByOther"},
		{"Recreate", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) { f.Target.UpdateType = rollout.Recreate }, "FieldNotHonoured"},
		{"an impossible quorum", func(p *rollout.Plan, _ *rollout.Position, _ *rollout.Facts) {
			p.Disruption = &rollout.Disruption{Quorum: &rollout.Quorum{MinHealthy: rollout.Healthy{IntOrPercent: rollout.IntOrPercent{Value: 5}}}}
		}, "BudgetImpossible"},
		{"a gate that cannot be evaluated", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) { f.GateProblem = "no such field" }, "GateInvalid"},
		{"a stale status", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) { f.Target.Generation = 4 }, "WorkloadBusy"},
		{"scaling", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) { f.Pods = f.Pods[:4] }, "WorkloadBusy"},
		{"updating", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) { f.Target.Partition = 2 }, "WorkloadBusy"},
	} {
		p, at, f := in(test.edit)
		at = rollout.Position{State: rollout.Verifying, BatchState: rollout.BatchInitializing, Mode: rollout.Rollout, TargetRevision: at.TargetRevision}
		v := rules(t, rollout.StatefulSet, rollout.Rollout).VerifySpec(p, at, f)
		if got := v.Outcome.Reason(); v.Done != (test.want == "") || !v.Done && got != test.want {
			t.Errorf("%s: %s", test.name, v.Outcome)
		}
		if v.Done && (len(v.Position.Batches) != 2 || *v.Position.TargetSize != 5) {
			t.Errorf("%s: %+v", test.name, v.Position)
		}
	}
	if _, err := rollout.RulesOf("DaemonSet", rollout.Rollout); fault.Of(err) != rollout.UnsupportedWorkload {
		t.Errorf("a DaemonSet: %v", err)
	}
}

func TestInitializeIsOneWrite(t *testing.T) {
	p, at, f := in(func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) {
		f.Target.Template, f.Target.Controller, f.Target.Anchored, f.Target.Held, f.Target.Partition = "r1", nil, false, false, 0
	})
	v := rules(t, rollout.StatefulSet, rollout.Rollout).Initialize(p, at, f)
	if len(v.Acts) != 1 {
		t.Fatalf("%+v", v.Acts)
	}
	if a := v.Acts[0]; a.Claim != rollout.TakeClaim || a.Template != "r2" || *a.Partition != rollout.HoldAll || a.Generation != 3 {
		t.Errorf("%+v", a)
	}
}

func TestEveryWaitHasAReason(t *testing.T) {
	p, at, f := in(func(*rollout.Plan, *rollout.Position, *rollout.Facts) {})
	f.Target = nil
	d := rollout.Next(p, at, f, time.Now())
	if !d.Outcome.IsWait() || d.Outcome.Reason() != "TargetMissing" || d.Position.Waiting == nil {
		t.Errorf("%s", d.Outcome)
	}
	f.Unserved = "CloneSet"
	d = rollout.Next(p, rollout.Position{}, f, time.Now())
	if d.Outcome.Reason() != "KindNotServed" {
		t.Errorf("%s", d.Outcome)
	}
	f.Wanted.Kind = "DaemonSet"
	d = rollout.Next(p, rollout.Position{}, f, time.Now())
	if d.Position.State != rollout.Failed || d.Position.Failure.Reason != "UnsupportedWorkload" || !d.Outcome.IsDone() {
		t.Errorf("%+v %s", d.Position, d.Outcome)
	}
}
