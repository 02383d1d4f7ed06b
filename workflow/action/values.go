package action

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parts of the schemas. Durations have the format of Go; sizes are bytes, KiB or MiB.
const (
	durationSchema = `{"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$", "description": "a duration: 500ms, 5s, 10m, 1h30m"}`
	scalarSchema   = `{"type": ["string", "number", "boolean"]}`
	valueSchema    = `{"type": ["string", "number", "boolean", "object"], "required": ["secret"], "additionalProperties": false,
		"properties": {"secret": {"type": "string", "minLength": 1, "description": "name of one of the step's secrets"}, "prefix": {"type": "string", "description": "put before the secret, as in \"Bearer \""}}}`
	onTimeoutSchema = `{"enum": ["fail", "continue", "undo"], "description": "when the deadline ends: WAIT_EXPIRED, output {timedOut: true}, or undo of the run"}`
)

func sizeSchema(what string, most int) string {
	return fmt.Sprintf(`{"type": ["integer", "string"], "minimum": 1, "maximum": %d, "pattern": "^[1-9][0-9]{0,6}(KiB|MiB)$", "description": %q}`, most, what)
}

// scalar is a text that YAML or an expression may provide as a number or boolean.
type scalar string

func (s *scalar) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(s))
	}
	*s = scalar(data)
	return nil
}

// value is text, or a reference to a secret: {secret: name}.
type value struct {
	text, secret, prefix string
}

func (v *value) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var ref struct{ Secret, Prefix string }
		err := json.Unmarshal(data, &ref)
		v.secret, v.prefix = ref.Secret, ref.Prefix
		return err
	}
	var text scalar
	err := text.UnmarshalJSON(data)
	v.text = string(text)
	return err
}

type duration time.Duration

func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(text)
	*d = duration(parsed)
	return err
}

type size int

func (s *size) UnmarshalJSON(data []byte) error {
	n, err := parseSize(strings.Trim(string(data), `"`))
	*s = size(n)
	return err
}

func parseSize(text string) (int, error) {
	unit := 1
	for suffix, u := range map[string]int{"KiB": 1 << 10, "MiB": 1 << 20} {
		if cut, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = cut, u
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: write a number of bytes, or 64KiB", text)
	}
	return n * unit, nil
}

// checkSize reports a size with a unit that exceeds the limit. The schema checks only plain
// numbers.
func checkSize(with map[string]any, key string, most int, wrong report) {
	text, ok := with[key].(string)
	if !ok || isTemplate(text) {
		return
	}
	if n, err := parseSize(text); err == nil && n > most {
		wrong([]string{key}, "%s is more than the limit of %d bytes", text, most)
	}
}
