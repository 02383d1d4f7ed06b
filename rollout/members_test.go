package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// membersOf are the pods of the batches: "db-4 | db-3 db-2 | ".
func membersOf(p rollout.Plan, at rollout.Position, f rollout.Facts) string {
	var all []string
	for _, pods := range rollout.Members(p, at, f) {
		var names []string
		for _, pod := range pods {
			names = append(names, pod.Name)
		}
		all = append(all, strings.Join(names, " "))
	}
	return strings.Join(all, " | ")
}

func TestMembers(t *testing.T) {
	moved := func(f *rollout.Facts, ordinals ...int) {
		for n, o := range ordinals {
			f.Pods[o].Revision, f.Pods[o].ReadySince = "r2", time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC)
		}
	}
	for _, test := range []struct {
		name string
		edit func(*rollout.Plan, *rollout.Position, *rollout.Facts)
		want string
	}{
		{"by ordinal", func(*rollout.Plan, *rollout.Position, *rollout.Facts) {}, "db-4 db-3 | db-2 db-1 db-0"},
		{"no batches yet", func(_ *rollout.Plan, at *rollout.Position, _ *rollout.Facts) { at.Batches = nil }, ""},
		{"no workload", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) { f.Target = nil }, " | "},
		{"by role, and as they moved", func(p *rollout.Plan, _ *rollout.Position, f *rollout.Facts) {
			p.Order = &rollout.Order{Roles: []string{"replica", "leader"}}
			for i := range f.Pods {
				f.Pods[i].Role = "replica"
			}
			f.Pods[3].Role = "leader"
			moved(f, 1, 4)
		}, "db-1 db-4 | db-2 db-0 db-3"},
		{"by name", func(p *rollout.Plan, at *rollout.Position, _ *rollout.Facts) {
			p.RolloutBatches[0].PodList = []string{"db-0", "db-2"}
			b := at.Batches[0]
			b.PodList = p.RolloutBatches[0].PodList
			at.Batches[0] = b
		}, "db-2 db-0 | db-4 db-3 db-1"},
		{"a CloneSet chooses", func(_ *rollout.Plan, _ *rollout.Position, f *rollout.Facts) {
			f.Target.Kind = rollout.CloneSet
			moved(f, 3, 0, 1)
		}, "db-3 db-0 | db-1"},
		{"a scale up", func(_ *rollout.Plan, at *rollout.Position, _ *rollout.Facts) {
			at.Mode, at.OriginalSize, at.TargetSize = rollout.Scale, new(2), new(7)
		}, "db-2 db-3 | db-4"},
		{"a scale down", func(_ *rollout.Plan, at *rollout.Position, _ *rollout.Facts) {
			at.Mode, at.OriginalSize, at.TargetSize = rollout.Scale, new(6), new(1)
		}, "db-4 | db-3 db-2 db-1"},
	} {
		p, at, f := in(test.edit)
		if got := membersOf(p, at, f); got != test.want {
			t.Errorf("%s: %q, expected %q", test.name, got, test.want)
		}
	}
}

func TestPreviewFrom(t *testing.T) {
	p, at, f := in(func(_ *rollout.Plan, at *rollout.Position, f *rollout.Facts) {
		f.Target.Partition, at.CurrentBatch, at.BatchState = 3, 0, rollout.BatchReady
		f.Pods[4].Revision, f.Pods[3].Revision = "r2", "r2"
		at.Pause = &rollout.Pause{ID: "1", By: rollout.ByGate, Reason: "GateClosed"}
	})
	all, err := rollout.PreviewFrom(p, at, f)
	if err != nil {
		t.Fatal(err)
	}
	want := `
0: 2 pods to 2 [], 0 writes, 0 away, at worst 0, the hold is not guarded: a write of the template by somebody else releases pods
1: 3 pods to 5 [db-2 db-1 db-0], 1 writes, 1 away, at worst 3, partition 0, paused: GateClosed
`
	if got := "\n" + lines(all); got != want {
		t.Errorf("%s", got)
	}
	if len(at.Batches) != 2 || at.Pause == nil {
		t.Error("the position was changed")
	}
}

