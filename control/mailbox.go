package control

import "sync"

// notice is what happened to one key; old and next are shared and only read.
type notice[T any] struct {
	key       string
	old, next *Item[T]
	resync    bool
}

// mailbox holds what one handler has not heard yet. It never blocks who puts,
// and is no longer than twice the number of keys.
type mailbox[T any] struct {
	mu      sync.Mutex
	more    sync.Cond
	order   []string
	pending map[string][]notice[T]
	closed  bool
}

func newMailbox[T any]() *mailbox[T] {
	m := &mailbox[T]{pending: map[string][]notice[T]{}}
	m.more.L = &m.mu
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
	m.pending[n.key] = join(held, n) // if nothing is left, the key keeps its place and is passed over
	m.more.Signal()
}

// join adds a notice to those of its key: changes of one life become one, and
// a life that nobody has heard of leaves nothing.
func join[T any](held []notice[T], n notice[T]) []notice[T] {
	if len(held) == 0 {
		return append(held, n)
	}
	last := &held[len(held)-1]
	switch {
	case last.next == nil: // it was deleted: what follows is another life
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
		m.more.Wait()
	}
	return notice[T]{}, false
}

func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.more.Broadcast()
}
