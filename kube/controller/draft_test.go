package controller

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
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
