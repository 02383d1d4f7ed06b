package sim

import (
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// list returns a page. The cursor is the sequence number of the last resource before it,
// so that concurrent creates and deletes move nothing.
func (r *resources) list(installation string, f cluster.Filter, at cluster.Cursor, now time.Time) (cluster.Page, error) {
	var after int64
	if at != "" {
		n, err := strconv.ParseInt(string(at), 10, 64)
		if err != nil {
			return cluster.Page{}, cluster.ProviderRefused.Errorf("cursor %q", at)
		}
		after = n
	}
	size := f.Size
	if size <= 0 {
		size = 500
	}
	x := r.narrowestIndex(installation, f)
	if x == nil {
		return cluster.Page{}, nil
	}
	// Allocate no more than the index holds.
	page := cluster.Page{Items: make([]cluster.Resource, 0, min(size, len(x.items)))}
	last := after
	for _, t := range x.items[x.after(after):] {
		if !r.matches(t, installation, f, now) {
			continue
		}
		if len(page.Items) == size {
			page.Next = cluster.Cursor(strconv.FormatInt(last, 10))
			break
		}
		page.Items, last = append(page.Items, t.toCluster()), t.Seq
	}
	return page, nil
}

func (r *resources) narrowestIndex(installation string, f cluster.Filter) *index {
	switch {
	case f.Network != "":
		return r.byNetwork[f.Network]
	case f.Cluster != "":
		return r.byCluster[f.Cluster]
	case installation != "" && !f.Foreign:
		return r.byInst[installation+"/"+string(f.Kind)]
	default:
		return r.byKind[f.Kind]
	}
}

func (r *resources) matches(t *resource, installation string, f cluster.Filter, now time.Time) bool {
	switch {
	case t.gone, t.Kind != f.Kind, now.Before(t.Visible), f.Zone != "" && t.Spec.Zone != f.Zone, f.Cluster != "" && t.Cluster != f.Cluster:
		return false
	case f.Network != "":
		return t.Spec.Network == f.Network
	default:
		return installation == "" || t.Installation == installation || f.Foreign && f.Cluster == ""
	}
}
