package cloudstack

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// value is the value of a field. It is not an interface, to save allocations: a page has thousands.
type value struct {
	kind   valueKind
	number int // of a date: its Unix time in seconds
	text   string
	more   any // []string of a list; of an object: the value to encode
}

type valueKind int

const (
	noValue   valueKind = iota // omitted
	textValue                  // omitted if empty
	numberValue
	quotedValue // a number, encoded as a string
	flagValue   // a boolean; number is 0 or 1
	dateValue
	listValue
	objectValue
)

func textOf(s string) value      { return value{kind: textValue, text: s} }
func numberOf(n int) value       { return value{kind: numberValue, number: n} }
func quotedOf(n int) value       { return value{kind: quotedValue, number: n} }
func dateOf(t time.Time) value   { return value{kind: dateValue, number: int(t.Unix())} }
func listOf(list []string) value { return value{kind: listValue, more: list} }
func objectOf(o any) value       { return value{kind: objectValue, more: o} }

func flagOf(b bool) value {
	if b {
		return value{kind: flagValue, number: 1}
	}
	return value{kind: flagValue}
}

// empty reports values that are omitted.
func (v *value) empty() bool { return v.kind == noValue || v.kind == textValue && v.text == "" }

// any returns the value for encodeJSON.
func (v *value) any() any {
	switch v.kind {
	case noValue:
		return nil
	case textValue:
		return v.text
	case numberValue:
		return v.number
	case quotedValue:
		return strconv.Itoa(v.number)
	case flagValue:
		return v.number == 1
	case dateValue:
		return date(v.date())
	}
	return v.more
}

func (v *value) date() time.Time { return time.Unix(int64(v.number), 0).UTC() }

// encode appends the value, as encodeJSON writes it; a list without items is [].
func (v *value) encode(b []byte) ([]byte, error) {
	switch v.kind {
	case textValue:
		return appendText(b, v.text), nil
	case numberValue:
		return strconv.AppendInt(b, int64(v.number), 10), nil
	case quotedValue:
		return append(strconv.AppendInt(append(b, '"'), int64(v.number), 10), '"'), nil
	case flagValue:
		return strconv.AppendBool(b, v.number == 1), nil
	case dateValue:
		return append(v.date().AppendFormat(append(b, '"'), dateForm), '"'), nil
	case listValue:
		b = append(b, '[')
		list, _ := v.more.([]string)
		for i, text := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, text)
		}
		return append(b, ']'), nil
	}
	data, err := encodeJSON(v.any())
	return append(b, data...), err
}

// plainChars are the characters that need no escape in a JSON string.
var plainChars = func() (set [256]bool) {
	for c := ' '; c <= '~'; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()

// appendText appends a JSON string, as encodeJSON writes it.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if !plainChars[text[i]] {
			out := bytes.NewBuffer(b)
			e := json.NewEncoder(out)
			e.SetEscapeHTML(false)
			_ = e.Encode(text) // never fails
			return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
