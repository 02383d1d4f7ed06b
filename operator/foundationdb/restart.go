package foundationdb

import (
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// RestartRule returns the conditions that a group must have (true) and must not have (false) for its servers to
// be restarted.
//
//	in an incompatible upgrade  with the new binary at hand; a pod of the old version is no obstacle
//	in a TLS conversion         a pod that is to be changed waits for the restart, and not the restart for it
//	else                        pod and files are as they should be, so that one restart is enough
func RestartRule(c *v1beta2.FoundationDBCluster) map[v1beta2.ProcessGroupConditionType]bool {
	rule := map[v1beta2.ProcessGroupConditionType]bool{v1beta2.IncorrectCommandLine: true, v1beta2.IncorrectConfigMap: false}
	if UpgradesIncompatibly(c) {
		rule[v1beta2.IncorrectSidecarImage] = false
		return rule
	}
	rule[v1beta2.SidecarUnreachable] = false
	if !ConvertsTLS(c) {
		rule[v1beta2.IncorrectPodSpec] = false
	}
	return rule
}

// IgnoredAtRestart reports whether a restart goes on without a group: it is a tester, the spec says so, or its
// servers cannot be reached for too long. The caller leaves out marked groups, except in an incompatible upgrade.
func IgnoredAtRestart(g v1beta2.ProcessGroupStatus, spec v1beta2.FoundationDBClusterSpec, now time.Time) bool {
	a := spec.AutomationOptions
	return g.Has(v1beta2.ResourcesTerminating) || fdb.Class(g.ProcessClass) == fdb.ClassTest || Targets(spec.Buggify.IgnoreDuringRestart, g.ProcessGroupID) ||
		g.Lasts(v1beta2.MissingProcesses, seconds(or(a.IgnoreMissingProcessesSeconds, defaultIgnoreMissing)), now) ||
		g.Lasts(v1beta2.PodPending, either(a.IgnorePendingPodsDuration, defaultIgnorePending), now)
}

// UpgradesIncompatibly reports whether the running and the desired version cannot talk to each other.
func UpgradesIncompatibly(c *v1beta2.FoundationDBCluster) bool {
	running, err := fdb.ParseVersion(c.Status.RunningVersion)
	if err != nil {
		return false
	}
	desired, err := fdb.ParseVersion(c.Spec.Version)
	return err == nil && !running.ProtocolCompatible(desired)
}

// ConvertsTLS reports whether servers listen with and without TLS.
func ConvertsTLS(c *v1beta2.FoundationDBCluster) bool {
	return c.Status.RequiredAddresses.TLS && c.Status.RequiredAddresses.NonTLS
}
