package rollout_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestHistoryLimitIsLowered: the ConfigMaps that a lower limit does not keep go at the next pass.
func TestHistoryLimitIsLowered(t *testing.T) {
	w := newQuietWorld(t)
	w.statefulSet("db", 1, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{})
	records := map[string]api.RolloutRecord{}
	for n := 201; n <= 240; n++ {
		records[strconv.Itoa(n)] = api.RolloutRecord{Sequence: int32(n), Time: api.RolloutTime(time.Now().UTC().Format(time.RFC3339)), Event: "Replanned", By: "controller"}
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"rollingState": "locatingTargetApp", "batchRollingState": "batchInitializing", "currentBatch": 0, "sequence": 240, "history": records,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.client.Status().Patch(t.Context(), w.now("db"), client.RawPatch(types.MergePatchType, status)); err != nil {
		t.Fatal(err)
	}
	for first := 1; first <= 181; first += 20 {
		kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("db-history-%d", first), Labels: map[string]string{rollout.HistoryLabel: "db"}}}
		if err := w.client.Create(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
	}
	w.start(w.config)
	w.is("db", "Ready", metav1.ConditionTrue)
	count := func() int {
		list := &corev1.ConfigMapList{}
		if err := w.list(list, map[string]string{rollout.HistoryLabel: "db"}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if n := count(); n != 10 {
		t.Fatalf("%d ConfigMaps are there before the limit is lowered", n)
	}
	w.patch(&api.Rollout{}, "db", `{"spec":{"historyLimit":100}}`)
	w.until("what is surplus has gone", func() bool { return count() == 5 })
	w.get("db-history-101", &corev1.ConfigMap{})
	if r := w.is("db", "Ready", metav1.ConditionTrue); len(r.Status.History) != 40 {
		t.Errorf("the status has %d records", len(r.Status.History))
	}
}
