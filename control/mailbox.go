package control

import "sync"

// notice is a change of one key; old and next are shared and must not be changed.
type notice[T any] struct {
	key       string
	old, next *Item[T]
	resync    bool
}

// mailbox holds the notices that a handler has not received yet. put never blocks. The
// length is at most twice the number of keys.
type mailbox[T any] struct {
	mu       sync.Mutex
	nonEmpty sync.Cond
	order    []string
	pending  map[string][]notice[T]
	closed   bool
}

func newMailbox[T any]() *mailbox[T] {
	m := &mailbox[T]{pending: map[string][]notice[T]{}}
	m.nonEmpty.L = &m.mu
	return m
}

func (m *mailbox[T]) put(n notice[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	held, queued := m.pending[n.key]
	if !queued {
		m.order = append(m.order, n.key)
	}
	m.pending[n.key] = join(held, n) // if nothing is left, get skips the key
	m.nonEmpty.Signal()
}

// join adds a notice to those of its key. Changes of the same object become one notice. An
// object that was created and deleted since the last get leaves none.
func join[T any](held []notice[T], n notice[T]) []notice[T] {
	if len(held) == 0 {
		return append(held, n)
	}
	last := &held[len(held)-1]
	switch {
	case last.next == nil: // it was deleted: n is about another object
		return append(held, n)
	case n.next == nil && last.old == nil:
		return held[:len(held)-1]
	default:
		last.resync = last.resync && n.resync
		last.next = n.next
		return held
	}
}

// get waits for a notice; false when the mailbox is closed.
func (m *mailbox[T]) get() (notice[T], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.closed {
		for len(m.order) > 0 {
			key := m.order[0]
			m.order = m.order[1:]
			held := m.pending[key]
			if len(held) > 1 {
				m.pending[key] = held[1:]
				m.order = append(m.order, key)
			} else {
				delete(m.pending, key)
			}
			if len(held) > 0 {
				return held[0], true
			}
		}
		m.nonEmpty.Wait()
	}
	return notice[T]{}, false
}

func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.nonEmpty.Broadcast()
}
