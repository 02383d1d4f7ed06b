package wfengine_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	"github.com/pawl-dev/pawl/compat/wfengine"
	"github.com/pawl-dev/pawl/store/kubestore"
	"github.com/pawl-dev/pawl/store/kubestore/kubetest"
	"github.com/pawl-dev/pawl/workflow"
)

// The default storage sees the runs of its own type of resource, and neither those of
// another type in this process nor those of another operator. The slot of a
// resource goes with it, as its runs do.
func TestDefaultStorageIsOfOneType(t *testing.T) {
	server := kubetest.NewServer(t)
	k8sutil.SetConfig(server.Config())
	t.Cleanup(func() {
		if err := wfengine.Close(); err != nil {
			t.Error(err)
		}
		k8sutil.SetConfig(nil)
	})
	others, err := kubestore.Open(t.Context(), kubestore.Options{Config: server.Config(), Kind: kubestore.ConfigMap})
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	now := time.Now().UTC()
	if _, err := others.Create(t.Context(), &workflow.Run{ID: "stranger", Flow: "F", Subject: "stranger/default/x", CreatedAt: now, NextAt: now}, nil); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, func(l *lab) { l.storage = wfengine.GetDefaultMementoStorageFactory("demo", false) })
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
		runs, _, err := wfengine.Engine(flow).Store().(workflow.Lister).List(t.Context(), workflow.Query{})
		if err != nil || len(runs) != 1 || runs[0].Subject != subject || runs[0].Phase != workflow.Succeeded {
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
