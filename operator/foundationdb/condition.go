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

// Targets reports whether a list names a group, or all.
func Targets(list []v1beta2.ProcessGroupTarget, id v1beta2.ProcessGroupID) bool {
	return slices.ContainsFunc(list, func(t v1beta2.ProcessGroupTarget) bool { return t.Names(id) })
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
