package flowfile

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var editorSchema []byte

// Schema is the JSON Schema of flow files, step groups and faults files, for
// editors. What it cannot say, such as what reads what, [Lint] does.
func Schema() []byte { return bytes.Clone(editorSchema) }
