package backups

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
)

// TestUnknownFields: fields of the spec that nobody knows are told by their paths.
func TestUnknownFields(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.settle("orders")
	w.must(w.As("").Objects.Patch(t.Context(), w.backup("orders"), []byte(`{"spec":{"wings":2,"blobStoreConfiguration":{"colour":"red"}}}`)))
	w.settle("orders")
	if c := meta.FindStatusCondition(w.backup("orders").Status.Conditions, FieldsIgnoredCondition); c == nil || c.Message != "spec.blobStoreConfiguration.colour, spec.wings" {
		t.Errorf("%v", c)
	}
}
