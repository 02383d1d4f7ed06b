package wfengine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	"github.com/pawl-dev/pawl/compat/wfengine"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The default storage sees the runs of its own type of resource, but not those of another type in
// this process or of another operator. The slot of a resource is deleted with it, as its runs are.
func TestDefaultStorageIsOfOneType(t *testing.T) {
	server := kubetest.NewServer(t)
	k8sutil.SetConfig(server.Config())
	t.Cleanup(func() {
		if err := wfengine.Close(); err != nil {
			t.Error(err)
		}
		k8sutil.SetConfig(nil)
	})
	others, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Kind: kuberuns.ConfigMap})
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	now := time.Now().UTC()
	if _, err := others.Create(t.Context(), &runtype.Run{ID: "stranger", Flow: "F", Subject: "stranger/default/x", CreatedAt: now, NextAt: now}, nil); err != nil {
		t.Fatal(err)
	}
	l := newHarness(t, func(l *harness) { l.storage = wfengine.GetDefaultMementoStorageFactory("demo", false) })
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "beside"), os.DirFS("testdata/flows/demo")); err != nil {
		t.Fatal(err)
	}
	beside, err := wfengine.CreateWfManager("beside", folder, wfengine.CreateDefaultWfMetaLoader, nil, l.storage)
	if err != nil {
		t.Fatal(err)
	}
	beside.RegisterSteps(&First{}, &Second{}, &Third{}, &Last{})
	for _, manager := range []*wfengine.WfManager{l.manager, beside} {
		flow, err := manager.CreateResourceWorkflow(l.resource())
		if err != nil {
			t.Fatal(err)
		}
		if err := flow.Run(t.Context(), "Create", nil); err != nil {
			t.Fatal(err)
		}
		subject := manager.ResourceType + "/default/" + l.name() + "/u-1"
		runs, _, err := wfengine.Engine(flow).Store().(runstore.Lister).List(t.Context(), runstore.Query{})
		if err != nil || len(runs) != 1 || runs[0].Subject != subject || runs[0].Phase != runtype.Succeeded {
			t.Errorf("%s: %d runs are seen, %v: %+v", manager.ResourceType, len(runs), err, runs)
		}
	}
	client, _, err := k8sutil.GetKubeClient()
	if err != nil {
		t.Fatal(err)
	}
	slots, err := client.CoordinationV1().Leases("default").List(t.Context(), metav1.ListOptions{LabelSelector: "pawl.dev/kind=slot"})
	if err != nil || len(slots.Items) != 3 {
		t.Fatalf("%d slots, %v", len(slots.Items), err)
	}
	for _, slot := range slots.Items {
		want := 1
		if slot.Annotations["pawl.dev/subject"] == "stranger/default/x" {
			want = 0
		}
		if len(slot.OwnerReferences) != want {
			t.Errorf("the slot of %s is owned by %v", slot.Annotations["pawl.dev/subject"], slot.OwnerReferences)
		}
	}
}

// A resume or skip of the run itself wakes its resource: Reconcile is called although nobody has
// changed the object.
func TestFinding25RequestWakesTheResource(t *testing.T) {
	by := workflow.Actor{Name: "a person"}
	for name, c := range map[string]struct {
		ask  func(ctx context.Context, e *workflow.Engine, id string) error
		want []string
	}{
		"resume": {
			func(ctx context.Context, e *workflow.Engine, id string) error { return e.Resume(ctx, id, "", "", by) },
			[]string{"First", "Second", "Second", "Third", "Last"},
		},
		"skip": {
			func(ctx context.Context, e *workflow.Engine, id string) error {
				run, err := e.Get(ctx, id)
				if err != nil {
					return err
				}
				return e.Skip(ctx, id, run.Fault.Step, nil, true, by)
			},
			[]string{"First", "Second", "Third", "Last"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := kubetest.NewServer(t)
			k8sutil.SetConfig(server.Config())
			t.Cleanup(func() {
				if err := wfengine.Close(); err != nil {
					t.Error(err)
				}
				k8sutil.SetConfig(nil)
			})
			l := newHarness(t, func(l *harness) { l.storage = wfengine.GetDefaultMementoStorageFactory("demo", false) })
			l.on("Second", times(1, wfengine.NewInterruptError("R", "m")))
			if is, _ := define.IsInterruptError(l.pass()); !is || l.state() != statemachine.StateInterrupt {
				t.Fatalf("state %s", l.state())
			}
			before := l.resource().object().Annotations
			reconcile := make(chan struct{}, 100) // the watch of the operator
			l.cluster.mu.Lock()
			l.cluster.refuse = func(string) error {
				reconcile <- struct{}{}
				return nil
			}
			l.cluster.mu.Unlock()
			elsewhere, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Kind: kuberuns.ConfigMap})
			if err != nil {
				t.Fatal(err)
			}
			defer elsewhere.Close()
			person, err := workflow.New(elsewhere, nil, workflow.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.ask(t.Context(), person, wfengine.RunOf(l.flow())); err != nil {
				t.Fatal(err)
			}
			deadline := time.After(time.Minute)
			for l.state() != statemachine.StateRunning {
				select {
				case <-reconcile:
					if err := l.pass(); err != nil {
						t.Log(err)
					}
				case <-deadline:
					t.Fatalf("nobody woke the resource: state %s, annotations %v, before %v", l.state(), l.resource().object().Annotations, before)
				}
			}
			l.want(c.want...)
		})
	}
}
