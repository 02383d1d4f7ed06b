package cloudstack

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// object is the body of an answer, or an object in it.
type object map[string]any

// set adds a value unless it is nil or an empty string.
func (o object) set(name string, value any) {
	if s, ok := value.(string); value == nil || ok && s == "" {
		return
	}
	o[name] = value
}

// listAnswer returns the answer of a list: without items it has neither count nor array.
func listAnswer[T any](name string, items []T, total int) object {
	if len(items) == 0 {
		return object{}
	}
	return object{"count": total, name: items}
}

// encodeJSON encodes without escaping <, > and &, and without a line break at the end.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// page selects a part of a list.
type page struct{ offset, limit int }

// noLimit is the limit of a page with all items.
const noLimit = math.MaxInt32

// page returns the page that the parameters page and pagesize select. PARAMETER_WRONG.
func (c *call) page() (page, error) {
	v := c.values
	hasPage, hasSize, size := v.has("page"), v.has("pagesize"), v.number("pagesize")
	switch {
	case hasSize && size == -1 && hasPage:
		return page{}, c.command.wrong("page", "it has no meaning with pagesize -1")
	case hasSize && size == -1:
		return page{0, noLimit}, nil
	case hasPage != hasSize:
		return page{}, c.command.wrong("page", "give page and pagesize together")
	case !hasSize:
		return page{0, c.options.PageMax}, nil
	case size < 1 || size > c.options.PageMax:
		return page{}, c.command.wrong("pagesize", "%d: it is 1 to %d, or -1 for all", size, c.options.PageMax)
	}
	number := max(v.number("page"), 1)
	if number > noLimit/size {
		return page{noLimit, size}, nil
	}
	return page{(number - 1) * size, size}, nil
}

// pageItems returns the page of a complete list.
func pageItems[T any](all []T, p page) []T {
	from := min(p.offset, len(all))
	return all[from:min(from+min(p.limit, len(all)), len(all))]
}

// containsFold reports whether a name contains a text, ignoring case.
func containsFold(name, part string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(part))
}
