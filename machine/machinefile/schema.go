package machinefile

import (
	_ "embed"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of machine files, for editors, with the parameters of the given
// actions. It says which keys stand where; what depends on other parts of the file is left to a load.
func Schema(actions ...workflow.Action) ([]byte, error) {
	return flowfile.SchemaWith(schema, map[string][]string{"place": {"action"}, "observation": {"uses"}}, actions)
}
