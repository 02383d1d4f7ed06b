package flowfile_test

import (
	"strings"
	"testing"
	"time"

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
		"{key: \"a\", rate: 2/1s}\n  - {key: \"a\", rate: 10/1m}": "6:16: a key has one rate, and neither of 2/1s and 10/1m keeps the other: use two keys",
		`{key: "a"}`:                          "5:5: a limit of runs has neither atOnce nor rate",
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

const providerFlow = `flowName: Provider
input: {type: object, properties: {tenant: {type: string}, regions: {type: array}}}
limits:
  runs:
  - {key: "tenant/${input.tenant}", rate: 10/1m}
  - {key: "all", atOnce: 3, rate: 100/1h}
steps:
- stepName: Each
  forEach: {list: input.regions}
  uses: provider
  limits:
  - {key: "region/${item}", atOnce: 2}
  - {key: "api", rate: 5/1s}
  undo: {uses: provider}
`

// TestLimitsOfSteps: rates and limits of steps are read, and survive the stored source.
func TestLimitsOfSteps(t *testing.T) {
	set, err := flowfile.Parse([]flowfile.File{{Name: "provider.yaml", Data: []byte(providerFlow)}}, flowfile.Options{Actions: []workflow.Action{{Name: "provider"}}})
	if err != nil {
		t.Fatal(err)
	}
	flow, _ := set.Flow("Provider")
	again, err := flowfile.FromSource(flow.Source, flowfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, flow := range []workflow.Flow{flow, again} {
		if l := flow.Limits; len(l) != 2 || l[0].Rate != (runtype.Rate{Starts: 10, Window: time.Minute}) || l[0].AtOnce != 0 || l[1].AtOnce != 3 || l[1].Rate.String() != "100/1h" {
			t.Errorf("limits of runs: %+v", l)
		}
		l := flow.Steps[0].Limits
		if len(l) != 2 || l[0].AtOnce != 2 || l[0].KeyText != "region/${item}" || l[1].Rate.String() != "5/1s" {
			t.Errorf("limits of the step: %+v", l)
		}
	}
}

// TestLimitsOfStepsAreChecked: with the line and column of what is wrong.
func TestLimitsOfStepsAreChecked(t *testing.T) {
	for step, want := range map[string]string{
		`{stepName: A, uses: provider, limits: [{key: a, rate: 2/1s}, {key: a, rate: 10/1m}]}`: "3:73: a key has one rate, and neither of 2/1s and 10/1m keeps the other: use two keys",
		`{stepName: A, uses: provider, limits: [{key: a}]}`:                                    "3:42: a limit of a step has neither atOnce nor rate",
		`{stepName: A, uses: provider, limits: [{rate: 1/1s}]}`:                                "3:42: a limit of a step has no key",
		`{stepName: A, uses: provider, limits: [{key: a, rate: often}]}`:                       `3:57: "often" is not a rate`,
		`{stepName: A, uses: provider, limits: [{key: a, rate: 2000/1h}]}`:                     "3:57: a rate allows between 1 and 1000 starts",
		`{stepName: A, uses: provider, limits: [{key: a, atOnce: 1001}]}`:                      "3:51: atOnce of a limit of a step is at most 1000",
		`{stepName: A, uses: provider, limits: [{key: a, atOnce: 1, most: 1}]}`:                "most",
		`{stepName: A, uses: provider, limits: [{key: "${steps.Nobody}", atOnce: 1}]}`:         "Nobody",
		`{stepName: A, wait: {signal: go}, limits: [{key: a, atOnce: 1}]}`:                     "limits has no effect on a step that only waits",
		`{stepName: A, flow: {name: Other}, limits: [{key: a, atOnce: 1}]}`:                    "limits has no effect on a step that is a flow",
		`{stepName: A, steps: [{uses: provider}], limits: [{key: a, atOnce: 1}]}`:              "limits has no effect on a step that is a structure",
	} {
		text := "flowName: F\nsteps:\n- " + step + "\n"
		_, err := flowfile.Parse([]flowfile.File{{Name: "f.yaml", Data: []byte(text)}}, flowfile.Options{Actions: []workflow.Action{{Name: "provider"}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", step, err)
		}
	}
}
