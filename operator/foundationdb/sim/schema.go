package sim

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// schemas are the CRDs of the three kinds: what the API server keeps of an object.
type schemas struct {
	pruned []string // fields of the status that are dropped
	// specs are what patches have given, with the fields that the types do not have.
	specs map[types.UID]any
}

// Prune has the API server drop these fields of the status of the three kinds, by their name in JSON, when it is
// written: it has the CRDs of another operator. None: those of ours.
func (s *schemas) Prune(fields ...string) { s.pruned = fields }

func (s *schemas) prune(object port.Object) {
	fields := reflect.ValueOf(object).Elem().FieldByName("Status")
	for i := range fields.NumField() {
		if name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ","); slices.Contains(s.pruned, name) {
			fields.Field(i).SetZero()
		}
	}
}
