package lock

import "slices"

// Entry names an owner that must not hold the lock, or may hold it again.
type Entry struct {
	ID    string `json:"id"`
	Allow bool   `json:"allow,omitempty"` // take it off the list
}

// Merge brings a stored deny list up to what is wanted: named entries are
// added, those that allow are removed, all others stay. The result is sorted;
// of entries with one ID the last counts.
func Merge(stored []string, entries []Entry) []string {
	list := slices.Clone(stored)
	for _, e := range entries {
		list = slices.DeleteFunc(list, func(id string) bool { return id == e.ID })
		if !e.Allow && e.ID != "" {
			list = append(list, e.ID)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// List makes a Denied of a deny list.
func DenyList(ids []string) Denied {
	return func(owner string) bool { return slices.Contains(ids, owner) }
}
