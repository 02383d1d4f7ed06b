package flowfile

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

func typeName(v ref.Val) string { return v.Type().TypeName() }

// schemaTypes gives CEL the types of the input schema, so that a load reports a misspelt name or a
// wrong type.
type schemaTypes struct {
	types.Provider
	structs map[string]map[string]*cel.Type
}

// typeOf names the types of objects by their path. The separator is not a dot: with a dot, an
// expression could use input.input as the name of a type.
func (p *schemaTypes) typeOf(name string, tree any) *cel.Type {
	node, _ := tree.(map[string]any)
	for _, keyword := range []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "not", "patternProperties"} {
		if node[keyword] != nil {
			return cel.DynType
		}
	}
	switch node["type"] {
	case "string":
		return cel.StringType
	case "integer":
		return cel.IntType
	case "boolean":
		return cel.BoolType
	case "array":
		return cel.ListType(p.typeOf(name+"/items", node["items"]))
	case "object":
		return p.objectType(name, node)
	}
	return cel.DynType // number too: 3 and 3.5 are of different types in CEL
}

func (p *schemaTypes) objectType(name string, node map[string]any) *cel.Type {
	open := cel.MapType(cel.StringType, cel.DynType)
	properties, _ := node["properties"].(map[string]any)
	if extra := node["additionalProperties"]; len(properties) == 0 || extra != nil && extra != false {
		return open
	}
	fields := map[string]*cel.Type{}
	for property, sub := range properties {
		if !isIdentifier(property) {
			return open
		}
		fields[property] = p.typeOf(name+"/"+property, sub)
	}
	p.structs[name] = fields
	return cel.ObjectType(name)
}

// FindStructType implements types.Provider.
func (p *schemaTypes) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.structs[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p *schemaTypes) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := p.structs[name]; ok {
		return keysOf(fields), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (p *schemaTypes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields, ok := p.structs[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	kind, ok := fields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type:  kind,
		IsSet: func(target any) bool { _, ok := fieldOf(target, field); return ok },
		GetFrom: func(target any) (any, error) {
			if value, ok := fieldOf(target, field); ok {
				return value, nil
			}
			return nil, fmt.Errorf("no such key: %s", field)
		},
	}, true
}

func fieldOf(target any, field string) (any, bool) {
	switch t := target.(type) {
	case map[string]any:
		value, ok := t[field]
		return value, ok
	case traits.Mapper:
		return t.Find(types.String(field))
	}
	return nil, false
}
