package testfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/flowfile/testfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func actions(t *testing.T) []workflow.Action {
	t.Helper()
	all, err := action.Standard(action.Options{Only: []string{"exec", "http", "sleep", "signal", "approval"}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func run(t *testing.T, path string) []testfile.Result {
	t.Helper()
	suite, err := testfile.Load(path, testfile.Options{Actions: actions(t)})
	if err != nil {
		t.Fatal(err)
	}
	var results []testfile.Result
	for _, c := range suite.Cases {
		results = append(results, suite.Run(c))
	}
	return results
}

// The example passes, crashes included.
func TestExample(t *testing.T) {
	for _, r := range run(t, "../../../examples/testing/flows/create_test.yaml") {
		if !r.OK || r.Crashes == 0 && r.Case != "pauses when nobody accepts" {
			t.Errorf("%s: %d crashes\n%s", r.Case, r.Crashes, r.Problems)
		}
	}
}

const flow = "flowName: F\nsteps:\n- {stepName: A, uses: exec, with: {command: [echo, hello]}}\n- {stepName: B, uses: sleep, with: {for: 1h}}\n"

func write(t *testing.T, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"f.yaml": flow, "f_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "f_test.yaml")
}

// A failed case says in which line what was expected and what came. An action that is not replaced is
// not executed; after its remedy the case passes.
func TestFailures(t *testing.T) {
	for tests, want := range map[string]string{
		"cases:\n- name: one\n":                                                                 ":2:3: the run is Paused by ACTION_NOT_REPLACED in A (the case neither replaces the action exec of step A nor allows it: add it to actions, or add real: [exec]), want Succeeded",
		"cases:\n- name: one\n  actions: {exec: {}}\n":                                          "",
		"cases:\n- name: one\n  real: [exec]\n  expect: {done: [A, B]}\n":                       "",
		"cases:\n- name: one\n  actions: {A: {}}\n  expect:\n    done: [B]":                     ":5:5: the steps that were done are A, B, want B",
		"cases:\n- name: one\n  actions: {A: {output: 1}}\n  expect: {outputs: {A: 2}}":         ":4:22: the output of A is 1, want 2",
		"cases:\n- name: one\n  actions: {A: {}}\n  do:\n  - {at: B, signal: x}":                ":5:5: the run is Succeeded, want it at rest at B",
		"cases:\n- name: one\n  actions: {A: {}}\n  expect: {with: {A: {command: [echo]}}}":     ":4:19: the parameters of A are ",
		"cases:\n- name: one\n  actions: {A: {}}\n  expect: {phase: Cancelled}\n  crash: never": ":4:12: the run is Succeeded, want Cancelled",
	} {
		got := run(t, write(t, tests))[0].Problems
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || !strings.Contains(got[0].String(), "f_test.yaml"+want)) {
			t.Errorf("%s\ngives %s\nwant %s", tests, got, want)
		}
	}
}

// A wrong file is refused with line and column.
func TestWrongFiles(t *testing.T) {
	for tests, want := range map[string]string{
		"cases: []":                                                ":1:1: cases is missing",
		"cases:\n- nam: one":                                       `:2:3: unknown key "nam" (did you mean name?)`,
		"cases:\n- input: 1":                                       ":2:3: the case has no name",
		"flow: G\ncases:\n- name: a":                               `:1:7: there is no flow "G"`,
		"cases:\n- name: a\n- name: a":                             `:3:3: two cases are named "a" (the first in line 2)`,
		"cases:\n- name: a\n  actions: {exce: {}}":                 `:3:13: the flows have neither a step nor an action "exce" (did you mean exec?)`,
		"cases:\n- name: a\n  actions: {A: {fault: NO_SUCH}}":      ":3:16: fault NO_SUCH is not declared",
		"cases:\n- name: a\n  actions: {A: {output: 1, fault: X}}": "an output or a fault, not both",
		"cases:\n- name: a\n  real: [http]":                        ":2:3: http cannot be real in a test",
		"cases:\n- name: a\n  crash: sometimes":                    ":3:10: crash must be one of everywhere, never",
		"cases:\n- name: a\n  do: [{signal: x, pause: true}]":      "write one entry of do for each",
		"cases:\n- name: a\n  do: [{}]":                            "the entry does nothing",
		"cases:\n- name: a\n  do: [{pause: true, payload: 1}]":     "payload belongs to signal",
		"cases:\n- name: a\n  expect: {step: A}":                   "step is the step of the fault",
	} {
		_, err := testfile.Load(write(t, tests), testfile.Options{Actions: actions(t), Check: true})
		var found flowfile.Problems
		if !errors.As(err, &found) || !strings.Contains(found.Error(), want) {
			t.Errorf("%s\ngives %v\nwant %s", tests, err, want)
		}
	}
}

// A load of a folder skips its tests, and a file of tests is no flow.
func TestTestsAreNoFlows(t *testing.T) {
	path := write(t, "cases: [{name: a}]")
	set, err := flowfile.Load([]string{filepath.Dir(path)}, flowfile.Options{Actions: actions(t), Check: true})
	if err != nil || len(set.Flows()) != 1 {
		t.Errorf("%v, %v", set, err)
	}
	if _, err := flowfile.Load([]string{path}, flowfile.Options{Check: true}); err == nil || !strings.Contains(err.Error(), "this is a file of tests") {
		t.Errorf("%v", err)
	}
}
