package notification

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"cel.dev/cel-go/cel"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

// Kind is the kind of the objects.
const Kind = "Notification"

// MaxSecrets is how many secrets sign at once.
const MaxSecrets = 4

// Spec is the spec of a notification.
type Spec struct {
	URL      string               `json:"url,omitempty"`      // this or URLFrom
	URLFrom  *workflow.SecretRef  `json:"urlFrom,omitempty"`  // chat systems have URLs that are secrets
	Secrets  []workflow.SecretRef `json:"secrets,omitempty"`  // each signs; required unless Format is that of a chat system
	Events   []string             `json:"events,omitempty"`   // of Types; empty: all
	Filter   string               `json:"filter,omitempty"`   // CEL of event, an Event; empty: all
	Format   string               `json:"format,omitempty"`   // json, slack, teams; default json
	Template string               `json:"template,omitempty"` // Go text/template of an Event that makes JSON, in place of Format
	Attempts int                  `json:"attempts,omitempty"` // until an event is dead; default DefaultAttempts
}

// Target is a checked spec.
type Target struct {
	Spec
	template *template.Template // nil: json
	filter   cel.Program        // nil: all
}

// Problem is a finding at a path of the spec.
type Problem struct {
	path []string
	what string
}

// Path returns the path within the spec. A loader uses it to find the line.
func (p Problem) Path() []string { return p.path }

func (p Problem) Error() string {
	if len(p.path) == 0 {
		return p.what
	}
	return strings.Join(p.path, ".") + ": " + p.what
}

// Parse checks a spec. The error joins all findings, each a Problem.
func Parse(raw json.RawMessage) (*Target, error) {
	t := &Target{}
	var problems []error
	wrong := func(path, format string, args ...any) {
		p := Problem{what: fmt.Sprintf(format, args...)}
		if path != "" {
			p.path = strings.Split(path, ".")
		}
		problems = append(problems, p)
	}
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&t.Spec); err != nil {
		wrong(whereOf(err))
		return t, errors.Join(problems...)
	}
	switch {
	case (t.URL == "") == (t.URLFrom == nil):
		wrong("", "url or urlFrom is missing, or both are there: write one")
	case t.URL != "":
		if err := egress.CheckURL(t.URL); err != nil {
			wrong("url", "%v", err)
		}
	}
	if len(t.Secrets) == 0 && t.Format != "slack" && t.Format != "teams" {
		wrong("secrets", "it is missing: a receiver knows a webhook by its signature")
	}
	if len(t.Secrets) > MaxSecrets {
		wrong("secrets", "there are more than %d", MaxSecrets)
	}
	for i, s := range t.Secrets {
		if s.Name == "" {
			wrong(fmt.Sprintf("secrets.%d", i), "its name is missing")
		}
	}
	for i, e := range t.Events {
		if !slices.Contains(Types, e) {
			wrong(fmt.Sprintf("events.%d", i), "%q is not one of %s", e, strings.Join(Types, ", "))
		}
	}
	if t.Filter != "" {
		var err error
		if t.filter, err = compileFilter(t.Filter); err != nil {
			wrong("filter", "%v", err)
		}
	}
	if t.Attempts < 0 || t.Attempts > MaxAttempts {
		wrong("attempts", "it is a number from 1 to %d", MaxAttempts)
	}
	if t.Attempts == 0 {
		t.Attempts = DefaultAttempts
	}
	text, known := formats[t.Format]
	path := "format"
	switch {
	case t.Format != "" && !known:
		wrong("format", "%q is not json, slack or teams", t.Format)
	case t.Template != "":
		text, path = t.Template, "template"
	}
	if text != "" {
		var err error
		if t.template, err = parseTemplate(text); err != nil {
			wrong(path, "%v", err)
		}
	}
	return t, errors.Join(problems...)
}

// whereOf tells of an error of the decoder.
func whereOf(err error) (path, what string) {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) && typed.Field != "" {
		return typed.Field, "it is a " + typed.Value + ", which does not fit here"
	}
	if _, key, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return strings.Trim(key, `"`), "unknown key"
	}
	return "", "it is no mapping"
}

// Wants reports whether an event is to be sent.
func (t *Target) Wants(e Event) bool {
	return among(t.Events, e.Type) && (t.filter == nil || holds(t.filter, e))
}

// wantsAny reports whether the notification is about one of these types.
func (t *Target) wantsAny(types ...string) bool {
	return slices.ContainsFunc(types, func(name string) bool { return among(t.Events, name) })
}

// Body is what is sent about an event.
func (t *Target) Body(e Event) ([]byte, error) {
	if t.template == nil {
		return e.body()
	}
	return execute(t.template, e)
}

// Schema checks specs. It is a workflow.Schema.
type Schema struct{}

// Check returns the findings of Parse.
func (Schema) Check(spec json.RawMessage) error {
	_, err := Parse(spec)
	return err
}

// MarshalJSON returns the JSON Schema of specs: their form, and not whether a template makes JSON.
func (Schema) MarshalJSON() ([]byte, error) { return []byte(specSchema), nil }

const specSchema = `{
  "type": "object", "additionalProperties": false,
  "oneOf": [{"required": ["url"]}, {"required": ["urlFrom"]}],
  "$defs": {"secret": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {"name": {"type": "string"}, "key": {"type": "string"}}}},
  "properties": {
    "url": {"type": "string", "description": "http or https; this or urlFrom"},
    "urlFrom": {"$ref": "#/$defs/secret", "description": "secret that holds the URL"},
    "secrets": {"type": "array", "maxItems": 4, "items": {"$ref": "#/$defs/secret"}, "description": "secrets that sign: whsec_ and base64"},
    "events": {"type": "array", "items": {"enum": ["run.paused", "run.succeeded", "run.cancelled", "run.failed", "fault.raised", "fault.healed", "object.interrupted", "object.recovered", "cluster.alert", "cluster.recovered"]}, "description": "default: all"},
    "filter": {"type": "string", "maxLength": 8192, "description": "CEL of the variable event, true for those that are sent; default: all"},
    "format": {"enum": ["json", "slack", "teams"], "description": "default json"},
    "template": {"type": "string", "description": "Go text/template of the event that makes JSON, in place of format"},
    "attempts": {"type": "integer", "minimum": 1, "maximum": 30, "description": "until an event is dead; default 12"}
  }
}`
