package report

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// ObjectTable is the table of `pawl get` for objects of one of the three kinds; false: they are of another one.
func ObjectTable(objects []control.Object, now time.Time) (view.Table, bool) {
	if len(objects) == 0 {
		return view.Table{}, false
	}
	var t view.Table
	for _, o := range objects {
		if o.Kind != objects[0].Kind {
			return t, false
		}
		row, head, ok := rowOf(o, now)
		if !ok {
			return t, false
		}
		t.Head, t.Rows = head, append(t.Rows, row)
	}
	return t, true
}

func rowOf(o control.Object, now time.Time) (row, head []string, ok bool) {
	age := view.Age(now.Sub(o.CreatedAt))
	switch o.Kind {
	case ClusterKind:
		c, err := ClusterOf(o)
		if err != nil {
			return nil, nil, false
		}
		v := Of(Facts{Cluster: c, Now: now})
		return []string{o.Namespace, o.Name, v.State, fmt.Sprintf("%d/%d", v.ReconciledGroups, v.DesiredGroups), v.Versions(), strconv.FormatBool(v.Available), strconv.FormatBool(v.FullReplication), age, fdbview.Because(v.Reason, v.Message)},
			[]string{"NAMESPACE", "NAME", "STATE", "GROUPS", "VERSION", "AVAILABLE", "REPLICATED", "AGE", "REASON"}, true
	case BackupKind:
		b, err := BackupOf(o)
		if err != nil {
			return nil, nil, false
		}
		v := OfBackup(b)
		return []string{o.Namespace, o.Name, b.Spec.ClusterName, v.State, v.Tag, strconv.FormatBool(v.Restorable), fmt.Sprintf("%d/%d", v.Agents, v.DesiredAgents), age, fdbview.Because(v.Reason, v.Message)},
			[]string{"NAMESPACE", "NAME", "CLUSTER", "STATE", "TAG", "RESTORABLE", "AGENTS", "AGE", "REASON"}, true
	case RestoreKind:
		r, err := RestoreOf(o)
		if err != nil {
			return nil, nil, false
		}
		v := OfRestore(r)
		return []string{o.Namespace, o.Name, r.Spec.DestinationClusterName, v.State, cmp.Or(v.Tag, fdbview.None), fdbview.Moment(v.StartedAt, now), fdbview.Moment(v.CompletedAt, now), age, fdbview.Because(v.Reason, v.Message)},
			[]string{"NAMESPACE", "NAME", "CLUSTER", "STATE", "TAG", "STARTED", "COMPLETED", "AGE", "REASON"}, true
	}
	return nil, nil, false
}
