package runstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// tenSteps is the flow of the benchmarks: no-op steps, empty outputs.
func tenSteps() workflow.Flow {
	flow := workflow.Flow{Name: "Ten"}
	for i := range 10 {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("Step", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	return flow
}

// serve runs an engine on a store until the test ends.
func serve(t testing.TB, s runstore.Store, flows []workflow.Flow, o workflow.Options) *workflow.Engine {
	t.Helper()
	e, err := workflow.New(s, flows, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return e
}

// until waits for a run to reach a phase.
func until(t testing.TB, s runstore.Store, id string, phase runtype.Phase) *runtype.Run {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		runs, _, err := s.(runstore.Lister).List(t.Context(), runstore.Query{Prefix: id})
		if err == nil && len(runs) == 1 && runs[0].Phase == phase {
			return runs[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("run %s is not %s within 2 minutes: %+v, %v", id, phase, runs, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// At most 2 requests and 1 KB of bodies per step, also after many runs of one subject that
// owns them as a cluster does. Bodies of both directions count, watches do not.
func TestAStepCostsOneRequest(t *testing.T) {
	plane := suite.Plane(t)
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			space := namespace(t, plane.Client())
			owner := clusterIn(t, plane.Config(), space)
			s, wire := openOwned(t, plane.Config(), kind, space, owner)
			subject := "SharedStorageCluster/" + space + "/" + owner.Name + "/" + string(owner.UID)
			e := serve(t, s, []workflow.Flow{tenSteps()}, workflow.Options{})
			const runs, steps = 100, 10
			var parts []kubetest.Count
			for i := range runs {
				r, err := e.Start(t.Context(), workflow.Request{Flow: "Ten", Subject: subject, RequestID: fmt.Sprint(i)})
				if err != nil {
					t.Fatal(err)
				}
				until(t, s, r.ID, runtype.Succeeded)
				if (i+1)%(runs/5) == 0 {
					parts = append(parts, wire.Take())
				}
			}
			const n = runs / 5 * steps
			for i, c := range parts {
				t.Logf("runs %3d to %3d, per step: %.2f requests, %d bytes sent, %d received, %d from watches (%v)",
					i*runs/5, (i+1)*runs/5, float64(c.Requests)/n, c.Sent/n, c.Received/n, c.WatchSent/n, c.By)
			}
			first, last := parts[1], parts[len(parts)-1] // the first part opens the store too
			if perStep := float64(last.Requests) / n; perStep > 1.5 {
				t.Errorf("%.2f requests a step, want at most 1.5 for runs of 10 steps: one a step, and 4 a run", perStep)
			}
			if bytes := (last.Sent + last.Received) / n; bytes > 1024 {
				t.Errorf("%d bytes of bodies a step, want at most 1024", bytes)
			}
			if grown := float64(last.Sent+last.Received) / float64(first.Sent+first.Received); grown > 1.05 {
				t.Errorf("the bodies grow with the number of runs: %.2f times those of the first", grown)
			}
		})
	}
}

// clusterIn creates a cluster object without an operator.
func clusterIn(t testing.TB, config *rest.Config, space string) *metav1.OwnerReference {
	t.Helper()
	kind := v1alpha1.GroupVersion.WithKind("SharedStorageCluster")
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "orders"}, "spec": map[string]any{}}}
	o.SetGroupVersionKind(kind)
	clusters := dynamic.NewForConfigOrDie(config).Resource(v1alpha1.GroupVersion.WithResource("sharedstorageclusters")).Namespace(space)
	created, err := clusters.Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind.Kind, Name: created.GetName(), UID: created.GetUID()}
}

// An idle store sends no requests: its watches report new work.
func TestIdleCostsNothing(t *testing.T) {
	plane := suite.Plane(t)
	s, wire := open(t, plane.Config(), kuberuns.Run, namespace(t, plane.Client()))
	e := serve(t, s, []workflow.Flow{{Name: "Wait", Steps: []workflow.Step{{Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}}}}}, workflow.Options{PollInterval: 50 * time.Millisecond, Lease: time.Second})
	var ids []string
	for i := range 20 {
		r, err := e.Start(t.Context(), workflow.Request{Flow: "Wait", Subject: fmt.Sprint("kind/space/", i)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for _, id := range ids {
		until(t, s, id, runtype.Waiting)
	}
	time.Sleep(300 * time.Millisecond) // wait until the last lease is released
	wire.Take()
	time.Sleep(2 * time.Second)
	if c := wire.Take(); c.Requests > 0 {
		t.Errorf("%d requests while 20 runs wait for a signal: %v", c.Requests, c.By)
	}
	if err := e.Send(t.Context(), ids[7], runtype.Signal{Name: "go"}); err != nil {
		t.Fatal(err)
	}
	until(t, s, ids[7], runtype.Succeeded)
}
