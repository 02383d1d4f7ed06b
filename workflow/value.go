package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// encode encodes a value as JSON. Steps always read the decoded value, so types are the same before
// and after a restart.
func encode(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return json.RawMessage("null"), nil
	case json.RawMessage:
		if !json.Valid(v) {
			return nil, fmt.Errorf("the value is not valid JSON")
		}
		return bytes.Clone(v), nil
	}
	return json.Marshal(v)
}

// decode decodes JSON into v. In a value of type any, whole numbers become int64 if they fit, else
// float64.
func decode(data json.RawMessage, v any, what string) error {
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	if target, ok := v.(*any); ok {
		value, err := runtype.Decode(data)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		*target = value
		return nil
	}
	if target, ok := v.(*map[string]any); ok {
		value, err := runtype.Decode(data)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		object, ok := value.(map[string]any)
		if !ok && value != nil {
			return fmt.Errorf("%s is no object", what)
		}
		*target = object
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
