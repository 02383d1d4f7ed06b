package sim

import (
	"strconv"
	"unicode/utf8"
)

// document writes JSON. Nothing of it is kept but the bytes, since a status of 1,000 processes has
// 3 MB.
type document struct {
	bytes []byte
	comma bool
	drop  func(name string) bool // whether a member is left out; nil: never
	muted int                    // how deep within what is left out
}

// name begins a member of an object, or an element of a list if it is empty. It reports whether the
// value is to be written.
func (d *document) name(name string) bool {
	if d.muted > 0 || name != "" && d.drop != nil && d.drop(name) {
		return false
	}
	if d.comma {
		d.bytes = append(d.bytes, ',')
	}
	d.comma = true
	if name != "" {
		d.quote(name)
		d.bytes = append(d.bytes, ':')
	}
	return true
}

func (d *document) open(name string, bracket byte) {
	if !d.name(name) {
		d.muted++
		return
	}
	d.bytes = append(d.bytes, bracket)
	d.comma = false
}

func (d *document) close(bracket byte) {
	if d.muted > 0 {
		d.muted--
		return
	}
	d.bytes = append(d.bytes, bracket)
	d.comma = true
}

// object writes an object whose members f writes.
func (d *document) object(name string, f func()) {
	d.open(name, '{')
	f()
	d.close('}')
}

// list writes a list whose elements f writes, with empty names.
func (d *document) list(name string, f func()) {
	d.open(name, '[')
	f()
	d.close(']')
}

func (d *document) text(name, value string) {
	if d.name(name) {
		d.quote(value)
	}
}

func (d *document) truth(name string, value bool) {
	if d.name(name) {
		d.bytes = strconv.AppendBool(d.bytes, value)
	}
}

func (d *document) whole(name string, value int64) {
	if d.name(name) {
		d.bytes = strconv.AppendInt(d.bytes, value, 10)
	}
}

func (d *document) number(name string, value float64) {
	if d.name(name) {
		d.bytes = strconv.AppendFloat(d.bytes, value, 'g', 6, 64)
	}
}

// rates writes an object of numbers, such as {"hz":0}.
func (d *document) rates(name string, members ...any) {
	d.object(name, func() {
		for i := 0; i+1 < len(members); i += 2 {
			member, _ := members[i].(string)
			switch value := members[i+1].(type) {
			case float64:
				d.number(member, value)
			case int64:
				d.whole(member, value)
			case int:
				d.whole(member, int64(value))
			}
		}
	})
}

// quote writes a string.
func (d *document) quote(text string) {
	d.bytes = append(d.bytes, '"')
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '"' || b == '\\':
			d.bytes = append(d.bytes, '\\', b)
		case b == '\n':
			d.bytes = append(d.bytes, '\\', 'n')
		case b < ' ':
			d.bytes = append(d.bytes, '\\', 'u', '0', '0', hexadecimal[b>>4], hexadecimal[b&15])
		case b < utf8.RuneSelf:
			d.bytes = append(d.bytes, b)
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			d.bytes = utf8.AppendRune(d.bytes, r)
			i += size
			continue
		}
		i++
	}
	d.bytes = append(d.bytes, '"')
}
