// Package strict reads JSON into a struct, refuses fields that the struct does not have, and names the path
// of what does not fit.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Error is what does not fit, and where.
type Error struct {
	Path    string // rolloutBatches[2].replicas; empty: the whole text
	Message string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// Decode reads the text of one JSON object into the struct that into points to. The noun says in messages
// what the text is. The error is an *Error.
func Decode(noun string, text []byte, into any) error {
	var raw any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return &Error{Message: fmt.Sprintf("the %s is not JSON: %v", noun, err)}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &Error{Message: "there is more text behind the " + noun}
	}
	if _, ok := raw.(map[string]any); !ok {
		return &Error{Message: fmt.Sprintf("a %s is a JSON object, not %s", noun, jsonType(raw))}
	}
	return decode("", raw, reflect.ValueOf(into).Elem())
}

// decode fills v from a JSON value and names the path of what does not fit.
func decode(path string, raw any, v reflect.Value) error {
	if raw == nil {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &Error{Path: path, Message: fmt.Sprintf(format, args...)}
	}
	if unmarshals(v) {
		text, err := json.Marshal(raw)
		if err == nil {
			err = json.Unmarshal(text, v.Addr().Interface())
		}
		if err != nil {
			var kind *json.UnmarshalTypeError
			if errors.As(err, &kind) {
				return refuse("%s is not allowed here", jsonType(raw))
			}
			return refuse("%v", err)
		}
		return nil
	}
	switch v.Kind() { //nolint:exhaustive // structs of JSON have no others here
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decode(path, raw, v.Elem())
	case reflect.Struct:
		fields, ok := raw.(map[string]any)
		if !ok {
			return refuse("it must be an object, not %s", jsonType(raw))
		}
		known := fieldsOf(v)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			field, ok := known[name]
			if !ok {
				return &Error{Path: join(path, name), Message: "there is no such field; " + alternatives(name, known)}
			}
			if err := decode(join(path, name), fields[name], field); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice:
		items, ok := raw.([]any)
		if !ok {
			return refuse("it must be a list, not %s", jsonType(raw))
		}
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i, item := range items {
			if err := decode(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	default:
		text, err := json.Marshal(raw)
		if err == nil {
			err = json.Unmarshal(text, v.Addr().Interface())
		}
		if err != nil {
			return refuse("it must be %s, not %s", goType(v.Kind()), shown(raw))
		}
		return nil
	}
}

func unmarshals(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer || !v.CanAddr() {
		return false
	}
	switch v.Addr().Interface().(type) {
	case json.Unmarshaler, interface{ UnmarshalText([]byte) error }:
		return true
	default:
		return false
	}
}

func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = v.Field(i)
	}
	return fields
}

func alternatives[V any](name string, known map[string]V) string {
	names := slices.Sorted(maps.Keys(known))
	for _, k := range names {
		if strings.EqualFold(k, name) {
			return "it is spelled " + k
		}
	}
	return "there are " + strings.Join(names, ", ")
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func jsonType(raw any) string {
	switch raw.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	default:
		return "a number"
	}
}

func shown(raw any) string {
	switch raw.(type) {
	case map[string]any, []any:
		return jsonType(raw)
	default:
		return fmt.Sprintf("%v", raw)
	}
}

func goType(k reflect.Kind) string {
	switch k { //nolint:exhaustive // structs of JSON have no others here
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Map:
		return "an object"
	default:
		return "a text"
	}
}
