package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// membership is the list of the nodes that have joined a control node. It is not stored:
// renewals fill it again after a restart.
type membership struct {
	silence time.Duration
	mu      sync.Mutex
	nodes   map[string]Member
	removed map[string]bool // names that the server has removed; they may not join again
}

func newMembership(silence time.Duration) *membership {
	return &membership{silence: silence, nodes: map[string]Member{}, removed: map[string]bool{}}
}

// renew adds a member or renews it. isNew: it was not a member. ok is false if the server
// has removed the name.
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

// follow replaces the members by the list of the control node that holds the endpoint.
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

// leave removes a member, unless another node has its name by now.
func (r *membership) leave(name, identity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[name].Identity != identity {
		return false
	}
	delete(r.nodes, name)
	return true
}

// forget removes names for ever.
func (r *membership) forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.removed[name] = true
		delete(r.nodes, name)
	}
}

// list returns the members that are not silent, sorted by name.
func (r *membership) list(now time.Time) []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	return slices.SortedFunc(maps.Values(r.nodes), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
}

func (r *membership) sweep(now time.Time) {
	maps.DeleteFunc(r.nodes, func(_ string, m Member) bool { return now.Sub(m.Seen) > r.silence })
}
