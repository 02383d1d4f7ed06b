package sqlstore

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// memo remembers what documents mean that were read a moment ago: the rows of a
// cluster's VMs have one text, and a book is read many times while its cluster
// is made. Each text has one place, which the next one with the same place takes.
type documentCache[T any] struct {
	slots [512]atomic.Pointer[cachedDocument[T]]
	copy  func(T) T // of what the reader may change
}

type cachedDocument[T any] struct {
	text  string
	value T
}

var (
	seed          = maphash.MakeSeed()
	positionCache = documentCache[machine.Position]{copy: func(p machine.Position) machine.Position {
		p.Params = slices.Clone(p.Params)
		if p.Ending != nil {
			ending := *p.Ending
			p.Ending = &ending
		}
		return p
	}}
	specCache = documentCache[cluster.Spec]{copy: func(s cluster.Spec) cluster.Spec {
		s.CIDRs, s.VMs = slices.Clone(s.CIDRs), slices.Clone(s.VMs)
		return s
	}}
)

// of reads the next column.
func (m *documentCache[T]) of(r *reader) (value T) {
	text := r.text()
	if text == "" || r.err != nil {
		return value
	}
	place := &m.slots[maphash.String(seed, text)%uint64(len(m.slots))]
	if known := place.Load(); known != nil && known.text == text {
		return m.copy(known.value)
	}
	if r.decode(text, &value); r.err == nil {
		place.Store(&cachedDocument[T]{text, m.copy(value)})
	}
	return value
}
