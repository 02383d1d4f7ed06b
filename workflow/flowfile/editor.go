package flowfile

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var editorSchema []byte

// Schema returns the JSON Schema of flow files, step groups and faults files, for editors. [Lint]
// checks what a schema cannot express, such as the reads of expressions.
func Schema() []byte { return bytes.Clone(editorSchema) }
