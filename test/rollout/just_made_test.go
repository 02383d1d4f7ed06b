package rollout_test

import (
	"encoding/json"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestJustMade: a Rollout and an Application that no operator has seen are not taken for done.
func TestJustMade(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	for kind, spec := range map[string]string{
		"Rollout":     `{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"rolloutPlan":{}}`,
		"Application": `{"components":[{"name":"db","workload":{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{}}}]}`,
	} {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"pawl.dev/v1alpha1","kind":"`+kind+`","metadata":{"name":"new","namespace":"`+w.namespace+`"},"spec":`+spec+`}`), o); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.get("new", o)
		if got, err := status.Compute(o); err != nil || got.Status != status.InProgressStatus {
			t.Errorf("kstatus says of a %s with status %v: %+v (%v)", kind, o.Object["status"], got, err)
		}
	}
}
