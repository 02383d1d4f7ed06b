package foundationdb

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TestConfigurationJSON: the kind and package fdb write the same JSON, and no field is lost between them. The
// values are drawn by reflection, so a field that only one of them has is found.
func TestConfigurationJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kind v1beta2.DatabaseConfiguration
		fill(t, reflect.ValueOf(&kind).Elem(), "spec")
		same(t, kind, ConfigurationOf(kind))
		same(t, ConfigurationIn(ConfigurationOf(kind)), kind)

		var core fdb.Configuration
		fill(t, reflect.ValueOf(&core).Elem(), "core")
		same(t, core, ConfigurationIn(core))
		same(t, ConfigurationOf(ConfigurationIn(core)), core)
	})
}

func same(t *rapid.T, a, b any) {
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var left, right any
	if json.Unmarshal(x, &left) != nil || json.Unmarshal(y, &right) != nil {
		t.Fatalf("no JSON: %s, %s", x, y)
	}
	if diff := cmp.Diff(left, right); diff != "" {
		t.Fatalf("%T and %T:\n%s", a, b, diff)
	}
}

// fill draws a value for every field.
func fill(t *rapid.T, v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, name)
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(t, v.Index(i), name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name) {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), name)
		}
	case reflect.String:
		v.SetString(rapid.StringMatching(`[a-z]{0,3}`).Draw(t, name))
	case reflect.Int:
		v.SetInt(int64(rapid.IntRange(-1, 9).Draw(t, name)))
	default:
		t.Fatalf("%s: no values for %s", name, v.Type())
	}
}
