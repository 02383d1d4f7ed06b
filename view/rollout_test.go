package view

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
)

// sampleRollout is a StatefulSet of five in its second batch of three, where a gate is closed.
func sampleRollout(t *testing.T, edit func(*rollout.Position, *rollout.Facts)) (Rollout, rollout.Plan) {
	t.Helper()
	moment := func(text string) *time.Time { at := at(text); return &at }
	plan := rollout.Plan{
		RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1)}, {Replicas: rollout.Int(2)}, {}},
		BatchPartition: new(1),
		Gates:          []rollout.Gate{{Name: "lag", When: rollout.AfterBatch, Expression: "pods.all(p, p.ready)"}},
		CanaryMetric:   []rollout.Metric{{Name: "errors", Count: 3, MetricsRange: rollout.Range{Max: new(decimal(t, "0.05"))}}},
	}
	position := rollout.Position{
		State: rollout.InBatch, BatchState: rollout.BatchVerifying, CurrentBatch: 1, Mode: rollout.Rollout, OriginalSize: new(5), TargetSize: new(5),
		TargetRevision: "etcd-7d9", SourceRevision: "etcd-5c4", TargetHash: "etcd-7d9", SourceHash: "etcd-5c4", Upgraded: 2, UpgradedReady: 1,
		Batches: map[int]rollout.BatchPosition{
			0: {Size: 1, Target: 1, Start: moment("2026-03-01T02:40:00Z"), End: moment("2026-03-01T02:42:30Z")},
			1: {Size: 2, Target: 3, Start: moment("2026-03-01T02:48:00Z")},
			2: {Size: 2, Target: 5},
		},
		Waiting: &rollout.Waiting{Reason: "PodsNotReady", Message: "1 of 2 pods of batch 1 are ready", Since: at("2026-03-01T02:48:10Z"), Deadline: moment("2026-03-01T03:08:00Z")},
		Answers: map[string]rollout.AnswerPosition{"u/0/rollout/1/gate/lag": {Value: "false", Since: moment("2026-03-01T02:49:00Z")},
			"u/0/rollout/1/metric/errors": {Value: "0.012", Attempts: 2, Measured: &rollout.Measured{Passed: 2}, Next: moment("2026-03-01T02:50:45Z")}},
		Number: 0, Sequence: 9,
	}
	f := rollout.Facts{Rollout: rollout.Identity{UID: "u"}, Target: &rollout.WorkloadFacts{Kind: rollout.StatefulSet, Name: "etcd", UID: "w", Replicas: 5, UpdateRevision: "etcd-7d9"}}
	for i := range 5 {
		p := rollout.Pod{Name: "etcd-" + string(rune('0'+i)), Ordinal: i, Revision: "etcd-5c4", Ready: true, Role: "follower", Zone: "z" + string(rune('a'+i%3))}
		if i >= 3 {
			p.Revision, p.Ready = "etcd-7d9", i == 4
		}
		f.Pods = append(f.Pods, p)
	}
	f.Pods[1].Role = "leader"
	if edit != nil {
		edit(&position, &f)
	}
	status, err := json.Marshal(position)
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	_ = json.Unmarshal(status, &whole)
	whole["observedGeneration"] = 2
	whole["summary"] = map[string]any{"remedy": "Look at the pods: kubectl describe pod."}
	whole["history"] = map[string]any{"9": rollout.Record{Sequence: 9, Time: at("2026-03-01T02:48:00Z"), Event: rollout.BatchRolloutApproved, To: "rollingInBatches/batchInitializing", Batch: 1, By: "ann", Why: "smoke tests passed"}}
	status, _ = json.Marshal(whole)
	spec, err := json.Marshal(map[string]any{"targetRef": map[string]any{"kind": "StatefulSet", "name": "etcd"}, "rolloutPlan": plan})
	if err != nil {
		t.Fatal(err)
	}
	r, err := RolloutOf(control.Object{Ref: control.Ref{Kind: RolloutKind, Namespace: "prod", Name: "etcd"}, Generation: 2, Spec: spec, Status: status})
	if err != nil {
		t.Fatal(err)
	}
	return r.With(plan, f), plan
}

