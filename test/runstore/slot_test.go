package runstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Nothing of a deleted subject remains: its runs and its slot are deleted with the object
// that owns them, or with the last run if none does.
func TestNothingIsLeftOfASubject(t *testing.T) {
	plane := suite.Plane(t)
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			space := namespace(t, plane.Client())
			owner := clusterIn(t, plane.Config(), space)
			owned, _ := openOwned(t, plane.Config(), kind, space, owner)
			plain, _ := open(t, plane.Config(), kind, space)
			subjects := map[*kuberuns.Store]string{owned: "SharedStorageCluster/" + space + "/" + owner.Name + "/" + string(owner.UID), plain: "kind/" + space + "/x"}
			for s, subject := range subjects {
				e := serve(t, s, []workflow.Flow{tenSteps()}, workflow.Options{})
				for i := range 2 {
					r, err := e.Start(t.Context(), workflow.Request{Flow: "Ten", Subject: subject, RequestID: fmt.Sprint(i)})
					if err != nil {
						t.Fatal(err)
					}
					until(t, s, r.ID, runtype.Succeeded)
				}
			}
			left := func() []string {
				t.Helper()
				var names []string
				leases, err := plane.Client().CoordinationV1().Leases(space).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range leases.Items {
					if strings.HasPrefix(l.Name, "pawl-slot-") {
						names = append(names, l.Name+" of "+l.Annotations["pawl.dev/subject"])
					}
				}
				runs, err := dynamic.NewForConfigOrDie(plane.Config()).Resource(runKind).Namespace(space).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range runs.Items {
					names = append(names, "run "+r.GetName())
				}
				maps, err := plane.Client().CoreV1().ConfigMaps(space).List(t.Context(), metav1.ListOptions{LabelSelector: "pawl.dev/kind in (run,history)"})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range maps.Items {
					names = append(names, "ConfigMap "+m.Name)
				}
				return names
			}
			if got := left(); len(got) != 6 {
				t.Fatalf("two subjects of two runs have %v", got)
			}
			ids, _, err := plain.List(t.Context(), runstore.Query{Subject: subjects[plain]})
			if err != nil || len(ids) != 2 {
				t.Fatal(ids, err)
			}
			for _, r := range ids {
				erase(t, kind, space, r.ID)
			}
			clusters := dynamic.NewForConfigOrDie(plane.Config()).Resource(v1alpha1.GroupVersion.WithResource("sharedstorageclusters")).Namespace(space)
			if err := clusters.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
				if got = left(); len(got) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("left after 2 minutes: %v", got)
				}
			}
		})
	}
}

// erase deletes the object of a run as kubectl does.
func erase(t *testing.T, kind kuberuns.Kind, space, id string) {
	t.Helper()
	ctx, plane := t.Context(), suite.Plane(t)
	var err error
	if kind == kuberuns.ConfigMap {
		err = plane.Client().CoreV1().ConfigMaps(space).Delete(ctx, "pawl-run-"+id, metav1.DeleteOptions{})
	} else {
		err = dynamic.NewForConfigOrDie(plane.Config()).Resource(runKind).Namespace(space).Delete(ctx, id, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
