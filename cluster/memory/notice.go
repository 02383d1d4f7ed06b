package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// PutNotice implements Notices.
func (m *Store) PutNotice(ctx context.Context, n cluster.Notice) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notices = slices.DeleteFunc(m.notices, func(old cluster.Notice) bool { return old.Provider == n.Provider && old.Task == n.Task })
	if !n.IsEmpty() {
		n.Orphans = slices.Clone(n.Orphans)
		m.notices = append(m.notices, n)
	}
	return nil
}

// Notices implements Notices.
func (m *Store) Notices(ctx context.Context) ([]cluster.Notice, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Clone(m.notices)
	for i := range all {
		all[i].Orphans = slices.Clone(all[i].Orphans)
	}
	slices.SortFunc(all, func(a, b cluster.Notice) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Task, b.Task))
	})
	return all, nil
}