// TestPreviewOfTheRest: stops and hooks are those of the batches that come.
func TestPreviewOfTheRest(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*rollout.Plan, *rollout.Position)
		want string // by batch
	}{
		{"paused in the first", func(p *rollout.Plan, at *rollout.Position) { p.Paused = true }, "pre-batch-rollout p, event e, paused | pre-batch-rollout p, event e, finalize-rollout f"},
		{"paused behind it", func(p *rollout.Plan, at *rollout.Position) { p.Paused, at.BatchState = true, rollout.BatchReady }, " | pre-batch-rollout p, event e, finalize-rollout f, paused"},
		{"resumed", func(p *rollout.Plan, at *rollout.Position) { p.Paused, at.Resumed = true, true }, "pre-batch-rollout p, event e | pre-batch-rollout p, event e, finalize-rollout f"},
		{"held", func(p *rollout.Plan, at *rollout.Position) { p.BatchPartition = new(0) }, "pre-batch-rollout p, event e | pre-batch-rollout p, event e, finalize-rollout f, batchPartition 0: waits for an approval"},
		{"approved", func(p *rollout.Plan, at *rollout.Position) {
			p.BatchPartition, at.Approved = new(0), &rollout.Approval{Batch: 1, Partition: new(0)}
		}, "pre-batch-rollout p, event e | pre-batch-rollout p, event e, finalize-rollout f"},
		{"the end", func(p *rollout.Plan, at *rollout.Position) {
			p.Paused, at.State, at.BatchState, at.CurrentBatch = true, rollout.Finalising, rollout.BatchReady, 1
		}, " | event e, finalize-rollout f"},
	} {
		p, at, f := in(func(p *rollout.Plan, at *rollout.Position, f *rollout.Facts) {
			f.Target.Partition, f.Target.Guarded = 3, true
			f.Pods[4].Revision, f.Pods[3].Revision = "r2", "r2"
			for kind, name := range map[rollout.HookType]string{rollout.InitializeHook: "i", rollout.PreBatchHook: "p", rollout.FinalizeHook: "f", rollout.EventHook: "e"} {
				p.RolloutWebhooks = append(p.RolloutWebhooks, rollout.Hook{Name: name, Type: kind, URL: "http://h"})
			}
			at.BatchState = rollout.BatchVerifying
			test.edit(p, at)
			if at.State == rollout.Finalising {
				f.Target.Partition, f.Target.CurrentRevision = 0, f.Target.UpdateRevision
				for i := range f.Pods {
					f.Pods[i].Revision = "r2"
				}
			}
		})
		all, err := rollout.PreviewFrom(p, at, f)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got []string
		for _, b := range all {
			got = append(got, strings.Join(append(b.Webhooks, b.Stops...), ", "))
		}
		if got := strings.Join(got, " | "); got != test.want {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

func TestChecks(t *testing.T) {
	low, high := decimal(t, "0"), decimal(t, "0.05")
	next := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	p, at, f := in(func(p *rollout.Plan, at *rollout.Position, f *rollout.Facts) {
		p.Gates = []rollout.Gate{{Name: "window", When: rollout.BeforeBatch, Expression: "now.getHours() > 22"}}
		p.RolloutWebhooks = []rollout.Hook{{Name: "told", Type: rollout.PostBatchHook, Flow: "tell"}, {Name: "asked", Type: rollout.PreBatchHook, URL: "http://x"}}
		p.Probes = []rollout.Probe{{Name: "alive"}}
		p.CanaryMetric = []rollout.Metric{{Name: "errors", Count: 3, MetricsRange: rollout.Range{Min: &low, Max: &high}}}
		f.Pods[0].Probes = map[string]rollout.ProbeFacts{"alive": {Passing: true}}
		f.Pods[1].Probes = map[string]rollout.ProbeFacts{"alive": {Failed: true}}
		at.Answers = map[string]rollout.AnswerPosition{
			"me/0/rollout/0/gate/window":             {Verdict: "Closed", Value: "false", Since: &next},
			"me/0/rollout/0/metric/errors":           {Value: "0.01", Measured: &rollout.Measured{Passed: 2}, Next: &next},
			"me/0/rollout/1/metric/errors":           {Value: "of another batch"},
			"me/0/rollout/0/batchInitializing/asked": {Verdict: "Passed", Attempts: 2},
		}
	})
	got := rollout.Checks(p, at, f)
	want := []rollout.Check{
		{Kind: "Gate", Name: "window", Wants: "now.getHours() > 22", When: "BeforeBatch", Verdict: "Closed", Value: "false", Since: &next},
		{Kind: "Webhook", Name: "asked", Wants: "http://x", When: "pre-batch-rollout", Verdict: "Passed", Attempts: 2},
		{Kind: "Probe", Name: "alive", Verdict: "Failed", Passed: 1, Of: 2},
		{Kind: "Metric", Name: "errors", Wants: "0 to 0.05", When: "every 1m0s", Value: "0.01", Passed: 2, Of: 3, Next: &next},
		{Kind: "Webhook", Name: "told", Wants: "flow tell", When: "post-batch-rollout"},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, expected %+v", got[i], want[i])
		}
	}
	at.State, at.Rollback = rollout.RollingBack, &rollout.RollbackPosition{}
	at.Answers = map[string]rollout.AnswerPosition{"me/0/rollback/0/batchInitializing/asked": {Attempts: 1}}
	if back := rollout.Checks(p, at, f); len(back) != 3 || back[0].Name != "asked" || back[0].Attempts != 1 || back[1].Kind != "Probe" || back[2].Name != "told" {
		t.Errorf("a rollback checks %+v", back)
	}
	at.State = rollout.Succeeded
	if rollout.Checks(p, at, f) != nil {
		t.Error("at the end nothing is checked")
	}
}
