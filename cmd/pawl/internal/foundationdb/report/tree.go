package report

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// ObjectTable is the table of `pawl get` for objects of one of the three kinds; false: they are of another one, or
// of several.
func ObjectTable(objects []control.Object, now time.Time) (view.Table, bool) {
	if len(objects) == 0 {
		return view.Table{}, false
	}
	switch objects[0].Kind {
	case ClusterKind:
		return tableOf(objects, ClusterOf, func(c *v1beta2.FoundationDBCluster) fdbview.Cluster { return Of(Facts{Cluster: c, Now: now}) }, clusterColumns(now))
	case BackupKind:
		return tableOf(objects, BackupOf, OfBackup, backupColumns(now))
	case RestoreKind:
		return tableOf(objects, RestoreOf, OfRestore, restoreColumns(now))
	}
	return view.Table{}, false
}

// row is an object with what its status tells.
type row[V any] struct {
	control.Object
	is V
}

func tableOf[T, V any](objects []control.Object, read func(control.Object) (T, error), told func(T) V, columns []view.Column[row[V]]) (view.Table, bool) {
	rows := make([]row[V], len(objects))
	for i, o := range objects {
		one, err := read(o)
		if err != nil || o.Kind != objects[0].Kind {
			return view.Table{}, false
		}
		rows[i] = row[V]{o, told(one)}
	}
	return view.TableOf(rows, columns), true
}

func clusterColumns(now time.Time) []view.Column[row[fdbview.Cluster]] {
	type cluster = row[fdbview.Cluster]
	return []view.Column[cluster]{
		{Head: "NAMESPACE", Cell: func(c cluster) string { return c.Namespace }},
		{Head: "NAME", Cell: func(c cluster) string { return c.Name }},
		{Head: "STATE", Cell: func(c cluster) string { return c.is.State }, Health: func(c cluster) view.Health { return c.is.Health() }},
		{Head: "GROUPS", Cell: func(c cluster) string { return fmt.Sprintf("%d/%d", c.is.ReconciledGroups, c.is.DesiredGroups) }},
		{Head: "VERSION", Cell: func(c cluster) string { return c.is.Versions() }},
		{Head: "AVAILABLE", Cell: func(c cluster) string { return strconv.FormatBool(c.is.Available) }},
		{Head: "REPLICATED", Cell: func(c cluster) string { return strconv.FormatBool(c.is.FullReplication) }},
		{Head: "AGE", Cell: func(c cluster) string { return view.Age(now.Sub(c.CreatedAt)) }},
		{Head: "PROBLEMS", Wide: true, Cell: func(c cluster) string { return strconv.Itoa(c.is.Problems) }},
		{Head: "COORDINATORS", Wide: true, Cell: func(c cluster) string { return strconv.Itoa(len(c.is.Coordinators)) }},
		{Head: "CONFIGURATION", Wide: true, Cell: func(c cluster) string { return cmp.Or(c.is.Configuration, fdbview.None) }},
		{Head: "GENERATION", Wide: true, Cell: func(c cluster) string { return strconv.FormatInt(c.is.Generation, 10) }},
		{Head: "REASON", Cell: func(c cluster) string { return fdbview.Because(c.is.Reason, c.is.Message) }},
	}
}

func backupColumns(now time.Time) []view.Column[row[fdbview.Backup]] {
	type backup = row[fdbview.Backup]
	return []view.Column[backup]{
		{Head: "NAMESPACE", Cell: func(b backup) string { return b.Namespace }},
		{Head: "NAME", Cell: func(b backup) string { return b.Name }},
		{Head: "CLUSTER", Cell: func(b backup) string { return b.is.Cluster }},
		{Head: "STATE", Cell: func(b backup) string { return b.is.State }, Health: func(b backup) view.Health { return b.is.Health() }},
		{Head: "TAG", Cell: func(b backup) string { return b.is.Tag }},
		{Head: "RESTORABLE", Cell: func(b backup) string { return strconv.FormatBool(b.is.Restorable) }},
		{Head: "AGENTS", Cell: func(b backup) string { return fmt.Sprintf("%d/%d", b.is.Agents, b.is.DesiredAgents) }},
		{Head: "AGE", Cell: func(b backup) string { return view.Age(now.Sub(b.CreatedAt)) }},
		{Head: "DESIRED", Wide: true, Cell: func(b backup) string { return b.is.Desired }},
		{Head: "EVERY", Wide: true, Cell: func(b backup) string { return (time.Duration(b.is.PeriodSeconds) * time.Second).String() }},
		{Head: "URL", Wide: true, Cell: func(b backup) string { return cmp.Or(b.is.URL, fdbview.None) }},
		{Head: "REASON", Cell: func(b backup) string { return fdbview.Because(b.is.Reason, b.is.Message) }},
	}
}

func restoreColumns(now time.Time) []view.Column[row[fdbview.Restore]] {
	type restore = row[fdbview.Restore]
	return []view.Column[restore]{
		{Head: "NAMESPACE", Cell: func(r restore) string { return r.Namespace }},
		{Head: "NAME", Cell: func(r restore) string { return r.Name }},
		{Head: "CLUSTER", Cell: func(r restore) string { return r.is.Cluster }},
		{Head: "STATE", Cell: func(r restore) string { return r.is.State }, Health: func(r restore) view.Health { return r.is.Health() }},
		{Head: "TAG", Cell: func(r restore) string { return cmp.Or(r.is.Tag, fdbview.None) }},
		{Head: "STARTED", Cell: func(r restore) string { return fdbview.Moment(r.is.StartedAt, now) }},
		{Head: "COMPLETED", Cell: func(r restore) string { return fdbview.Moment(r.is.CompletedAt, now) }},
		{Head: "AGE", Cell: func(r restore) string { return view.Age(now.Sub(r.CreatedAt)) }},
		{Head: "TO", Wide: true, Cell: func(r restore) string {
			if r.is.Version == nil {
				return "newest"
			}
			return strconv.FormatInt(*r.is.Version, 10)
		}},
		{Head: "RANGES", Wide: true, Cell: func(r restore) string {
			if len(r.is.Ranges) == 0 {
				return "all"
			}
			return strconv.Itoa(len(r.is.Ranges))
		}},
		{Head: "REASON", Cell: func(r restore) string { return fdbview.Because(r.is.Reason, r.is.Message) }},
	}
}
