package clusters

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// documentCache caches decoded JSON documents. The rows of a cluster's VMs have the same
// text, and a record is read many times while its cluster is created. Each text hashes
// to one slot; the next text with the same slot replaces it.
type documentCache[T any] struct {
	slots [512]atomic.Pointer[cachedDocument[T]]
	copy  func(T) T // deep copy, so that callers do not change cached values
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

// of decodes the next column.
func (m *documentCache[T]) of(r *reader) (value T) {
	text := r.text()
	if text == "" || r.err != nil {
		return value
	}
	slot := &m.slots[maphash.String(seed, text)%uint64(len(m.slots))]
	if known := slot.Load(); known != nil && known.text == text {
		return m.copy(known.value)
	}
	if r.decode(text, &value); r.err == nil {
		slot.Store(&cachedDocument[T]{text, m.copy(value)})
	}
	return value
}
