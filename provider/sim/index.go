package sim

import "slices"

// index holds resources in the order of their creation. It compacts itself when half of
// its entries are removed.
type index struct {
	items        []*resource
	removedCount int
}

func (x *index) add(t *resource) {
	if n := len(x.items); n == 0 || x.items[n-1].Seq < t.Seq {
		x.items = append(x.items, t)
		return
	}
	at, there := x.after(t.Seq-1), false
	if at < len(x.items) {
		there = x.items[at] == t
	}
	if there {
		x.removedCount--
		return
	}
	x.items = slices.Insert(x.items, at, t)
}

// after returns the position of the first resource after a sequence number.
func (x *index) after(seq int64) int {
	at, _ := slices.BinarySearchFunc(x.items, seq+1, func(t *resource, seq int64) int {
		switch {
		case t.Seq < seq:
			return -1
		case t.Seq > seq:
			return 1
		}
		return 0
	})
	return at
}

// removed records that a resource no longer belongs to the index; belongs reports which
// still do.
func (x *index) removed(belongs func(*resource) bool) {
	if x.removedCount++; x.removedCount > 32 && x.removedCount*2 > len(x.items) {
		x.items, x.removedCount = slices.DeleteFunc(x.items, func(t *resource) bool { return !belongs(t) }), 0
	}
}

func indexFor[K comparable](m map[K]*index, key K) *index {
	x, ok := m[key]
	if !ok {
		x = &index{}
		m[key] = x
	}
	return x
}

func removeFromIndex[K comparable](m map[K]*index, key K, belongs func(*resource) bool) {
	x, ok := m[key]
	if !ok {
		return
	}
	if x.removed(belongs); len(x.items) == x.removedCount {
		delete(m, key)
	}
}
