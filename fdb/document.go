package fdb

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// StatusUnreadable is returned for a status document that is not one JSON object.
var StatusUnreadable = fault.Declare(fault.Kind{
	Code: "FDB_STATUS_UNREADABLE", Class: fault.Transient,
	Title:  "the status document of the database cannot be read",
	Remedy: "Run fdbcli --exec 'status json' in a pod of the cluster and compare. A document that was cut off comes again with the next look.",
})

// maxDepth is how deep a document may be nested. The deepest path of the published schema has 9
// levels (fdbclient/Schemas.cpp, 7.3.69).
const maxDepth = 200

// document reads JSON in one pass: it takes the wanted values and checks the others without keeping
// them. A value of an unexpected type counts as absent. encoding/json would need two passes, and
// keeps only the last of two members with one name.
type document struct {
	data  []byte
	at    int
	depth int
	bad   bool // malformed: nothing is read any more
}

// next skips white space and returns the first byte of what follows; 0 at the end.
func (d *document) next() byte {
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
func (d *document) take(c byte) bool {
	if d.next() != c {
		return false
	}
	d.at++
	return true
}

// members calls f for each member of an object; f reads or skips the value. It reports whether the
// value is an object.
func (d *document) members(f func(name string)) bool {
	if d.next() != '{' {
		d.skip()
		return false
	}
	d.list('}', func() {
		name, ok := d.text()
		if !ok || !d.take(':') {
			d.bad = true
			return
		}
		f(name)
	})
	return true
}

// elements calls f for each element of an array; f reads or skips it. It reports whether the value is
// an array.
func (d *document) elements(f func()) bool {
	if d.next() != '[' {
		d.skip()
		return false
	}
	d.list(']', f)
	return true
}

// list reads from the opening bracket to end.
func (d *document) list(end byte, f func()) {
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

// skip consumes one value of any type.
func (d *document) skip() {
	switch c := d.next(); {
	case c == '{':
		d.members(func(string) { d.skip() })
	case c == '[':
		d.elements(d.skip)
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

func (d *document) literal(word string) bool {
	if !bytes.HasPrefix(d.data[d.at:], []byte(word)) {
		d.bad = true
		return false
	}
	d.at += len(word)
	return true
}

// quoted consumes a string and returns it with its quotes.
func (d *document) quoted() (raw []byte, escaped bool) {
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
func (d *document) escape() bool {
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
func (d *document) digits() []byte {
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

// text_ reads a string.
func (d *document) text() (string, bool) {
	if d.next() != '"' {
		d.skip()
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

// str reads a string; empty for anything else.
func (d *document) str() string {
	s, _ := d.text()
	return s
}

// boolean reads true or false; nil for anything else.
func (d *document) boolean() *bool {
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
		d.skip()
	}
	return nil
}

// number reads a finite number; nil for anything else.
func (d *document) number() *float64 {
	if c := d.next(); c != '-' && (c < '0' || c > '9') {
		d.skip()
		return nil
	}
	n, err := strconv.ParseFloat(string(d.digits()), 64)
	if d.bad || err != nil {
		return nil
	}
	return &n
}

// whole reads a whole number, which FoundationDB may write with an exponent; nil for anything else.
func (d *document) whole() *int64 {
	n := d.number()
	if n == nil || *n != math.Trunc(*n) || math.Abs(*n) > 1<<53 {
		return nil
	}
	return new(int64(*n))
}

// integer is whole for values that are counts.
func (d *document) integer() *int {
	n := d.whole()
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// raw returns the next value as it stands.
func (d *document) raw() []byte {
	d.next()
	start := d.at
	d.skip()
	return d.data[start:d.at]
}
