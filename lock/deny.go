package lock

import "slices"

// Entry adds an owner to a deny list, or removes it.
type Entry struct {
	ID    string `json:"id"`
	Allow bool   `json:"allow,omitempty"` // remove it from the list
}

// Merge applies entries to a stored deny list: it adds the named ones, removes
// those with Allow, and keeps all others. The result is sorted; of several entries
// with one ID the last counts.
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

// DenyList returns the Denied of a deny list.
func DenyList(ids []string) Denied {
	return func(owner string) bool { return slices.Contains(ids, owner) }
}
