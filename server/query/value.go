package query

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
	nothing valueKind = iota // omitted
	aText                    // omitted if empty
	aNumber
	aQuoted // a number, encoded as a string
	aFlag   // a boolean; number is 0 or 1
	aDate
	aList
	anObject
)

func textOf(s string) value      { return value{kind: aText, text: s} }
func numberOf(n int) value       { return value{kind: aNumber, number: n} }
func quotedOf(n int) value       { return value{kind: aQuoted, number: n} }
func dateOf(t time.Time) value   { return value{kind: aDate, number: int(t.Unix())} }
func listOf(list []string) value { return value{kind: aList, more: list} }
func objectOf(o any) value       { return value{kind: anObject, more: o} }

func flagOf(b bool) value {
	if b {
		return value{kind: aFlag, number: 1}
	}
	return value{kind: aFlag}
}

// empty reports values that are omitted.
func (v *value) empty() bool { return v.kind == nothing || v.kind == aText && v.text == "" }

// any returns the value for encodeJSON.
func (v *value) any() any {
	switch v.kind {
	case nothing:
		return nil
	case aText:
		return v.text
	case aNumber:
		return v.number
	case aQuoted:
		return strconv.Itoa(v.number)
	case aFlag:
		return v.number == 1
	case aDate:
		return date(v.date())
	}
	return v.more
}

func (v *value) date() time.Time { return time.Unix(int64(v.number), 0).UTC() }

// encode appends the value, as encodeJSON writes it; a list without items is [].
func (v *value) encode(b []byte) ([]byte, error) {
	switch v.kind {
	case aText:
		return appendText(b, v.text), nil
	case aNumber:
		return strconv.AppendInt(b, int64(v.number), 10), nil
	case aQuoted:
		return append(strconv.AppendInt(append(b, '"'), int64(v.number), 10), '"'), nil
	case aFlag:
		return strconv.AppendBool(b, v.number == 1), nil
	case aDate:
		return append(v.date().AppendFormat(append(b, '"'), dateForm), '"'), nil
	case aList:
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
var bare = func() (set [256]bool) {
	for c := ' '; c <= '~'; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()

// appendText appends a JSON string, as encodeJSON writes it.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if !bare[text[i]] {
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
