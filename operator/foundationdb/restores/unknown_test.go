package restores

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
)

// TestUnknownFields: fields of the spec that nobody knows are told by their paths.
func TestUnknownFields(t *testing.T) {
	w := backedUp(t)
	w.make(sample("orders"))
	w.must(w.As("").Objects.Patch(t.Context(), w.restore("orders"), []byte(`{"spec":{"wings":2}}`)))
	w.pass("orders")
	if c := meta.FindStatusCondition(w.restore("orders").Status.Conditions, FieldsIgnoredCondition); c == nil || c.Message != "spec.wings" {
		t.Errorf("%v", c)
	}
}
