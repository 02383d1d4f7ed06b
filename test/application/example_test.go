package application_test

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// TestExample: the example is accepted as it is, and comes up.
func TestExample(t *testing.T) {
	w := newWorld(t)
	text, err := os.ReadFile("../../examples/rollout/application.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := &api.Application{}
	if err := yaml.UnmarshalStrict(text, a); err != nil {
		t.Fatal(err)
	}
	a.Namespace = w.Namespace
	if err := client.WithFieldValidation(w.Client, metav1.FieldValidationStrict).Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	r := w.Holds("shop", "shop-v1", 0)
	w.ExpectPods("db", "0=db:1")
	w.Patch(r, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"all"}}}`)
	w.Reaches("shop", "shop-v1")
	w.ExpectPods("db", "0=db:1 1=db:1 2=db:1")
}
