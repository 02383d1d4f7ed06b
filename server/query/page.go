package query

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// clusterPage is the answer of a list of clusters. It is written without maps
// and reflection: lists are what clients ask for all the time.
type clusterPage struct {
	family string
	items  []*shown
	total  int
}

// encode gives the whole answer under its one key.
func (p *clusterPage) encode(key string) ([]byte, error) {
	b := make([]byte, 0, 256+1024*len(p.items))
	b = append(appendText(append(b, '{'), key), `:{"count":`...)
	b = append(strconv.AppendInt(b, int64(p.total), 10), ',')
	b = append(appendText(b, p.family), ":["...)
	var err error
	for i, s := range p.items {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = s.encode(b); err != nil {
			return nil, err
		}
	}
	return append(b, "]}}"...), nil
}

// encode appends the cluster in the shape of its family, as object has it.
func (s *shown) encode(b []byte) ([]byte, error) {
	b = append(b, '{')
	first := true
	for _, f := range s.fields() {
		v := f.of(s)
		if text, ok := v.(string); v == nil || ok && text == "" {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendText(b, f.name), ':')
		var err error
		if b, err = appendValue(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return appendText(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case []string:
		b = append(b, '[')
		for i, text := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, text)
		}
		return append(b, ']'), nil
	}
	data, err := encodeJSON(v)
	return append(b, data...), err
}

// appendText appends a JSON string, as encodeJSON writes it.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			out := bytes.NewBuffer(b)
			e := json.NewEncoder(out)
			e.SetEscapeHTML(false)
			_ = e.Encode(text) // a text has JSON
			return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