func decimal(t *testing.T, text string) rollout.Decimal {
	t.Helper()
	var d rollout.Decimal
	if err := json.Unmarshal([]byte(`"`+text+`"`), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRolloutText(t *testing.T) {
	r, _ := sampleRollout(t, nil)
	golden(t, "rollout-describe.txt", DescribeRollout(r, now, Style{}))
	golden(t, "rollout-watch.txt", strings.Join(DrawRollout(r, now, Style{}), "\n")+"\n")
	narrow := DrawRollout(r, now, Style{Width: 60})
	golden(t, "rollout-watch-narrow.txt", strings.Join(narrow, "\n")+"\n")
	for _, line := range narrow {
		if n := len([]rune(line)); n > 60 {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
	failed, _ := sampleRollout(t, func(at *rollout.Position, _ *rollout.Facts) {
		at.State, at.Waiting, at.Failure = rollout.Failed, nil, &rollout.Failure{Reason: "RolledBack", Message: "batch 1 was not done by 03:08"}
	})
	refused, _ := sampleRollout(t, func(at *rollout.Position, _ *rollout.Facts) {
		at.PlanRefused = "rolloutBatches[0]: the batch has begun"
	})
	if line := refused.Line(now); !strings.Contains(line, "PlanChangeRefused: rolloutBatches[0]: the batch has begun") {
		t.Errorf("a refused edit of the plan is not in %q", line)
	}
	golden(t, "rollout-watch-failed.txt", strings.Join(DrawRollout(failed, now, Style{}), "\n")+"\n")
}

func TestRolloutPlanText(t *testing.T) {
	plan := rollout.Plan{NumBatches: new(2), BatchPartition: new(0), Gates: []rollout.Gate{{Name: "lag", When: rollout.BeforeBatch, Expression: "true"}}}
	for _, kind := range []rollout.HookType{rollout.InitializeHook, rollout.PreBatchHook, rollout.FinalizeHook, rollout.EventHook} {
		plan.RolloutWebhooks = append(plan.RolloutWebhooks, rollout.Hook{Name: "tell", Type: kind, URL: "http://hooks.example"})
		plan.RolloutWebhooks[len(plan.RolloutWebhooks)-1].Name += "-" + string(kind[:3])
	}
	preview := func(kind rollout.Kind, p rollout.Plan, edit func(*rollout.Facts)) []rollout.BatchPreview {
		f := rollout.IdealFacts(kind, "etcd", 3, p)
		edit(&f)
		batches, err := rollout.Preview(p, f)
		if err != nil {
			t.Fatal(err)
		}
		return batches
	}
	roles := func(f *rollout.Facts) {
		f.Target.Guarded = false
		for i := range f.Pods {
			f.Pods[i].Role, f.Pods[i].Zone = "follower", "z"+string(rune('a'+i))
		}
	}
	text := RolloutPlan{Rollout: "prod/etcd", Workload: "StatefulSet etcd", Replicas: 3, Batches: preview(rollout.StatefulSet, plan, roles), Assumed: true}.Text(Style{})
	text += RolloutPlan{Rollout: "prod/web", Workload: "Deployment web", Replicas: 3, Batches: preview(rollout.Deployment, rollout.Plan{NumBatches: new(2)}, func(*rollout.Facts) {})}.Text(Style{})
	golden(t, "rollout-plan.txt", text)
}

// TestRolloutVerbs: a button says why it is of no use.
func TestRolloutVerbs(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*rollout.Position, *rollout.Facts)
		want string // those that are of use
	}{
		{"in a batch", nil, "approve pause undo abandon"},
		{"paused", func(at *rollout.Position, _ *rollout.Facts) { at.Pause = &rollout.Pause{ID: "1"} }, "approve pause resume retry undo abandon"},
		{"all approved", func(at *rollout.Position, _ *rollout.Facts) { at.Approved = &rollout.Approval{Batch: 2} }, "pause undo abandon"},
		{"going back", func(at *rollout.Position, _ *rollout.Facts) { at.State = rollout.RollingBack }, "pause abandon"},
		{"ended", func(at *rollout.Position, _ *rollout.Facts) { at.State = rollout.Succeeded }, "pause undo"},
		{"at rest", func(at *rollout.Position, _ *rollout.Facts) { *at = rollout.Position{State: rollout.Locating} }, "pause"},
	} {
		r, _ := sampleRollout(t, test.edit)
		var of []string
		for _, v := range r.Verbs {
			if v.Why == "" {
				of = append(of, v.Name)
			}
		}
		if got := strings.Join(of, " "); got != test.want {
			t.Errorf("%s: %s, expected %s", test.name, got, test.want)
		}
	}
}
