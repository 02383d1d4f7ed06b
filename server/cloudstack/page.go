package cloudstack

import "strconv"

// clusterPage is the answer of a list of clusters. It is encoded without maps and
// reflection, since clients request lists very often.
type clusterPage struct {
	family string
	items  []*clusterView
	total  int
}

// encode appends the whole answer under its key.
func (p *clusterPage) encode(b []byte, key string) ([]byte, error) {
	b = append(appendText(append(b, '{'), key), `:{"count":`...)
	b = append(strconv.AppendInt(b, int64(p.total), 10), ',')
	b = append(appendText(b, p.family), ":["...)
	var err error
	for i, s := range p.items {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = s.encode(b); err != nil {
			return b, err
		}
	}
	return append(b, "]}}"...), nil
}

// encode appends the cluster with the fields of its family, as object returns it.
func (s *clusterView) encode(b []byte) (_ []byte, err error) {
	b = append(b, '{')
	first := true
	fields := s.fields()
	for i := range fields {
		v := fields[i].of(s)
		if v.empty() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = append(b, fields[i].name...) // needs no escaping
		b = append(b, '"', ':')
		if b, err = v.encode(b); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}
