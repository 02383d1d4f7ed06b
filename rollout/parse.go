package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// ParsePlan reads the JSON of spec.rolloutPlan. It refuses unknown fields; the fault is PLAN_INVALID
// and names the field. What the values say is judged by Problems.
func ParsePlan(text []byte) (Plan, error) {
	var p Plan
	var raw any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return p, PlanInvalid.Errorf("the plan is not JSON: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return p, PlanInvalid.Errorf("there is more text behind the plan")
	}
	if _, ok := raw.(map[string]any); !ok {
		return p, PlanInvalid.Errorf("a plan is a JSON object, not %s", jsonType(raw))
	}
	if err := decode("", raw, reflect.ValueOf(&p).Elem()); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// decode fills v from a JSON value and names the path of what does not fit.
func decode(path string, raw any, v reflect.Value) error {
	if raw == nil {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return PlanInvalid.Errorf("%s: %s", path, fmt.Sprintf(format, args...)).With("field", path)
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
	switch v.Kind() { //nolint:exhaustive // a plan has no other kinds
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decode(path, raw, v.Elem())
	case reflect.Struct:
		fields, ok := raw.(map[string]any)
		if !ok {
			return refuse("it must be an object, not %s", jsonType(raw))
		}
		known := fieldsOf(v)
		for _, name := range sortedKeys(fields) {
			field, ok := known[name]
			if !ok {
				return PlanInvalid.Errorf("%s: there is no such field; %s", join(path, name), alternatives(name, known)).With("field", join(path, name))
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
	for _, k := range sortedKeys(known) {
		if strings.EqualFold(k, name) {
			return "it is spelled " + k
		}
	}
	return "there are " + strings.Join(sortedKeys(known), ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
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
	switch k { //nolint:exhaustive // a plan has no other kinds
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
