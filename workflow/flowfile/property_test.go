package flowfile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// writer draws valid flow files.
type writer struct {
	t     *rapid.T
	count int
	reads []string // names that the next expression may read
}

func (w *writer) name() string {
	w.count++
	return fmt.Sprintf("S%d", w.count)
}

func (w *writer) steps(depth int, inGroup bool) string {
	kept := len(w.reads)
	var steps []string
	for range rapid.IntRange(1, 4).Draw(w.t, "steps") {
		name, text := w.step(depth, inGroup)
		steps = append(steps, text)
		w.reads = append(w.reads, name)
	}
	w.reads = w.reads[:kept]
	return "[" + strings.Join(steps, ", ") + "]"
}

func (w *writer) step(depth int, inGroup bool) (name, text string) {
	name = w.name()
	keys := []string{"stepName: " + name}
	if rapid.Bool().Draw(w.t, "when") && len(w.reads) > 0 {
		keys = append(keys, fmt.Sprintf(`when: "steps.%s.phase != 'Skipped'"`, rapid.SampledFrom(w.reads).Draw(w.t, "read")))
	}
	kinds := []string{"action", "wait", "retry"}
	if depth < 3 {
		kinds = append(kinds, "steps", "parallel", "loop", "bracket")
	}
	if !inGroup {
		kinds = append(kinds, "group", "looped group")
	}
	switch rapid.SampledFrom(kinds).Draw(w.t, "kind") {
	case "action":
		keys = append(keys, `uses: Do`, `with: {a: "${run.id}", b: [1, "x ${input}"]}`, `undo: {uses: Do, with: {mine: "${steps.`+name+`.phase}"}}`)
	case "retry":
		keys = append(keys, `uses: Do`, `retry: {attempts: 3, first: 1s, jitter: 0}`, `timeout: 1m`, `skippable: true`)
	case "wait":
		keys = append(keys, `wait: {signal: go, deadline: 1h, onTimeout: continue}`)
	case "steps":
		keys = append(keys, "steps: "+w.steps(depth+1, inGroup))
	case "parallel":
		keys = append(keys, fmt.Sprintf("parallel: {max: 2, branches: [{name: A, steps: %s}, {name: B, steps: %s}]}", w.steps(depth+1, inGroup), w.steps(depth+1, inGroup)))
	case "loop":
		keys = append(keys, `forEach: {list: "[1, 2]", as: n, key: "string(n)", max: 2}`, "steps: "+w.steps(depth+1, inGroup))
	case "bracket":
		keys = append(keys, `bracket: {open: {uses: Do}, close: {uses: Do}}`, "steps: "+w.steps(depth+1, inGroup))
	case "group":
		keys = append(keys, `uses: G`, `with: {p: "${run.flow}"}`)
	case "looped group":
		keys = append(keys, `forEach: {list: "['a']", as: item2}`, `uses: G`, `with: {p: "${item2}"}`)
	}
	return name, "{" + strings.Join(keys, ", ") + "}"
}

// TestSoundFilesLoad: every valid file loads, the engine accepts it, and its source compiles to the
// same flow.
func TestSoundFilesLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{t: t}
		flow := "flowName: F\nsteps: " + w.steps(0, false) + "\n"
		if rapid.Bool().Draw(t, "finally") {
			flow += "finally: " + w.steps(2, false) + "\n"
		}
		group := "groupName: G\nparams: [{name: p, type: string}]\nsteps:\n- {stepName: First, uses: Do, with: {p: \"${params.p}\"}}\n- {stepName: Rest, steps: " + w.steps(2, true) + "}\n"
		set, err := Parse([]File{{"f.yaml", []byte(flow)}, {"g_step_group.yaml", []byte(group)}}, Options{Actions: actions("Do"), Check: true})
		if err != nil {
			t.Fatalf("%v\n%s%s", err, flow, group)
		}
		made, _ := set.Flow("F")
		again, err := FromSource(made.Source, Options{})
		if err != nil || !bytes.Equal(made.Source, again.Source) {
			t.Fatalf("%v\n%s\nbecame\n%s", err, made.Source, again.Source)
		}
		d, err := Diff(made, again)
		if err != nil || len(d.Changes) > 0 || d.HashDiffers() {
			t.Fatalf("%v %v", d, err)
		}
		do := workflow.Action{Name: "Do", Do: (&callLog{}).action().Do}
		if _, err := workflow.New(runstore.NewMemory(), []workflow.Flow{made}, workflow.Options{Actions: []workflow.Action{do}}); err != nil {
			t.Fatalf("the engine refuses it: %v\n%s", err, flow)
		}
		if !strings.HasPrefix(Graph(made), "flowchart TD\n") {
			t.Fatal("no graph")
		}
	})
}
