package rollout_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// apply makes the objects of a manifest.
func (w *world) apply(file string) {
	w.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			w.t.Fatal(err)
		case o.Object == nil:
			continue
		}
		if err := client.IgnoreAlreadyExists(w.client.Create(w.t.Context(), o)); err != nil {
			w.t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// TestApprover: the account of examples/rollout/approver.yaml may write requests, and nothing else.
func TestApprover(t *testing.T) {
	w := newWorld(t)
	w.apply("../../examples/rollout/approver.yaml")
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
	w.is("db", "Ready", metav1.ConditionTrue)
	w.patch(&api.Rollout{}, "db", `{"metadata":{"annotations":{"team":"db"}}}`)

	config, _, err := w.plane.User("system:serviceaccount:default:release-system", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	approver, err := client.New(config, client.Options{Scheme: rollouttest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	try := func(text string) error {
		r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}}
		return approver.Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	w.until("the policy is in force", func() bool { return try(`{"spec":{"rolloutPlan":{"paused":true}}}`) != nil })
	for text, refused := range map[string]string{
		`{"spec":{"rolloutPlan":{"paused":true}}}`:                  "the spec is not yours",
		`{"spec":{"rolloutPlan":{"batchPartition":null}}}`:          "the spec is not yours",
		`{"metadata":{"annotations":{"pawl.dev/dry-run":"true"}}}`:  "only the annotations approve",
		`{"metadata":{"annotations":{"team":"release"}}}`:           "only the annotations approve",
		`{"metadata":{"annotations":{"team":null}}}`:                "only the annotations approve",
		`{"metadata":{"annotations":null}}`:                         "only the annotations approve",
		`{"metadata":{"labels":{"a":"b"}}}`:                         "labels, finalizers and owners",
		`{"metadata":{"finalizers":null}}`:                          "labels, finalizers and owners",
		`{"metadata":{"annotations":{"pawl.dev/approve":"next"}}}`:  "",
		`{"metadata":{"annotations":{"pawl.dev/rollback":"true"}}}`: "",
	} {
		switch err := try(text); {
		case refused == "" && err != nil:
			t.Errorf("%s is refused: %v", text, err)
		case refused != "" && (err == nil || !strings.Contains(err.Error(), refused)):
			t.Errorf("%s: %v, expected %q", text, err, refused)
		}
	}
	r := w.now("db")
	if err := approver.Delete(t.Context(), r, client.DryRunAll); err == nil {
		t.Error("it may delete the Rollout")
	}
	if err := approver.Status().Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"status":{"currentBatch":1}}`)), client.DryRunAll); err == nil {
		t.Error("it may write the status")
	}

	w.setImage("db", "r2")
	w.waitsFor("db", "HeldByPartition")
	err = approver.Patch(t.Context(), &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"pawl.dev/approve":"all; by=release-system"}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	if r := w.is("db", "Succeeded", metav1.ConditionTrue); r.Status.LastRequest.By != "release-system" {
		t.Errorf("the request: %+v", r.Status.LastRequest)
	}
}
