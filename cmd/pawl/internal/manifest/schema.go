package manifest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
)

// Schema returns the JSON Schema of files of objects, for editors: the form of every object, and the
// specs of the kinds that each server serves.
func Schema() ([]byte, error) {
	texts := map[string]any{"type": []string{"object", "null"}, "additionalProperties": map[string]any{"type": "string"}}
	list := map[string]any{"type": []string{"array", "null"}, "items": map[string]any{"type": "string"}}
	forms := map[string]map[string]any{
		"name":        {"type": "string", "minLength": 1},
		"namespace":   {"type": "string", "description": "default: that of the context"},
		"labels":      texts,
		"annotations": texts,
		"finalizers":  list,
		"kind":        {"type": "string", "minLength": 1},
		"apiVersion":  {"type": "string", "description": "of a kind of Kubernetes"},
		"spec":        {"type": "object"},
		"owner":       {"type": []string{"object", "null"}},
		"data":        {"type": "object", "description": "of a ConfigMap"},
	}
	pick := func(keys []string) map[string]any {
		properties := map[string]any{}
		for _, key := range keys {
			if key != "metadata" {
				properties[key] = forms[key]
			}
		}
		return properties
	}
	metadata := map[string]any{"type": "object", "additionalProperties": false, "properties": pick(metadataKeys)}
	kinds, rules, defs := []any{}, []any{
		map[string]any{"if": map[string]any{"required": []string{"data"}}, "then": map[string]any{"properties": map[string]any{"kind": map[string]any{"const": "ConfigMap"}}}},
		map[string]any{"anyOf": []any{
			map[string]any{"required": []string{"name"}},
			map[string]any{"required": []string{"metadata"}, "properties": map[string]any{"metadata": map[string]any{"required": []string{"name"}}}},
		}},
	}, map[string]any{}
	fields := metadata["properties"].(map[string]any)
	for _, key := range storeKeys {
		fields[key] = true
	}
	for _, own := range backend.OwnKinds() {
		name := "spec." + own.Kind
		// References within a spec begin at its own root.
		raw := strings.ReplaceAll(string(own.Spec), `"#/$defs/`, `"#/$defs/`+name+`/$defs/`)
		var spec map[string]any
		if err := json.Unmarshal([]byte(raw), &spec); err != nil {
			return nil, err
		}
		defs[name] = spec
		kinds = append(kinds, map[string]any{"const": own.Kind})
		then := map[string]any{"properties": map[string]any{"spec": map[string]any{"$ref": "#/$defs/" + name}}}
		if own.Schema.Check(json.RawMessage("{}")) != nil {
			then["required"] = []string{"spec"}
		}
		rules = append(rules, map[string]any{
			"if":   map[string]any{"required": []string{"kind"}, "properties": map[string]any{"kind": map[string]any{"const": own.Kind}}},
			"then": then,
		})
	}
	properties := pick(manifestKeys)
	properties["metadata"] = metadata
	properties["kind"] = map[string]any{"anyOf": append(kinds, forms["kind"])}
	for _, key := range storeKeys {
		properties[key] = true
	}
	defs["object"] = map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"kind"}, "properties": properties, "allOf": rules,
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     "https://pawl.dev/schema/object.json",
		"title":   "Pawl objects",
		"if":      map[string]any{"required": []string{"items"}},
		"then":    map[string]any{"properties": map[string]any{"items": map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/object"}}}},
		"else":    map[string]any{"$ref": "#/$defs/object"},
		"$defs":   defs,
	})
	return text.Bytes(), err
}
