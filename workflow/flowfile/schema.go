package flowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// schema is a JSON Schema (2020-12 unless it says otherwise) as workflow.Schema.
type schema struct {
	raw         json.RawMessage
	tree        any
	compiled    *jsonschema.Schema
	hasDefaults bool // the schema contains a default
}

// NewSchema compiles a JSON Schema. It refuses references to other documents and checks formats.
// The result also fills in defaults; see [Defaults].
func NewSchema(raw json.RawMessage) (workflow.Schema, error) { return newSchema(raw) }

func newSchema(raw json.RawMessage) (*schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the schema is not valid JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	const name = "urn:pawl:schema"
	if err := c.AddResource(name, document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, schemaError(err)
	}
	tree, err := runtype.Decode(raw)
	if err != nil {
		return nil, err
	}
	return &schema{raw: raw, tree: tree, compiled: compiled, hasDefaults: hasDefault(tree)}, nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s: write it in place", url)
}

func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		if findings := flattenErrors(invalid.Err, "the schema", func([]string) []string { return nil }); findings != nil {
			return findings
		}
	}
	return errors.New(strings.ReplaceAll(err.Error(), "urn:pawl:schema#", "#"))
}

// Check implements workflow.Schema. It joins all findings in one error.
func (s *schema) Check(value json.RawMessage) error {
	if findings := s.findings(value); findings != nil {
		return findings
	}
	return nil
}

// MarshalJSON implements workflow.Schema.
func (s *schema) MarshalJSON() ([]byte, error) { return s.raw, nil }

func (s *schema) findings(value json.RawMessage) findings {
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return findings{{nil, "it is not valid JSON: " + err.Error()}}
	}
	if err := s.compiled.Validate(instance); err != nil {
		return flattenErrors(err, "", s.properties)
	}
	return nil
}

// properties returns the properties that an object at a path may have, for a suggestion.
func (s *schema) properties(path []string) []string {
	node, _ := s.tree.(map[string]any)
	for _, step := range path {
		properties, _ := node["properties"].(map[string]any)
		next, ok := properties[step].(map[string]any)
		if !ok {
			next, _ = node["items"].(map[string]any)
		}
		node = next
	}
	properties, _ := node["properties"].(map[string]any)
	return keysOf(properties)
}

// finding is one violation in a value.
type finding struct {
	path []string
	what string
}

// Path returns the path within the value. A loader uses it to find the line.
func (f finding) Path() []string { return f.path }

func (f finding) Error() string {
	if len(f.path) == 0 {
		return f.what
	}
	return strings.Join(f.path, ".") + ": " + f.what
}

// findings lists all violations.
type findings []finding

func (f findings) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "; ")
}

// Unwrap returns the findings as errors.
func (f findings) Unwrap() []error {
	all := make([]error, len(f))
	for i, one := range f {
		all[i] = one
	}
	return all
}

var english = message.NewPrinter(language.English)

// flattenErrors returns the leaves of a validation error. The errors above them contain no more
// information.
func flattenErrors(err error, root string, known func(path []string) []string) findings {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return findings{{nil, err.Error()}}
	}
	var all findings
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				walk(cause)
			}
			return
		}
		path := e.InstanceLocation
		if extra, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
			for _, name := range extra.Properties {
				all = append(all, finding{append(slices.Clone(path), name), fmt.Sprintf("unknown key %q%s", name, hint(name, known(path)))})
			}
			return
		}
		if len(path) == 0 && root != "" {
			path = []string{root}
		}
		all = append(all, finding{path, e.ErrorKind.LocalizedString(english)})
	}
	walk(invalid)
	return all
}

// Defaults fills the defaults of a flow's input schema into an input, so that steps and expressions
// find every property. An absent input counts as {}. It does not check the input. Programs call it
// before Engine.Start; the run stores the result.
func Defaults(flow workflow.Flow, input json.RawMessage) (json.RawMessage, error) {
	s, ok := flow.Input.(*schema)
	if !ok {
		return input, nil
	}
	return s.Default(input)
}

// Default fills the defaults of the schema into a value.
func (s *schema) Default(value json.RawMessage) (json.RawMessage, error) {
	node, _ := s.tree.(map[string]any)
	if empty := len(value) == 0 || string(value) == "null"; empty && node["type"] == "object" {
		value = json.RawMessage("{}")
	}
	if !s.hasDefaults || len(value) == 0 {
		return value, nil
	}
	plain, err := runtype.Decode(value)
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("the input is not valid JSON: %w", err)
	}
	return canonical(fill(plain, node)), nil
}

func fill(value any, node map[string]any) any {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := node["properties"].(map[string]any)
		for name, sub := range properties {
			sub, _ := sub.(map[string]any)
			if _, set := v[name]; !set {
				preset, ok := sub["default"]
				if !ok {
					continue
				}
				v[name] = clone(preset)
			}
			v[name] = fill(v[name], sub)
		}
	case []any:
		if items, ok := node["items"].(map[string]any); ok {
			for i := range v {
				v[i] = fill(v[i], items)
			}
		}
	}
	return value
}

func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = clone(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = clone(e)
		}
		return c
	}
	return value
}

func hasDefault(tree any) bool {
	switch v := tree.(type) {
	case map[string]any:
		if _, ok := v["default"]; ok {
			return true
		}
		for _, e := range v {
			if hasDefault(e) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if hasDefault(e) {
				return true
			}
		}
	}
	return false
}
