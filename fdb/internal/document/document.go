// Package document reads JSON documents that are large and of which little is wanted, in one pass.
//
//	d := document.Of(text)
//	d.Members(func(name string) {
//		if name == "generation" {
//			generation = d.Integer()
//			return
//		}
//		d.Skip()
//	})
//	if at, ok := d.End(); !ok { … } // malformed at byte at
package document

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// maxDepth is how deep a document may be nested. The deepest path of the published schema has 9
// levels (fdbclient/Schemas.cpp, 7.3.69).
const maxDepth = 200

// Document reads JSON in one pass: it takes the wanted values and checks the others without keeping
// them. A value of an unexpected type counts as absent. encoding/json would need two passes, and
// keeps only the last of two members with one name.
type Document struct {
	data  []byte
	at    int
	depth int
	bad   bool // malformed: nothing is read any more
}

// Of returns a document that is read from its beginning.
func Of(text []byte) *Document { return &Document{data: text} }

// End returns how far the document was read, and whether that is all of it but white space.
func (d *Document) End() (at int, ok bool) {
	d.next()
	return d.at, !d.bad && d.at == len(d.data)
}

// next skips white space and returns the first byte of what follows; 0 at the end.
func (d *Document) next() byte {
	for ; d.at < len(d.data); d.at++ {
		switch d.data[d.at] {
		case ' ', '\t', '\n', '\r':
		default:
			if d.bad {
				return 0
			}
			return d.data[d.at]
		}
	}
	return 0
}

// take consumes c if it is the next byte.
func (d *Document) take(c byte) bool {
	if d.next() != c {
		return false
	}
	d.at++
	return true
}

// Members calls f for each member of an object; f reads or skips the value. It reports whether the
// value is an object.
func (d *Document) Members(f func(name string)) bool {
	if d.next() != '{' {
		d.Skip()
		return false
	}
	d.list('}', func() {
		name, ok := d.Text()
		if !ok || !d.take(':') {
			d.bad = true
			return
		}
		f(name)
	})
	return true
}

// Elements calls f for each element of an array; f reads or skips it. It reports whether the value is
// an array.
func (d *Document) Elements(f func()) bool {
	if d.next() != '[' {
		d.Skip()
		return false
	}
	d.list(']', f)
	return true
}

// list reads from the opening bracket to end.
func (d *Document) list(end byte, f func()) {
	d.at++
	if d.depth++; d.depth > maxDepth {
		d.bad = true
	}
	for first := true; !d.bad; first = false {
		if first && d.take(end) {
			break
		}
		f()
		if d.take(',') {
			continue
		}
		if !d.take(end) {
			d.bad = true
		}
		break
	}
	d.depth--
}

// Skip consumes one value of any type.
func (d *Document) Skip() {
	switch c := d.next(); {
	case c == '{':
		d.Members(func(string) { d.Skip() })
	case c == '[':
		d.Elements(d.Skip)
	case c == '"':
		d.quoted()
	case c == '-' || '0' <= c && c <= '9':
		d.digits()
	case c == 't':
		d.literal("true")
	case c == 'f':
		d.literal("false")
	case c == 'n':
		d.literal("null")
	default:
		d.bad = true
	}
}

func (d *Document) literal(word string) bool {
	if !bytes.HasPrefix(d.data[d.at:], []byte(word)) {
		d.bad = true
		return false
	}
	d.at += len(word)
	return true
}

// quoted consumes a string and returns it with its quotes.
func (d *Document) quoted() (raw []byte, escaped bool) {
	start := d.at
	for d.at++; d.at < len(d.data); d.at++ {
		switch c := d.data[d.at]; {
		case c == '"':
			d.at++
			return d.data[start:d.at], escaped
		case c < ' ':
			d.bad = true
			return nil, false
		case c == '\\':
			escaped = true
			if !d.escape() {
				d.bad = true
				return nil, false
			}
		}
	}
	d.bad = true
	return nil, false
}

// escape checks the escape sequence at the backslash and moves to its last byte.
func (d *Document) escape() bool {
	d.at++
	if d.at >= len(d.data) {
		return false
	}
	switch d.data[d.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if d.at+4 >= len(d.data) {
			return false
		}
		for i := 1; i <= 4; i++ {
			if c := d.data[d.at+i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return false
			}
		}
		d.at += 4
		return true
	}
	return false
}

// digits consumes a number.
func (d *Document) digits() []byte {
	start := d.at
	run := func() bool {
		from := d.at
		for d.at < len(d.data) && '0' <= d.data[d.at] && d.data[d.at] <= '9' {
			d.at++
		}
		return d.at > from
	}
	is := func(set string) bool {
		if d.at < len(d.data) && bytes.IndexByte([]byte(set), d.data[d.at]) >= 0 {
			d.at++
			return true
		}
		return false
	}
	is("-")
	ok := is("0") || run()
	if ok && is(".") {
		ok = run()
	}
	if ok && is("eE") {
		is("+-")
		ok = run()
	}
	if !ok {
		d.bad = true
	}
	return d.data[start:d.at]
}

// Text reads a string.
func (d *Document) Text() (string, bool) {
	if d.next() != '"' {
		d.Skip()
		return "", false
	}
	raw, escaped := d.quoted()
	switch {
	case d.bad:
		return "", false
	case !escaped:
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// Str reads a string; empty for anything else.
func (d *Document) Str() string {
	s, _ := d.Text()
	return s
}

// Boolean reads true or false; nil for anything else.
func (d *Document) Boolean() *bool {
	switch d.next() {
	case 't':
		if d.literal("true") {
			return new(true)
		}
	case 'f':
		if d.literal("false") {
			return new(false)
		}
	default:
		d.Skip()
	}
	return nil
}

// Number reads a finite number; nil for anything else.
func (d *Document) Number() *float64 {
	if c := d.next(); c != '-' && (c < '0' || c > '9') {
		d.Skip()
		return nil
	}
	n, err := strconv.ParseFloat(string(d.digits()), 64)
	if d.bad || err != nil {
		return nil
	}
	return &n
}

// Whole reads a whole number, which FoundationDB may write with an exponent; nil for anything else.
func (d *Document) Whole() *int64 {
	n := d.Number()
	if n == nil || *n != math.Trunc(*n) || math.Abs(*n) > 1<<53 {
		return nil
	}
	return new(int64(*n))
}

// Integer is whole for values that are counts.
func (d *Document) Integer() *int {
	n := d.Whole()
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// Raw returns the next value as it stands.
func (d *Document) Raw() []byte {
	d.next()
	start := d.at
	d.Skip()
	return d.data[start:d.at]
}

// List reads an array of objects; nil for anything else. An element that is no object is a zero value.
func List[T any](d *Document, member func(t *T, name string)) []T {
	found := []T{}
	if !d.Elements(func() {
		var t T
		d.Members(func(name string) { member(&t, name) })
		found = append(found, t)
	}) {
		return nil
	}
	return found
}
