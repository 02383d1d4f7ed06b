package foundationdb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Warnings returns what is allowed in a cluster and may not do what is expected.
func Warnings(c *v1beta2.FoundationDBCluster) []Problem {
	var p problems
	s := c.Spec
	locks := UsesLocks(s)
	p.add(locks && s.ProcessGroupIDPrefix == "", "spec.processGroupIDPrefix", "locks are in use, and without a prefix this object is no owner that others can tell apart")
	p.add(!locks && len(s.LockOptions.DenyList) > 0, "spec.lockOptions.denyList", "locks are not in use, so nobody is denied")

	known := map[v1beta2.ProcessGroupID]bool{}
	renamed := false
	for _, g := range c.Status.ProcessGroups {
		known[g.ProcessGroupID] = true
		id, err := fdb.ParseGroupID(string(g.ProcessGroupID))
		renamed = renamed || err == nil && id.Prefix != s.ProcessGroupIDPrefix && !g.Marked()
	}
	p.add(renamed, "spec.processGroupIDPrefix", "groups have another prefix: all of them are replaced")
	for path, ids := range map[string][]v1beta2.ProcessGroupID{
		"spec.processGroupsToRemove": s.ProcessGroupsToRemove, "spec.processGroupsToRemoveWithoutExclusion": s.ProcessGroupsToRemoveWithoutExclusion,
	} {
		for i, id := range ids {
			p.add(!known[id], fmt.Sprintf("%s[%d]", path, i), "there is no group %q", id)
		}
	}
	general := s.Processes[v1beta2.ProcessClass(fdb.ClassGeneral)].CustomParameters
	for class, settings := range s.Processes {
		p.add(fdb.Class(class) != fdb.ClassGeneral && settings.CustomParameters != nil && len(general) > 0,
			"spec.processes["+string(class)+"].customParameters", "lists do not merge: those of general do not hold for this class")
	}
	slices.SortStableFunc(p, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return p
}

// Ignored returns the paths of the fields in use that the operator accepts and does not act upon.
func Ignored(s v1beta2.FoundationDBClusterSpec) []string {
	var paths []string
	a := s.AutomationOptions
	for path, used := range map[string]bool{
		"spec.automationOptions.databaseInteractionMode": a.DatabaseInteractionMode != nil,
		"spec.automationOptions.useManagementAPI":        a.UseManagementAPI != nil,
		"spec.automationOptions.useNonBlockingExcludes":  a.UseNonBlockingExcludes != nil,
	} {
		if used {
			paths = append(paths, path)
		}
	}
	for class, n := range s.ProcessCounts {
		if n != 0 && !countable[fdb.Class(class)] {
			paths = append(paths, "spec.processCounts."+string(class))
		}
	}
	slices.Sort(paths)
	return paths
}
