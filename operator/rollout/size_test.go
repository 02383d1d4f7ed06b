package rollout

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
)

// sizes keeps the sizes of the patches of a status.
type sizes struct {
	client.SubResourceWriter
	all []int
}

func (s *sizes) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	raw, err := patch.Data(obj)
	s.all = append(s.all, len(raw))
	obj.SetResourceVersion(strconv.Itoa(len(s.all) + 1))
	return err
}

// statusOnly is a client for statuses.
type statusOnly struct {
	client.Client
	s *sizes
}

func (c statusOnly) Status() client.SubResourceWriter { return c.s }

// TestStatusWriteOfABatch: a write of the status while batches roll carries at most 2 KB, with few pods
// and with many, in the first batch and in the last.
func TestStatusWriteOfABatch(t *testing.T) {
	for _, c := range []struct {
		name          string
		pods, batches int
	}{{"orders", 3, 3}, {"orders", 1000, 100}, {"orders", 1000, 200}, {"orders", 1000, 10}, {"orders-of-the-northern-region", 1000, 10}} {
		plan := rollout.Plan{NumBatches: &c.batches}
		f := rollout.IdealFacts(rollout.StatefulSet, c.name, c.pods, plan)
		written := &sizes{}
		r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "databases", Name: c.name, UID: types.UID(f.Rollout.UID), ResourceVersion: "1", Generation: 1}}
		draft, err := controller.NewDraft[*api.Rollout](statusOnly{s: written}, r)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := newMetrics(prometheus.NewRegistry(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		o, m := &Operator{metrics: counted}, &memory{asked: newAsked()}
		target := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "db"}}}}}
		at, released, now := rollout.Position{}, 0, f.Now
		most := 0
		for passes := 0; !at.State.Terminal(); passes++ {
			if passes > 10*c.batches+20 {
				t.Fatalf("%d pods: it does not end: %s/%s, %+v", c.pods, at.State, at.BatchState, at.Waiting)
			}
			now = now.Add(1234567 * time.Microsecond)
			p := &pass{Operator: o, memory: m, draft: draft, now: now, was: at, facts: f, target: target, workload: &workload.Workload{}, plan: plan, decided: true, decision: rollout.Next(plan, at, f, now)}
			if err := p.fill(p.decision.Outcome); err != nil {
				t.Fatal(err)
			}
			for i, record := range sortedRecords(r.Status.History) { // as archive does
				if i < len(r.Status.History)-inStatus {
					delete(r.Status.History, strconv.Itoa(int(record.Sequence)))
				}
			}
			wrote, err := draft.Save(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if wrote && at.State == rollout.InBatch {
				size := written.all[len(written.all)-1]
				most = max(most, size)
				if size > 2048 {
					t.Errorf("%d pods in %d batches: a write of batch %d has %d bytes", c.pods, c.batches, at.CurrentBatch, size)
				}
			}
			at = p.decision.Position
			if at.CurrentBatch > 0 && slices.ContainsFunc(p.decision.Acts, p.releases) {
				released++
			}
			for _, a := range p.decision.Acts {
				obey(&f, a)
			}
		}
		t.Logf("%d pods in %d batches: at most %d bytes", c.pods, c.batches, most)
		if at.State != rollout.Succeeded || released != c.batches-1 {
			t.Errorf("%d pods: it ended as %s, and %d batches behind the first were released, expected %d", c.pods, at.State, released, c.batches-1)
		}
	}
}

// obey makes the facts those after an act: all released pods are updated and ready at once.
func obey(f *rollout.Facts, a rollout.Act) {
	f.Target.Generation++
	f.Target.ObservedGeneration = f.Target.Generation
	switch a.Claim {
	case rollout.TakeClaim:
		f.Target.Controller, f.Target.Anchored = &rollout.Owner{Kind: "Rollout", Name: f.Rollout.Name, UID: f.Rollout.UID}, true
	case rollout.ReleaseClaim:
		f.Target.Controller, f.Target.Anchored = nil, false
	}
	if a.Held != nil {
		f.Target.Held = *a.Held
	}
	if a.Partition == nil {
		return
	}
	f.Target.Partition = *a.Partition
	for i := range f.Pods {
		if f.Pods[i].Ordinal >= f.Target.Partition {
			f.Pods[i].Revision = f.Target.UpdateRevision
		}
	}
}
