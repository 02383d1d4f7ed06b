package query

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// object is the inside of an answer, or a thing in it. What is nil is left out when it is set.
type object map[string]any

// set adds a value unless it is an empty text.
func (o object) set(name string, value any) {
	if s, ok := value.(string); value == nil || ok && s == "" {
		return
	}
	o[name] = value
}

// listed is the answer of a list: without items it has neither count nor array.
func listed[T any](name string, items []T, total int) object {
	if len(items) == 0 {
		return object{}
	}
	return object{"count": total, name: items}
}

// encodeJSON leaves <, > and & as they are, and ends without a line break.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// page is a part of a list.
type page struct{ offset, limit int }

// everything is the limit of a page without an end.
const everything = math.MaxInt32

// page reads page and pagesize.
func (c *call) page() (page, error) {
	v := c.values
	hasPage, hasSize, size := v.has("page"), v.has("pagesize"), v.number("pagesize")
	switch {
	case hasSize && size == -1 && hasPage:
		return page{}, c.command.wrong("page", "it has no meaning with pagesize -1")
	case hasSize && size == -1:
		return page{0, everything}, nil
	case hasPage != hasSize:
		return page{}, c.command.wrong("page", "page and pagesize are given together")
	case !hasSize:
		return page{0, c.options.PageMax}, nil
	case size < 1 || size > c.options.PageMax:
		return page{}, c.command.wrong("pagesize", "%d: it is 1 to %d, or -1 for all", size, c.options.PageMax)
	}
	number := max(v.number("page"), 1)
	if number > everything/size {
		return page{everything, size}, nil
	}
	return page{(number - 1) * size, size}, nil
}

// cut gives the page of a list that is there as a whole.
func cut[T any](all []T, p page) []T {
	from := min(p.offset, len(all))
	return all[from:min(from+min(p.limit, len(all)), len(all))]
}

// like reports a name that holds a text, without regard to case.
func like(name, part string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(part))
}
