package stored

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Pruned is what the API server has dropped of the status.
type Pruned struct {
	Fields []string // by name in JSON; empty: none
	// status is what was sent last: the fields that were dropped are taken from it, as if they had been stored.
	status   v1beta2.FoundationDBClusterStatus
	Observed bool // a status was written
}

// Recall gives the status that was read what the API server has dropped of it, and reports whether that is anything. Without
// that each pass would find conditions and plan new, and write.
func (known *Pruned) Recall(read *v1beta2.FoundationDBClusterStatus) bool {
	if len(known.Fields) == 0 {
		return false
	}
	sent := known.status.DeepCopy()
	into, from := reflect.ValueOf(read).Elem(), reflect.ValueOf(sent).Elem()
	for i := range into.NumField() {
		if slices.Contains(known.Fields, jsonName(into.Type().Field(i))) && into.Field(i).IsZero() {
			into.Field(i).Set(from.Field(i))
		}
	}
	return true
}

// Note compares what was written with what was stored, and reports whether more is lost than was known.
func (known *Pruned) Note(sent, stored v1beta2.FoundationDBClusterStatus) bool {
	known.Observed = true
	lost := lostFields(sent, stored)
	if len(lost) == 0 {
		known.Fields, known.status = nil, v1beta2.FoundationDBClusterStatus{}
		return false
	}
	known.status = *sent.DeepCopy()
	all := slices.Compact(slices.Sorted(slices.Values(append(lost, known.Fields...))))
	more := !slices.Equal(all, known.Fields)
	known.Fields = all
	return more
}

// Has reports whether a field is dropped.
func (known *Pruned) Has(field string) bool { return slices.Contains(known.Fields, field) }

// String says which fields are dropped.
func (known *Pruned) String() string {
	paths := make([]string, len(known.Fields))
	for i, field := range known.Fields {
		paths[i] = "status." + field
	}
	return strings.Join(paths, ", ")
}

// lostFields names the fields of a status that was written which are not in what was stored.
func lostFields(written, stored v1beta2.FoundationDBClusterStatus) []string {
	if equality.Semantic.DeepEqual(written, stored) {
		return nil
	}
	var sent, kept map[string]json.RawMessage
	for _, one := range []struct {
		status v1beta2.FoundationDBClusterStatus
		into   *map[string]json.RawMessage
	}{{written, &sent}, {stored, &kept}} {
		text, err := json.Marshal(one.status)
		if err == nil {
			err = json.Unmarshal(text, one.into)
		}
		if err != nil {
			panic(err) // a status always has a JSON form
		}
	}
	var lost []string
	for name := range sent {
		if _, there := kept[name]; !there {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	return lost
}

// publishedStatus is a status with the fields only that other operators of the kind know.
func publishedStatus(s v1beta2.FoundationDBClusterStatus) v1beta2.FoundationDBClusterStatus {
	s.ObservedGeneration, s.Groups, s.Conditions, s.Plan, s.Digest = 0, "", nil, nil, ""
	return s
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
