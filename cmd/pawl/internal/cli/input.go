package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// InputOptions are the flags for the input of a run.
type InputOptions struct {
	values []string
	file   string
}

// Flags adds the flags.
func (o *InputOptions) Flags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.values, "input", nil, "`key=value`; the schema says how the value is read, else it is JSON or text; a.b=value reaches inward")
	f.StringVar(&o.file, "input-file", "", "JSON or YAML `file` with the input, - for standard input")
}

// Input is the run's input: the file's, with single values over it.
func (o InputOptions) Input(schema json.RawMessage, in io.Reader) (json.RawMessage, error) {
	input := map[string]any{}
	if o.file != "" {
		data, err := ReadInput(o.file, in)
		if err != nil {
			return nil, err
		}
		whole, err := ToJSON(o.file, data)
		if err != nil {
			return nil, err
		}
		if len(o.values) == 0 {
			return whole, nil
		}
		value, err := runtype.Decode(whole)
		object, ok := value.(map[string]any)
		if err != nil || !ok {
			return nil, FileWrong.Errorf("%s holds no object, so --input cannot set a key of it", o.file)
		}
		input = object
	}
	for _, pair := range o.values {
		key, text, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, Usage.Errorf("--input %s: it is key=value", pair)
		}
		path := strings.Split(key, ".")
		if declares(schema, []string{key}) {
			path = []string{key}
		}
		value, err := parseValue(schemaAt(schema, path), text)
		if err != nil {
			return nil, Usage.Errorf("--input %s: %w", pair, err)
		}
		if !setPath(input, path, value) {
			return nil, Usage.Errorf("--input %s: %s is set to a value that has no keys", pair, strings.Join(path[:len(path)-1], "."))
		}
	}
	data, err := json.Marshal(input)
	if err != nil { // a number that JSON cannot hold
		return nil, Usage.Errorf("--input: %w", err)
	}
	return data, nil
}

// ReadInput reads a file; - is standard input.
func ReadInput(path string, in io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(in)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, FileWrong.Errorf("%w", err)
	}
	return data, nil
}

// ToJSON reads one JSON or YAML document.
func ToJSON(name string, data []byte) (json.RawMessage, error) {
	if json.Valid(data) {
		return data, nil
	}
	var value any
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&value); err != nil {
		return nil, FileWrong.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	out, err := json.Marshal(value)
	if err != nil {
		return nil, FileWrong.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func setPath(object map[string]any, path []string, value any) bool {
	for _, key := range path[:len(path)-1] {
		next, ok := object[key].(map[string]any)
		if !ok {
			if object[key] != nil {
				return false
			}
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	object[path[len(path)-1]] = value
	return true
}

// schemaDoc holds the parts of a JSON Schema that input reads.
type schemaDoc struct {
	Type       any                        `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// schemaAt is the schema of a value within the input; nil if none is written.
func schemaAt(schema json.RawMessage, path []string) json.RawMessage {
	for _, key := range path {
		var doc schemaDoc
		if json.Unmarshal(schema, &doc) != nil {
			return nil
		}
		schema = doc.Properties[key]
	}
	return schema
}

func declares(schema json.RawMessage, path []string) bool { return schemaAt(schema, path) != nil }

// parseValue reads a value as its schema wants it, else as JSON, else as text.
func parseValue(schema json.RawMessage, text string) (any, error) {
	var doc schemaDoc
	_ = json.Unmarshal(schema, &doc) // true, false and nothing have no type
	types, ok := doc.Type.([]any)
	if !ok && doc.Type != nil {
		types = []any{doc.Type}
	}
	if len(types) == 1 && types[0] == "string" {
		return text, nil
	}
	if !json.Valid([]byte(text)) {
		if len(types) > 0 && !slices.Contains(types, any("string")) {
			return nil, fmt.Errorf("%q is no %v", text, types[0])
		}
		return text, nil
	}
	value, err := runtype.Decode(json.RawMessage(text))
	if err != nil {
		return nil, err
	}
	if len(types) == 0 || slices.ContainsFunc(types, func(t any) bool { return isType(value, t) }) {
		return value, nil
	}
	if slices.Contains(types, any("string")) {
		return text, nil
	}
	return nil, fmt.Errorf("%q is no %v", text, types[0])
}

func isType(value any, name any) bool {
	switch value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case int64:
		return name == "integer" || name == "number"
	case float64:
		return name == "number"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	default:
		return name == "object"
	}
}
