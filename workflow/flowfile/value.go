package flowfile

import (
	"encoding/base64"
	"fmt"
	"math"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// plainOf turns the result of an expression into what JSON can hold. Whole
// numbers stay 64-bit integers, bytes are base64, times RFC 3339 UTC.
func plainOf(value ref.Val, depth int) (any, error) {
	if depth > 100 {
		return nil, fmt.Errorf("the value is nested more than 100 deep")
	}
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d does not fit into 64 bits", uint64(v))
		}
		return int64(v), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return nil, fmt.Errorf("the result is no number JSON can hold")
	case types.String:
		return string(v), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return plainOf(v.GetValue(), depth+1)
	case stepsMap:
		return nil, fmt.Errorf("steps as a whole is no value: name the step, as in steps.Create.output")
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			element, err := plainOf(v.Get(key), depth+1)
			if err != nil {
				return nil, err
			}
			name, err := plainOf(key, depth+1)
			if err != nil {
				return nil, err
			}
			object[fmt.Sprint(name)] = element
		}
		return object, nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			element, err := plainOf(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be stored", typeName(value))
}

func typeName(v ref.Val) string { return v.Type().TypeName() }

// schemaTypes tells CEL what the input's schema says of its properties, so
// that a misspelt name or a wrong type is found when the file is loaded.
type schemaTypes struct {
	types.Provider
	structs map[string]map[string]*cel.Type
}

// typeOf names the types of objects by their path. A dot in between would make
// the name one that an expression can say: input.input would be a type.
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
