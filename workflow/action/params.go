package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// ParametersInvalid is the fault of an action whose evaluated `with` is invalid.
var ParametersInvalid = fault.Declare(fault.Kind{
	Code: "PARAMETERS_INVALID", Class: fault.Invalid,
	Title:  "the parameters of the action do not fit",
	Remedy: "Correct the step's with, or the values its expressions read, then start the run again or resume on the new definition.",
})

// Params is the schema of the `with` of an action: a JSON Schema, and rules that it cannot express.
// It is a [workflow.Schema].
type Params struct {
	source     json.RawMessage
	compiled   *jsonschema.Schema
	literal    []string
	extraCheck func(with map[string]any, wrong report)
}

// report adds a problem at a path within the value.
type report func(at []string, format string, args ...any)

var _ workflow.Schema = (*Params)(nil)

// newParams compiles a schema of this package. It panics if the schema is invalid.
func newParams(source string, literal []string, extraCheck func(map[string]any, report)) *Params {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(source))
	if err != nil {
		panic(err)
	}
	compiled, err := compile(doc)
	if err != nil {
		panic(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(source)); err != nil {
		panic(err)
	}
	return &Params{source: compact.Bytes(), compiled: compiled, literal: literal, extraCheck: extraCheck}
}

// publish adds rules of extraCheck to the schema that others read. Check leaves them to extraCheck,
// whose messages are better than those of JSON Schema.
func (p *Params) publish(rules string) *Params {
	p.source = json.RawMessage(strings.TrimSuffix(string(p.source), "}") + "," + rules + "}")
	return p
}

func compile(doc any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const name = "urn:pawl:with" // not a file name: the working directory does not matter and may not exist
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// noLoader prevents schemas from reading files and networks.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s: write it in place", url)
}

// MarshalJSON returns the JSON Schema.
func (p *Params) MarshalJSON() ([]byte, error) { return p.source, nil }

// Literal returns JSON pointers to the strings in which ${…} is not a template.
func (p *Params) Literal() []string { return p.literal }

// Check checks evaluated parameters. It returns nil or Problems.
func (p *Params) Check(value json.RawMessage) error { return p.check(value, false) }

// CheckDraft is Check for a definition. It skips strings with ${, which may become any value; the
// attempt checks them.
func (p *Params) CheckDraft(value json.RawMessage) error { return p.check(value, true) }

func (p *Params) check(value json.RawMessage, draft bool) error {
	if len(value) == 0 || string(value) == "null" {
		value = json.RawMessage("{}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return Problems{{Message: "no valid JSON: " + err.Error()}}
	}
	var found Problems
	wrong := func(at []string, format string, args ...any) {
		found = append(found, Problem{At: slices.Clone(at), Message: fmt.Sprintf(format, args...)})
	}
	var invalid *jsonschema.ValidationError
	if err := p.compiled.Validate(doc); errors.As(err, &invalid) {
		leaves(invalid, p.keys, wrong)
	} else if err != nil {
		return err
	}
	if with, ok := doc.(map[string]any); ok && p.extraCheck != nil {
		p.extraCheck(with, wrong)
	}
	if draft {
		found = slices.DeleteFunc(found, func(x Problem) bool { return p.template(doc, x.At) })
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// template reports whether an expression will replace the string.
func (p *Params) template(doc any, at []string) bool {
	pointer := ""
	for _, part := range at {
		pointer += "/" + part
		if slices.Contains(p.literal, pointer) {
			return false
		}
		switch v := doc.(type) {
		case map[string]any:
			doc = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return false
			}
			doc = v[i]
		default:
			return false
		}
	}
	return isTemplate(doc)
}

func isTemplate(v any) bool {
	s, ok := v.(string)
	return ok && strings.Contains(s, "${")
}

// keys returns the keys that an object at a path may have, for a suggestion.
func (p *Params) keys(at []string) []string {
	s := p.compiled
	for _, part := range at {
		next := s.Properties[part]
		for pattern, schema := range s.PatternProperties {
			if pattern.MatchString(part) {
				next = schema
			}
		}
		if s = next; s == nil {
			return nil
		}
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var english = message.NewPrinter(language.English)

// leaves reports the innermost validation errors as text.
func leaves(e *jsonschema.ValidationError, keys func([]string) []string, wrong report) {
	for _, cause := range e.Causes {
		leaves(cause, keys, wrong)
	}
	if len(e.Causes) > 0 {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			at := append(slices.Clone(e.InstanceLocation), name)
			if known := keys(e.InstanceLocation); len(known) > 0 {
				wrong(at, "unknown key %q: known are %s", name, strings.Join(known, ", "))
			} else {
				wrong(at, "%q is not a valid name here", name)
			}
		}
	case *kind.Required:
		wrong(e.InstanceLocation, "%s is missing", strings.Join(k.Missing, ", "))
	case *kind.Type:
		wrong(e.InstanceLocation, "must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	default:
		wrong(e.InstanceLocation, "%s", e.ErrorKind.LocalizedString(english))
	}
}

// Problem is one violation in a value.
type Problem struct {
	At      []string // keys and indexes from the root of the value
	Message string
}

// Path returns At.
func (p Problem) Path() []string { return p.At }

func (p Problem) Error() string {
	if len(p.At) == 0 {
		return p.Message
	}
	return strings.Join(p.At, ".") + ": " + p.Message
}

// Problems lists all violations in a value. A loader walks Unwrap and reads the Path of each error
// to find its line.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "; ")
}

// Unwrap returns the problems as errors.
func (p Problems) Unwrap() []error {
	errs := make([]error, len(p))
	for i, problem := range p {
		errs[i] = problem
	}
	return errs
}

// read checks and decodes the parameters of an attempt.
func read[T any](t *workflow.Task, params *Params) (T, error) {
	var (
		with T
		raw  json.RawMessage
	)
	if err := t.With(&raw); err != nil {
		return with, ParametersInvalid.Errorf("with: %w", err)
	}
	if err := params.Check(raw); err != nil {
		return with, ParametersInvalid.Errorf("with: %w", err)
	}
	if err := json.Unmarshal(raw, &with); err != nil {
		return with, ParametersInvalid.Errorf("with: %w", err)
	}
	return with, nil
}
