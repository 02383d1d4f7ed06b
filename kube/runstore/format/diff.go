package format

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Tree is a JSON object. It contains no null: in a merge patch (RFC 7396) that is a
// removal.
type Tree = map[string]any

// treeOf converts a value to JSON; numbers keep their digits.
func treeOf(v any) (Tree, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	t := Tree{}
	err = dec.Decode(&t)
	return t, err
}

// diff returns the merge patch that turns one object into another. It replaces lists as
// a whole.
func diff(from, to Tree) Tree {
	patch := Tree{}
	for key, value := range to {
		old, known := from[key]
		if known && reflect.DeepEqual(old, value) {
			continue
		}
		inner, isTree := value.(Tree)
		was, wasTree := old.(Tree)
		if isTree && wasTree {
			value = diff(was, inner)
		}
		patch[key] = value
	}
	for key := range from {
		if _, stays := to[key]; !stays {
			patch[key] = nil
		}
	}
	return patch
}

// change returns the merge patch between two values of one type.
func change(from, to any) (Tree, error) {
	a, err := treeOf(from)
	if err != nil {
		return nil, err
	}
	b, err := treeOf(to)
	if err != nil {
		return nil, err
	}
	return diff(a, b), nil
}
