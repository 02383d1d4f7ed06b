package format

import (
	"encoding/json"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/kube/runstore/client"
)

// drawTree draws an object without nulls.
func drawTree(t *rapid.T, depth int) Tree {
	o := Tree{}
	for range rapid.IntRange(0, 4).Draw(t, "fields") {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d/e", "ü"}).Draw(t, "key")
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			o[key] = drawTree(t, depth-1)
		case kind == 1:
			o[key] = []any{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "item"), true}
		case kind == 2:
			o[key] = json.Number(rapid.SampledFrom([]string{"0", "1", "9007199254740993"}).Draw(t, "number"))
		default:
			o[key] = rapid.SampledFrom([]string{"", "text", "<&>"}).Draw(t, "text")
		}
	}
	return o
}

// The patch between two objects, applied as the API server applies it, produces the second.
func TestDiffIsAMergePatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawTree(t, 3), drawTree(t, 3)
		patch := diff(from, to)
		a, _ := client.Encode(from)
		p, _ := client.Encode(patch)
		merged, err := jsonpatch.MergePatch(a, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := treeOf(json.RawMessage(merged))
		if err != nil || !reflect.DeepEqual(got, to) {
			t.Fatalf("%s with %s gives %s, want %v (%v)", a, p, merged, to, err)
		}
	})
}

func TestKeysOfSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z][A-Za-z0-9_.#/\[\]-]{0,80}`).Draw(t, "name")
		key := escape(name)
		if got := unescape(key); got != name {
			t.Fatalf("%s becomes %s and comes back as %s", name, key, got)
		}
		for _, c := range key {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
				t.Fatalf("%s is no key of a ConfigMap", key)
			}
		}
	})
}
