package flowfile

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

func TestExpensiveExpressionsEnd(t *testing.T) {
	doubling := "'aaaaaaaaaa'" + strings.Repeat(".replace('a', 'aaaaaaaaaa')", 12)
	joins := "['" + strings.Repeat("x", 4000) + "']" + strings.Repeat(".map(s, [s,s,s,s,s,s,s,s].join(s))", 8)
	for name, text := range map[string]string{
		"text that doubles": doubling,
		"text that joins":   joins,
		"a long list":       "lists.range(1000000000)",
		"lists of lists":    "size(lists.range(10000).map(a, lists.range(10000)))",
		"nested loops":      "input.l.all(a, input.l.all(b, input.l.all(c, input.l.all(d, input.l.all(e, input.l.all(f, true))))))",
	} {
		t.Run(name, func(t *testing.T) {
			x, issues := newExpressions().compile(text, exprContext{})
			if issues != nil {
				t.Fatal(issues)
			}
			begin := time.Now()
			_, err := x.json(view(t, `{"l": [`+strings.Repeat("1,", 40)+`1]}`, nil))
			if fault.Of(err) != workflow.ExpressionFailed {
				t.Errorf("error %v", err)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	for _, text := range []string{"'%.1000000000f'.format([1.0])", "'" + strings.Repeat("(", 200) + "'.matches('a')" + strings.Repeat(" || true", 3000), strings.Repeat("[", 500)} {
		if _, issues := newExpressions().compile(text, exprContext{}); issues == nil {
			t.Errorf("%.40s… is not refused", text)
		}
	}
}

// BenchmarkWhen measures a condition that reads one step.
func BenchmarkWhen(b *testing.B) {
	flow, err := parse(b, "", "- {stepName: First, uses: Do}\n- {stepName: Now, uses: Do, when: 'steps.First.output.n > input.n'}\n")
	if err != nil {
		b.Fatal(err)
	}
	v := view(b, `{"n": 1}`, map[string]string{"First": `{"n": 2}`})
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := flow.Steps[1].When(v); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
