package document

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// readsWhole reports whether the reader takes a text for one JSON value.
func readsWhole(text []byte) bool {
	d := Of(text)
	d.Skip()
	_, ok := d.End()
	return ok
}

// TestDocumentAgreesWithJSON: the reader accepts what encoding/json accepts, and nothing else.
func TestDocumentAgreesWithJSON(t *testing.T) {
	pieces := []string{`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"\n\u00e9"`, `"\`, `0`, `-1`, `1.5e+3`, `01`, `.5`, `true`, `fals`, `null`, ` `, "\n", `"`, `\`, "\x00"}
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		for range rapid.IntRange(1, 9).Draw(t, "n") {
			text = append(text, rapid.SampledFrom(pieces).Draw(t, "piece")...)
		}
		if got, want := readsWhole(text), json.Valid(text); got != want {
			t.Fatalf("%q is read: %t, it should be %t", text, got, want)
		}
	})
}

func FuzzDocument(f *testing.F) {
	for _, text := range []string{`{"a":[1,-0.5e3,"b\u00e9\\",true,false,null,{}]}`, `[[[`, `"\ud800"`, `-`, `1e`, "\"\\u0\x1500\""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got := readsWhole(text); got != json.Valid(text) && len(text) < maxDepth {
			t.Fatalf("%q is read: %t", text, got)
		}
	})
}

func TestDocumentValues(t *testing.T) {
	for text, want := range map[string]*int64{`12`: new(int64(12)), `-1`: new(int64(-1)), `1.2e3`: new(int64(1200)), `0.5`: nil, `"1"`: nil, `true`: nil, `null`: nil, `1e300`: nil, `1e999`: nil} {
		d := Of([]byte(text))
		if got := d.Whole(); (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s is read as %v", text, got)
		}
	}
	for text, want := range map[string]string{`"a"`: "a", `""`: "", `"\u00e9\n"`: "é\n", `1`: "", `{"a":"b"}`: ""} {
		d := Of([]byte(text))
		if got := d.Str(); got != want || d.at != len(text) {
			t.Errorf("%s is read as %q up to byte %d", text, got, d.at)
		}
	}
}
