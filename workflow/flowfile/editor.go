package flowfile

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/workflow"
)

//go:embed schema.json
var editorSchema []byte

// Schema returns the JSON Schema of flow files, step groups and faults files, for editors. The
// parameters of the given actions are checked where a step uses one of them. [Lint] checks what a
// schema cannot express, such as the reads of expressions.
func Schema(actions ...workflow.Action) ([]byte, error) {
	return SchemaWith(editorSchema, map[string][]string{"step": {"className", "uses"}, "call": {"uses", "className"}}, actions)
}

// SchemaWith adds the parameters of actions to the JSON Schema of a kind of files. uses maps each
// definition that has the property `with` to the properties that name its action.
func SchemaWith(base []byte, uses map[string][]string, actions []workflow.Action) ([]byte, error) {
	var tree map[string]any
	if err := json.Unmarshal(base, &tree); err != nil {
		return nil, err
	}
	defs, _ := tree["$defs"].(map[string]any)
	if len(actions) > 0 {
		defs["template"] = map[string]any{"type": "string", "pattern": `\$\{`, "description": "${…} is CEL, and gives the value"}
	}
	for _, action := range actions {
		params, err := paramsSchema(action)
		if err != nil {
			return nil, err
		}
		defs[withName(action)] = params
	}
	for name, keys := range uses {
		def, _ := defs[name].(map[string]any)
		if def == nil {
			return nil, fmt.Errorf("the schema has no definition %q", name)
		}
		addActions(def, keys, actions)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(tree)
	return text.Bytes(), err
}

func withName(a workflow.Action) string { return "with." + a.Name }

// addActions offers the names of the actions, and says which parameters belong to which name.
func addActions(def map[string]any, keys []string, actions []workflow.Action) {
	rules, _ := def["allOf"].([]any)
	for _, action := range actions {
		named := make([]any, len(keys))
		for i, key := range keys {
			named[i] = map[string]any{"required": []string{key}, "properties": map[string]any{key: map[string]any{"const": action.Name}}}
		}
		then := map[string]any{"properties": map[string]any{"with": map[string]any{"$ref": "#/$defs/" + withName(action)}}}
		if action.With != nil && action.With.Check(json.RawMessage("{}")) != nil {
			then["required"] = []string{"with"}
		}
		rules = append(rules, map[string]any{"if": map[string]any{"anyOf": named}, "then": then})
	}
	if len(rules) > 0 {
		def["allOf"] = rules
	}
	properties, _ := def["properties"].(map[string]any)
	for _, key := range keys {
		name, ok := properties[key].(map[string]any)
		if !ok || len(actions) == 0 {
			continue
		}
		var known []any
		for _, action := range actions {
			known = append(known, map[string]any{"const": action.Name, "description": action.Description})
		}
		properties[key] = map[string]any{"description": name["description"], "anyOf": append(known, name)}
		if name["description"] == nil {
			delete(properties[key].(map[string]any), "description")
		}
	}
}

// paramsSchema returns the schema of an action's parameters as they stand in a file: a template may
// take the place of any value within, except where the action reads ${…} itself.
func paramsSchema(a workflow.Action) (map[string]any, error) {
	params := map[string]any{"type": "object"}
	if a.With != nil {
		raw, err := json.Marshal(a.With)
		if err == nil {
			err = json.Unmarshal(raw, &params)
		}
		if err != nil {
			return nil, fmt.Errorf("the parameters of action %s: %w", a.Name, err)
		}
	}
	var literal []string
	if s, ok := a.With.(interface{ Literal() []string }); ok {
		literal = s.Literal()
	}
	delete(params, "$schema")
	admitTemplates(params, "", literal)
	if params["description"] == nil && a.Description != "" {
		params["description"] = a.Description
	}
	return params, nil
}

// admitTemplates changes the schemas of the values within a value.
func admitTemplates(node map[string]any, at string, literal []string) {
	value := func(within any, at string) any {
		s, ok := within.(map[string]any)
		if !ok || slices.Contains(literal, at) {
			return within
		}
		admitTemplates(s, at, literal)
		return orTemplate(s)
	}
	for _, key := range []string{"properties", "patternProperties"} {
		fields, _ := node[key].(map[string]any)
		for name, s := range fields {
			fields[name] = value(s, at+"/"+name)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if s, ok := node[key]; ok {
			node[key] = value(s, at+"/*")
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if branches, ok := node[key].([]any); ok {
			for _, branch := range branches {
				if s, ok := branch.(map[string]any); ok {
					admitTemplates(s, at, literal)
				}
			}
		}
	}
}

// orTemplate returns the schema of a value or a template; the schema itself if it takes all strings.
func orTemplate(s map[string]any) map[string]any {
	constrained := false
	for _, key := range []string{"pattern", "format", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "maxLength"} {
		constrained = constrained || s[key] != nil
	}
	if types, ok := s["type"].([]any); !constrained && (s["type"] == nil || s["type"] == "string" || ok && slices.Contains(types, any("string"))) {
		return s
	}
	both := map[string]any{}
	for _, key := range []string{"description", "default"} {
		if v, ok := s[key]; ok {
			both[key] = v
			delete(s, key)
		}
	}
	both["anyOf"] = []any{s, map[string]any{"$ref": "#/$defs/template"}}
	return both
}
