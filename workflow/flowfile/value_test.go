package flowfile_test

import (
	"testing"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// The input of a healer holds the input of the run it heals.
func TestAnInputMayHoldAnObjectNamedInput(t *testing.T) {
	_, err := flowfile.Parse([]flowfile.File{{Name: "heal.yaml", Data: []byte(`
flowName: Heal
input: {type: object, properties: {input: {type: object, properties: {dir: {type: string}}}}}
steps:
- {stepName: Look, uses: Look, with: {dir: "${input.input.dir}"}}
`)}}, flowfile.Options{Actions: []workflow.Action{{Name: "Look"}}})
	if err != nil {
		t.Error(err)
	}
}
