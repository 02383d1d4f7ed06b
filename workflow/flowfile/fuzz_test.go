package flowfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// quick fails a fuzz target whose input takes too long.
func quick(t *testing.T) {
	begin := time.Now()
	t.Cleanup(func() {
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// FuzzFlow: a load of any flow file and group file neither panics nor hangs, and the source of a
// loaded flow compiles to the same flow.
func FuzzFlow(f *testing.F) {
	for _, folder := range []string{"fleet", "classic", "bad"} {
		files, _ := filepath.Glob(filepath.Join("testdata", folder, "*"))
		group, _ := os.ReadFile("testdata/fleet/check_step_group.yaml")
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if kindOfFile(file) == flowFile {
				f.Add(data, group)
			} else {
				f.Add([]byte("flowName: F\nsteps: [{className: CheckAll, with: {host: a}}]"), data)
			}
		}
	}
	f.Add([]byte(exampleFlow), []byte(pair))
	f.Fuzz(func(t *testing.T, flow, group []byte) {
		quick(t)
		files := []File{{"f.yaml", flow}, {"g_step_group.yaml", group}, {"x_faults.yaml", flow}, {"y_faults.yaml", group}}
		for _, files := range [][]File{files[:1], files[:2], files[1:]} {
			options := Options{Actions: append(fleetActions, actions("Do")...), AnyAction: true, Check: true}
			set, err := Parse(files, options)
			if err != nil {
				continue
			}
			for _, flow := range set.Flows() {
				again, err := FromSource(flow.Source, Options{})
				if err != nil {
					t.Fatalf("the source of a sound flow does not load: %v\n%s", err, flow.Source)
				}
				if !bytes.Equal(flow.Source, again.Source) {
					t.Fatalf("%s\nbecame\n%s", flow.Source, again.Source)
				}
				first, err1 := workflow.Hash(flow)
				second, err2 := workflow.Hash(again)
				if err1 != nil || err2 != nil || first != second {
					t.Fatalf("hash %s, %v became %s, %v", first, err1, second, err2)
				}
			}
		}
	})
}

// FuzzExpression: a text is refused by the load, or it returns a value or an error in bounded time.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{"input.a > 1", "steps.First.output.x", "steps['First'].phase", "has(input.a)", "input.l.map(x, x * 2)",
		"{'a': '}'}", "r'\\'", "'''a'b'''", "b'abc'", "timestamp('2026-01-01T00:00:00Z') + duration('1h')", "1/0", "lists.range(100000)",
		"input.l.all(a, input.l.exists(b, a == b))", "'%s'.format([1])", "[1,2].sortBy(x, -x)", "'a'.replace('a', 'aaaa', -1)", "run.id + run.flow"} {
		f.Add(text, true)
		f.Add("x ${"+text+"} y ${"+text+"}", false)
	}
	outputs := map[string]string{"First": `{"x": [1, {"y": 2}]}`}
	f.Fuzz(func(t *testing.T, text string, whole bool) {
		quick(t)
		x := newExpressions()
		var made *template
		if whole {
			e, issues := x.compile(text, exprContext{})
			if issues != nil {
				return
			}
			made = &template{parts: []part{{expression: e}}}
		} else {
			pieces, err := split(text)
			if err != nil {
				return
			}
			made = &template{}
			for _, p := range pieces {
				if !p.cel {
					made.parts = append(made.parts, part{text: p.text})
				} else if e, issues := x.compile(p.text, exprContext{}); issues == nil {
					made.parts = append(made.parts, part{expression: e})
				}
			}
		}
		if resolve := made.resolve(); resolve != nil {
			_, _ = resolve(view(t, `{"a": 1, "l": [1, 2, 3, 4, 5, 6, 7, 8]}`, outputs))
		}
	})
}
