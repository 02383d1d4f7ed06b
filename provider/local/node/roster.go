package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// roster is the list of joined nodes of a control node. It is not kept: after
// a restart the nodes' renewals fill it again.
type membership struct {
	silence time.Duration
	mu      sync.Mutex
	nodes   map[string]Member
	removed map[string]bool // names that home told to forget; never given again
}

func newMembership(silence time.Duration) *membership {
	return &membership{silence: silence, nodes: map[string]Member{}, removed: map[string]bool{}}
}

// renew enters a node or hears it again. It is new if it was not in the list,
// and refused if home had it forgotten.
func (r *membership) renew(now time.Time, m Member) (isNew, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	if r.removed[m.Name] {
		return false, false
	}
	old, known := r.nodes[m.Name]
	isNew = !known || old.Identity != m.Identity
	m.Ready, m.Since, m.Seen = true, old.Since, now
	if isNew {
		m.Since = now
	}
	r.nodes[m.Name] = m
	return isNew, true
}

// follow takes over the list of the control node that leads: what is not in it
// has left.
func (r *membership) follow(members []Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.nodes)
	for _, m := range members {
		if !r.removed[m.Name] {
			r.nodes[m.Name] = m
		}
	}
}

// leave takes a node out of the list, unless another one has its name by now.
func (r *membership) leave(name, identity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[name].Identity != identity {
		return false
	}
	delete(r.nodes, name)
	return true
}

// forget takes nodes out of the list for ever.
func (r *membership) forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.removed[name] = true
		delete(r.nodes, name)
	}
}

// list gives the nodes that are not silent, by name.
func (r *membership) list(now time.Time) []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	return slices.SortedFunc(maps.Values(r.nodes), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
}

func (r *membership) sweep(now time.Time) {
	maps.DeleteFunc(r.nodes, func(_ string, m Member) bool { return now.Sub(m.Seen) > r.silence })
}
