package celenv_test

import (
	"strings"
	"testing"

	"cel.dev/cel-go/cel"

	"github.com/pawl-dev/pawl/workflow/celenv"
)

func TestExpressions(t *testing.T) {
	env, err := celenv.New(cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)), cel.Variable("list", cel.ListType(cel.IntType)))
	if err != nil {
		t.Fatal(err)
	}
	list := make([]int64, 1000)
	for source, want := range map[string]any{
		`object.n > 1.5`:                                        true, // numbers of two types compare
		`"a,b".split(",").size() == 2`:                          true,
		`object.?missing.orValue(7)`:                            int64(7),
		`list.all(a, list.all(b, list.all(c, a + b + c == 0)))`: "cost limit",
	} {
		checked, issues := env.Compile(source)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", source, issues.Err())
		}
		program, err := celenv.Program(env, checked)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		got, _, err := program.Eval(map[string]any{"object": map[string]any{"n": int64(2)}, "list": list})
		if text, fails := want.(string); fails {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want an error about the %s", source, err, text)
			}
			continue
		}
		if err != nil || got.Value() != want {
			t.Errorf("%s: %v, %v; want %v", source, got, err, want)
		}
	}
}

func TestLimits(t *testing.T) {
	env, err := celenv.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{
		"length": strings.Repeat("1+", celenv.MaxLength/2) + "11",
		"depth":  strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200),
	} {
		if _, issues := env.Compile(source); issues.Err() == nil {
			t.Errorf("%s: no limit", name)
		}
	}
}

func TestMessage(t *testing.T) {
	for in, want := range map[string]string{
		"Syntax error: mismatched input '<EOF>' expecting {'[', '{', '('}": "the expression ends too early",
		"undeclared reference to 'x' (in container '')":                    "undeclared reference to 'x'",
		"a\nb":                   "a b",
		strings.Repeat("x", 400): strings.Repeat("x", 300) + "…",
	} {
		if got := celenv.Message(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
