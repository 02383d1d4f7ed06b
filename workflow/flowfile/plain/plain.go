// Package plain converts YAML nodes and results of CEL to values that JSON can hold: whole numbers
// as int64, bytes in base64, times in RFC 3339 UTC.
package plain

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.yaml.in/yaml/v3"
)

// maxDepth is the nesting limit of the result of an expression.
const maxDepth = 100

// Refused is a result that cannot be stored. CannotBeStored returns the reason.
type Refused interface{ CannotBeStored() error }

// Of converts the result of an expression to a plain value.
func Of(value ref.Val) (any, error) { return of(value, 0) }

func of(value ref.Val, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the value is nested more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case Refused:
		return nil, v.CannotBeStored()
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.String:
		return v.Value(), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d does not fit into 64 bits", uint64(v))
		}
		return int64(v), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return nil, fmt.Errorf("the result is not a number that JSON can represent")
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
		return of(v.GetValue(), depth+1)
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			element, err := of(v.Get(key), depth+1)
			if err != nil {
				return nil, err
			}
			name, err := of(key, depth+1)
			if err != nil {
				return nil, err
			}
			object[fmt.Sprint(name)] = element
		}
		return object, nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			element, err := of(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be stored", value.Type().TypeName())
}

// Reader converts YAML nodes to plain values.
type Reader struct {
	// Entries decodes a mapping strictly and reports invalid keys.
	Entries func(n *yaml.Node, each func(key, value *yaml.Node))
	// Wrong reports a node that cannot be converted.
	Wrong func(n *yaml.Node, format string, args ...any)
}

// Value returns the value of a node. After a report the value is undefined.
func (r Reader) Value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		r.Entries(n, func(key, value *yaml.Node) { object[key.Value] = r.Value(value) })
		return object
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = r.Value(item)
		}
		return list
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		var v int64
		if err := n.Decode(&v); err != nil {
			r.Wrong(n, "%s does not fit into 64 bits", n.Value)
		}
		return v
	case "!!float":
		var v float64
		if err := n.Decode(&v); err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			r.Wrong(n, "%s is not a number that JSON can represent", n.Value)
			return 0
		}
		return v
	case "!!str", "!!timestamp", "!!binary":
		return n.Value
	}
	r.Wrong(n, "the tag %s is refused", n.Tag)
	return nil
}

// IsNull reports whether a node has no value.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Kind describes a node for messages: a mapping, a list, nothing, or its text in quotes.
func Kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case IsNull(n):
		return "nothing"
	default:
		return strconv.Quote(n.Value)
	}
}
