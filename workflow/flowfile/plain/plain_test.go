package plain_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
)

// The result of an expression becomes a JSON value, or is refused with a message.
func TestOf(t *testing.T) {
	convert := types.DefaultTypeAdapter.NativeToValue
	deep := func(levels int) ref.Val {
		var v any = int64(1)
		for range levels {
			v = []any{v}
		}
		return convert(v)
	}
	for name, c := range map[string]struct {
		value       ref.Val
		want, wrong string
	}{
		"null":           {types.NullValue, `null`, ""},
		"bool":           {types.True, `true`, ""},
		"large int":      {types.Int(math.MaxInt64), `9223372036854775807`, ""},
		"uint":           {types.Uint(7), `7`, ""},
		"uint too large": {types.Uint(math.MaxUint64), "", "18446744073709551615 does not fit into 64 bits"},
		"double":         {types.Double(1.5), `1.5`, ""},
		"no number":      {types.Double(math.NaN()), "", "is not a number that JSON can represent"},
		"infinity":       {types.Double(math.Inf(1)), "", "is not a number that JSON can represent"},
		"bytes":          {types.Bytes("ab\xff"), `"YWL/"`, ""},
		"time":           {types.Timestamp{Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))}, `"2026-01-02T02:04:05.000000006Z"`, ""},
		"duration":       {types.Duration{Duration: 90 * time.Second}, `"1m30s"`, ""},
		"optional":       {types.OptionalOf(types.Int(1)), `1`, ""},
		"no optional":    {types.OptionalNone, `null`, ""},
		"map":            {convert(map[int64]any{1: []byte("a")}), `{"1":"YQ=="}`, ""},
		"list":           {convert([]any{int64(1), "b"}), `[1,"b"]`, ""},
		"100 deep":       {deep(100), strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100), ""},
		"101 deep":       {deep(101), "", "nested more than 100 deep"},
		"a type":         {types.IntType, "", "a value of type type cannot be stored"},
		"refused":        {refused{types.True}, "", "not this one"},
		"within a list":  {types.NewDynamicList(types.DefaultTypeAdapter, []ref.Val{refused{types.True}}), "", "not this one"},
	} {
		got, err := plain.Of(c.value)
		raw, _ := json.Marshal(got)
		if c.wrong == "" && (err != nil || string(raw) != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %s %v, want %s%s", name, raw, err, c.want, c.wrong)
		}
	}
}

type refused struct{ ref.Val }

func (refused) CannotBeStored() error { return fmt.Errorf("not this one") }

// Values of YAML keep their types. A value that has none is reported at its position.
func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		`{a: [1, 0x10, 1.5, yes, true, ~, "2", 2026-01-02, text]}`: `{"a":[1,16,1.5,"yes",true,null,"2","2026-01-02","text"]}`,
		`9223372036854775807`:      `9223372036854775807`,
		`[.inf]`:                   `[0] 1:2: .inf is not a number that JSON can represent`,
		`[a, !secret b]`:           `["a",null] 1:5: the tag !secret is refused`,
		`{n: 9223372036854775808}`: `{"n":0} 1:5: 9223372036854775808 does not fit into 64 bits`,
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		said := ""
		r := plain.Reader{
			Wrong: func(n *yaml.Node, format string, args ...any) {
				said += fmt.Sprintf(" %d:%d: "+format, append([]any{n.Line, n.Column}, args...)...)
			},
			Entries: func(n *yaml.Node, each func(key, value *yaml.Node)) {
				for i := 0; i+1 < len(n.Content); i += 2 {
					each(n.Content[i], n.Content[i+1])
				}
			},
		}
		raw, err := json.Marshal(r.Value(doc.Content[0]))
		if got := string(raw) + said; err != nil || got != want {
			t.Errorf("%s is %s, want %s; %v", text, got, want, err)
		}
	}
}
