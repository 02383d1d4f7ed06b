package rollout_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

// TestRecordsNameThePodsThatMoved: the record with which a batch ends has them, on the way and back.
func TestRecordsNameThePodsThatMoved(t *testing.T) {
	order := &rollout.Order{RoleLabel: "role", Roles: []string{"replica"}}
	for _, test := range []struct {
		name string
		kind rollout.Kind
		plan rollout.Plan
		size int // of a scale
		back bool
		want []string // of each batch
	}{
		{"a StatefulSet", rollout.StatefulSet, rollout.Plan{RolloutBatches: batches(1, 2, 2)}, 0, false, []string{"db-4", "db-3 db-2", "db-1 db-0"}},
		{"back", rollout.StatefulSet, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(1)}, 0, true, []string{"db-4", "db-3 db-2", "db-4", "db-3 db-2"}},
		{"named pods", rollout.StatefulSet, rollout.Plan{RolloutBatches: []rollout.Batch{{PodList: []string{"db-1"}}, {Pods: &rollout.PodSet{Ordinals: []string{"3-4"}}}, {}}}, 0, false, []string{"db-1", "db-3 db-4", "db-0 db-2"}},
		{"back by role", rollout.StatefulSet, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(1), Order: order}, 0, true, []string{"db-4", "db-2 db-3", "db-4", "db-2 db-3"}},
		{"a larger set", rollout.StatefulSet, rollout.Plan{NumBatches: new(2)}, 8, false, []string{"db-5", "db-7 db-6"}},
		{"a smaller set", rollout.StatefulSet, rollout.Plan{NumBatches: new(2)}, 2, false, []string{"db-4", "db-3 db-2"}},
		{"chosen ordinals", rollout.AdvancedStatefulSet, rollout.Plan{RolloutBatches: []rollout.Batch{{Pods: &rollout.PodSet{Ordinals: []string{"1"}}}}}, 4, false, []string{"db-1"}},
		{"a smaller CloneSet", rollout.CloneSet, rollout.Plan{}, 4, false, []string{""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sim := workloadtest.NewSim(test.kind, 5)
			if test.size > 0 {
				test.plan.TargetSize, sim.Wanted.TargetSize = &test.size, &test.size
			} else {
				sim.Wanted.HoldAlways = true
			}
			sim.Roles = func(rollout.Pod) string { return "replica" }
			p := newPlayer(t, sim, test.plan)
			if test.size == 0 {
				p.waitsFor("NothingToRoll")
				sim.SetTemplate("r2")
			}
			end := rollout.Succeeded
			if test.back {
				p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
				p.waitsFor("HeldByPartition")
				sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
				end = rollout.Failed
			}
			p.ends(end)
			if got := podsOfBatches(p.records); !slices.Equal(got, test.want) {
				t.Errorf("the records name %q, not %q", got, test.want)
			}
		})
	}
}

// TestRecordsNameTheNewPods of kinds that give them names of their own.
func TestRecordsNameTheNewPods(t *testing.T) {
	for _, sim := range []*workloadtest.Sim{workloadtest.NewSim(rollout.Deployment, 3).WithSource(), workloadtest.NewSim(rollout.CloneSet, 3)} {
		if sim.Wanted.Kind == rollout.CloneSet {
			sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r2", rollout.HoldAll })
		}
		f, _ := sim.Observe(t.Context())
		was := map[string]bool{}
		for _, pod := range f.Pods {
			was[pod.Name] = true
		}
		p := newPlayer(t, sim, rollout.Plan{RolloutBatches: batches(1, 2)})
		p.ends(rollout.Succeeded)
		var seen []string
		for i, text := range podsOfBatches(p.records) {
			names := strings.Fields(text)
			if len(names) != i+1 {
				t.Errorf("%s: batch %d names %q", sim.Wanted.Kind, i, text)
			}
			seen = append(seen, names...)
		}
		for i, name := range seen {
			if was[name] || slices.Contains(seen[:i], name) {
				t.Errorf("%s: %s is no new pod of its batch: %q", sim.Wanted.Kind, name, seen)
			}
		}
	}
}

func podsOfBatches(records []rollout.Record) (all []string) {
	for _, r := range records {
		if r.Event == rollout.OneBatchAvailable {
			all = append(all, strings.Join(r.Pods, " "))
		}
	}
	return all
}

// TestARecordOfALargeBatch has few names, and the number of the others.
func TestARecordOfALargeBatch(t *testing.T) {
	for _, test := range []struct {
		name        string
		pods, named int
	}{{"db", 1000, 20}, {"db", 20, 20}, {strings.Repeat("long-", 20), 20, 1}} {
		f := rollout.IdealFacts(rollout.StatefulSet, test.name, test.pods, rollout.Plan{})
		f.Target.Partition, f.Target.Held, f.Target.Anchored, f.Target.CurrentRevision = 0, true, true, "new"
		f.Target.Controller = &rollout.Owner{Name: test.name, UID: f.Rollout.UID}
		for i := range f.Pods {
			f.Pods[i].Revision = "new"
		}
		at := rollout.Position{
			State: rollout.InBatch, BatchState: rollout.BatchVerifying, Mode: rollout.Rollout, Number: 1, OriginalSize: &test.pods, TargetSize: &test.pods,
			TargetRevision: "new", SourceRevision: "old", TargetHash: "new", Batches: map[int]rollout.BatchPosition{0: {Size: test.pods, Target: test.pods}},
		}
		d := rollout.Next(rollout.Plan{}, at, f, f.Now)
		r := d.Records[0]
		if r.Event != rollout.OneBatchAvailable || len(r.Pods) != test.named || r.MorePods != test.pods-test.named {
			t.Errorf("%d pods: %s names %d of them, and %d more", test.pods, r.Event, len(r.Pods), r.MorePods)
		}
		if text := r.PodsText(); strings.Contains(text, "more") != (r.MorePods > 0) || r.MorePods > 0 && !strings.HasSuffix(text, " and "+strconv.Itoa(r.MorePods)+" more") {
			t.Errorf("%d pods: %s", test.pods, text)
		}
	}
}
