package machinefile

import (
	_ "embed"
	"encoding/json"
)

//go:embed schema.json
var schema []byte

// Schema gives the JSON Schema of machine files, for editors. It says which
// keys stand where; what depends on other parts of the file is left to a load.
func Schema() json.RawMessage { return schema }
