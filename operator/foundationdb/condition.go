package foundationdb

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// FirstConditions returns the conditions of a new group, of which nothing is there yet.
func FirstConditions(class fdb.Class) []v1beta2.ProcessGroupConditionType {
	conditions := []v1beta2.ProcessGroupConditionType{v1beta2.MissingProcesses, v1beta2.MissingPod}
	if class.Stateful() {
		conditions = append(conditions, v1beta2.MissingPVC)
	}
	return conditions
}

// failures are the conditions for which a group is replaced when they last. ProcessHasHighRunLoopBusy is none: it
// only informs.
var failures = map[v1beta2.ProcessGroupConditionType]bool{
	v1beta2.MissingProcesses: true, v1beta2.PodFailing: true, v1beta2.MissingPod: true, v1beta2.MissingPVC: true,
	v1beta2.MissingService: true, v1beta2.PodPending: true, v1beta2.NodeTaintReplacing: true,
	v1beta2.ProcessIsMarkedAsExcluded: true, v1beta2.ProcessHasIOError: true, v1beta2.SidecarUnreachable: true,
}

// since returns when a condition was first seen, and whether it is there.
func since(g v1beta2.ProcessGroupStatus, condition v1beta2.ProcessGroupConditionType) (time.Time, bool) {
	for _, c := range g.ProcessGroupConditions {
		if c.Type == condition {
			return time.Unix(c.Timestamp, 0), true
		}
	}
	return time.Time{}, false
}

// lasts reports whether a condition is there for longer than a time.
func lasts(g v1beta2.ProcessGroupStatus, condition v1beta2.ProcessGroupConditionType, d time.Duration, now time.Time) bool {
	at, there := since(g, condition)
	return there && now.Sub(at) > d
}

func marked(g v1beta2.ProcessGroupStatus) bool { return g.RemovalTimestamp != nil }

// excluded reports whether the exclusion of a group is finished, or left out.
func excluded(g v1beta2.ProcessGroupStatus) bool {
	return g.ExclusionTimestamp != nil || g.ExclusionSkipped
}

// targets reports whether a list names a group, or all.
func targets(list []v1beta2.ProcessGroupTarget, id v1beta2.ProcessGroupID) bool {
	return slices.Contains(list, v1beta2.ProcessGroupTarget(id)) || slices.Contains(list, "*")
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
