package view

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

const healthModule = "../console/static/health.js"

// healthText is the module of the console that judges states as this package does.
func healthText(t *testing.T) []byte {
	t.Helper()
	steps := map[runtype.StepPhase]Health{}
	for _, phase := range []runtype.StepPhase{runtype.StepRunning, runtype.StepRetrying, runtype.StepWaiting, runtype.StepFailed, runtype.StepDone, runtype.StepSkipped, runtype.StepPending, runtype.StepUndone} {
		steps[phase] = healthOfStep(phase)
	}
	var b bytes.Buffer
	b.WriteString("// How good states are. Written by go generate ./view from view/health.go: change it there.\n")
	for _, one := range []struct {
		name  string
		value any
	}{{"words", words}, {"steps", steps}} {
		text, err := json.Marshal(one.value)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("const " + one.name + " = " + string(text) + ";\n")
	}
	b.WriteString(`
export const healthOfStep = (phase) => steps[phase];

// healthOf judges a state by its word.
export function healthOf(state) {
  const word = String(state).toLowerCase();
  return words[word] ?? (word.endsWith('ing') ? '` + string(HealthOf("frobnicating")) + `' : '` + string(HealthOf("frobnicated")) + `');
}
`)
	return b.Bytes()
}

func TestHealthOfConsole(t *testing.T) {
	want := healthText(t)
	if *update {
		if err := os.WriteFile(healthModule, want, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(healthModule)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what `go generate ./view` writes (%v)", healthModule, err)
	}
}
