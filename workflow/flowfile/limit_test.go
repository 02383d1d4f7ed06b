package flowfile_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const limitedFlow = `flowName: Limited
input: {type: object, properties: {provider: {type: string}}}
limits:
  runs:
  - {key: "provider/${input.provider}", atOnce: 3}
  - {key: "kind/${run.subject.split('/')[0]}", atOnce: 5}
steps:
- {stepName: Wait, wait: {signal: go}}
`

// TestLimitsOfRuns: keys are computed from the input when a run is started, also by a flow that is compiled from its
// stored source.
func TestLimitsOfRuns(t *testing.T) {
	set, err := flowfile.Parse([]flowfile.File{{Name: "limited.yaml", Data: []byte(limitedFlow)}}, flowfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	flow, _ := set.Flow("Limited")
	again, err := flowfile.FromSource(flow.Source, flowfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, flow := range []workflow.Flow{flow, again} {
		e, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Start(t.Context(), workflow.Request{Flow: "Limited", Subject: "demo/default/c1", Input: []byte(`{"provider":"aws"}`)})
		if err != nil {
			t.Fatal(err)
		}
		want := []runtype.Limit{{Key: "kind/demo", AtOnce: 5}, {Key: "provider/aws", AtOnce: 3}}
		if len(r.Limits) != 2 || r.Limits[0] != want[0] || r.Limits[1] != want[1] {
			t.Errorf("limits are %v, want %v", r.Limits, want)
		}
	}
}

// TestLimitsOfRunsAreChecked: with the line of what is wrong.
func TestLimitsOfRunsAreChecked(t *testing.T) {
	for line, want := range map[string]string{
		`{key: "a"}`:                          "5:5: a limit of runs has no atOnce",
		`{atOnce: 1}`:                         "5:5: a limit of runs has no key",
		`{key: "a", atOnce: 0}`:               "atOnce must be at least 1",
		`{key: "${steps.Wait}", atOnce: 1}`:   "Wait",
		`{key: "${input.nobody}", atOnce: 1}`: "nobody",
	} {
		head, _, _ := strings.Cut(limitedFlow, "  - {key")
		text := head + "  - " + line + "\nsteps:\n- {stepName: Wait, wait: {signal: go}}\n"
		_, err := flowfile.Parse([]flowfile.File{{Name: "limited.yaml", Data: []byte(text)}}, flowfile.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
