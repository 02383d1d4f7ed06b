package flowfile_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

const greetings = `
flowName: Greet
input:
  type: object
  properties: {names: {type: array, items: {type: string}, default: [world]}}
steps:
- stepName: Each
  forEach: {list: input.names, as: name, key: name}
  uses: Say
  with: {text: "hello ${name}"}
- {stepName: Count, uses: Say, when: size(input.names) > 1, with: {text: "${size(input.names)} greetings"}}
`

func Example() {
	say := workflow.Action{Name: "Say", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
		var with struct{ Text string }
		if err := t.With(&with); err != nil {
			return outcome.Fail(err)
		}
		fmt.Println(t.Step()+":", with.Text)
		return outcome.Done()
	}}
	actions := []workflow.Action{say}
	set, err := flowfile.Parse([]flowfile.File{{Name: "greet.yaml", Data: []byte(greetings)}}, flowfile.Options{Actions: actions})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := workflow.New(runstore.NewMemory(), set.Flows(), workflow.Options{
		Actions: actions, Healers: set.Healers(),
		Compile: func(source []byte) (workflow.Flow, error) {
			return flowfile.FromSource(source, flowfile.Options{Actions: actions})
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	flow, _ := set.Flow("Greet")
	input, _ := flowfile.Defaults(flow, json.RawMessage(`{"names": ["ann", "bob"]}`))
	run, err := engine.Start(context.Background(), workflow.Request{Flow: "Greet", Subject: "demo/default/c1", RequestID: "1", Input: input})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine.Advance(context.Background(), run.ID))
	// Output:
	// Each[ann]: hello ann
	// Each[bob]: hello bob
	// Count: 2 greetings
	// done
}

func ExampleParse_errors() {
	_, err := flowfile.Parse([]flowfile.File{{Name: "flows/create.yaml", Data: []byte(`
flowName: Create
steps:
- {stepName: First, uses: http, with: {url: "${steps.Later.output.url}"}}
- {stepname: Later, uses: htpp}
`)}}, flowfile.Options{Actions: []workflow.Action{{Name: "http"}}})
	fmt.Println(err)
	// Output:
	// flows/create.yaml:4:48: step "Later" does not exist
	// flows/create.yaml:5:4: unknown key "stepname" (did you mean stepName?)
	// flows/create.yaml:5:27: there is neither an action nor a group "htpp" (did you mean http?)
}

func ExampleDiff() {
	flow := func(steps string) workflow.Flow {
		set, err := flowfile.Parse([]flowfile.File{{Name: "f.yaml", Data: []byte("flowName: F\nsteps:\n" + steps)}},
			flowfile.Options{AnyAction: true, Check: true})
		if err != nil {
			panic(err)
		}
		return set.Flows()[0]
	}
	d, err := flowfile.Diff(flow("- uses: A\n- uses: C\n"), flow("- uses: A\n- {uses: B, timeout: 5m}\n- {uses: C, timeout: 1h}\n"))
	fmt.Println(d, err)
	fmt.Println("hash differs:", d.HashDiffers())
	// Output:
	// + B after A
	// ~ C  timeout: none → 1h0m0s <nil>
	// hash differs: true
}
