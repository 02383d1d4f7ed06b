package controller

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func object(t interface{ Fatal(...any) }, text string) map[string]any {
	d := &struct {
		demo
		Status json.RawMessage `json:"status"`
	}{Status: json.RawMessage(text)}
	status, err := statusOf(d)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func TestDifference(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"nothing":                     {`{"a":1}`, `{"a":1}`, `{}`},
		"no status yet":               {`null`, `{"a":1}`, `{"a":1}`},
		"one of many":                 {`{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"b":3}`},
		"deep":                        {`{"a":{"b":{"c":1,"d":2},"e":3}}`, `{"a":{"b":{"c":2,"d":2},"e":3}}`, `{"a":{"b":{"c":2}}}`},
		"taken away":                  {`{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`, `{"a":{"b":null}}`},
		"lists are replaced":          {`{"a":[1,2]}`, `{"a":[1]}`, `{"a":[1]}`},
		"an object for a value":       {`{"a":1}`, `{"a":{"b":2}}`, `{"a":{"b":2}}`},
		"null is as good as none":     {`{"a":null,"b":1}`, `{"b":null,"c":null}`, `{"b":null}`},
		"whole numbers keep all bits": {`{"a":9007199254740993}`, `{"a":9007199254740994}`, `{"a":9007199254740994}`},
		"the form of a number":        {`{"a":1}`, `{"a":1.0}`, `{"a":1.0}`},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(difference(object(t, c.from), object(t, c.to)))
			if err != nil || string(raw) != c.want {
				t.Errorf("%s (%v), want %s", raw, err, c.want)
			}
		})
	}
}

// A difference, applied as RFC 7386 says, makes the one from the other.
func TestADifferenceLeadsThere(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0 && depth > 0:
				return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value(depth-1), 0, 3).Draw(t, "object")
			case kind == 1:
				return []any{json.Number(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "item"))}
			default:
				return rapid.SampledFrom([]any{json.Number("1"), "x", true}).Draw(t, "value")
			}
		})
	}
	whole := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value(3), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		from, to := whole.Draw(t, "from"), whole.Draw(t, "to")
		got := merge(from, difference(from, to))
		if left := difference(got, to); len(left) > 0 {
			t.Fatalf("from %v to %v: %v is left", from, to, left)
		}
		if len(difference(to, got)) > 0 {
			t.Fatalf("from %v to %v leads to %v", from, to, got)
		}
	})
}

// merge applies a merge patch.
func merge(target any, patch any) map[string]any {
	into, ok := target.(map[string]any)
	out := map[string]any{}
	if ok {
		for key, v := range into {
			out[key] = v
		}
	}
	for key, v := range patch.(map[string]any) {
		switch inner, isObject := v.(map[string]any); {
		case v == nil:
			delete(out, key)
		case isObject:
			out[key] = merge(out[key], inner)
		default:
			out[key] = v
		}
	}
	return out
}

// A save that met an edit of what is not ours is made again on the newest
// version; one that met anything else is not.
func TestADraftIsRebasedOnWhatDoesNotMatter(t *testing.T) {
	at := metav1.Now()
	for name, c := range map[string]struct {
		edit func(*demo)
		want bool
	}{
		"a foreign annotation": {func(d *demo) { d.Annotations["example.com/touched"] = "2" }, true},
		"a label":              {func(d *demo) { d.Labels = map[string]string{"team": "blue"} }, true},
		"a request":            {func(d *demo) { d.Annotations["pawl.dev/resume"] = "1" }, false},
		"the spec":             {func(d *demo) { d.Generation++ }, false},
		"the status":           {func(d *demo) { d.Status.N = 7 }, false},
		"a finalizer":          {func(d *demo) { d.Finalizers = []string{"example.com/held"} }, false},
		"its deletion":         {func(d *demo) { d.DeletionTimestamp = &at }, false},
		"another of its name":  {func(d *demo) { d.UID = "2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{obj: &demo{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "1", Generation: 1, Annotations: map[string]string{"example.com/touched": "1"}}}}
			s.obj.Status.N = 1
			draft, err := Load(t.Context(), client.Reader(s), client.Client(s), client.ObjectKey{Name: "a"}, &demo{})
			if err != nil {
				t.Fatal(err)
			}
			draft.Object.Status.N = 2
			s.obj.ResourceVersion = "5"
			c.edit(s.obj)
			got, err := draft.Rebase(t.Context(), s, func(key string) bool { return strings.HasPrefix(key, "pawl.dev/") })
			if err != nil || got != c.want {
				t.Fatalf("rebased: %t, %v", got, err)
			}
			if !got {
				return
			}
			if wrote, err := draft.Save(t.Context()); err != nil || !wrote || len(s.writes) != 1 {
				t.Fatalf("wrote %t %v: %v", wrote, err, s.writes)
			}
			if want := `{"metadata":{"resourceVersion":"5","uid":"1"},"status":{"n":2}}`; s.writes[0] != want {
				t.Errorf("wrote %s, want %s", s.writes[0], want)
			}
		})
	}
}
