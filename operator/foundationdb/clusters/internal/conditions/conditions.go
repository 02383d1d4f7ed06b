// Package conditions tells what a pass over a cluster has come to.
package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/upgrades"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// The conditions of a cluster beside Ready and Progressing.
const (
	Reconciled      = "Reconciled"
	Available       = "Available"
	FullReplication = "FullReplication"
	UpgradeBlocked  = "UpgradeBlocked"
	Degraded        = "Degraded"
	FieldsIgnored   = "FieldsIgnored"
	Paused          = "Paused"
	Resizing        = "Resizing"
)

// Findings are what a pass has found out.
type Findings struct {
	Stored        *v1beta2.FoundationDBCluster
	Cluster       *v1beta2.FoundationDBCluster // with defaults, and the status that is to be stored
	Database      *fdb.Status                  // nil: it was not heard
	Silence       string                       // why not
	SilenceReason string                       // in CamelCase
	Problems      []foundationdb.Problem       // why the spec is refused
	Ignored       []string                     // fields of the spec that nobody knows
	Held          upgrades.Hold
	Reconciled    bool // nothing is left to do
	Judged        bool // the children were compared with what they should be
	Growing       int  // volumes
}

// All are the conditions that every cluster has, after an outcome.
func (f Findings) All(out outcome.Outcome) []metav1.Condition {
	return []metav1.Condition{
		f.readiness(), f.reconciliation(out), condition.Progressing(out),
		f.truth(Available, f.Cluster.Status.Health.Available, "DatabaseAvailable", fdb.DatabaseUnavailable),
		f.truth(FullReplication, f.Cluster.Status.Health.FullReplication, "FullyReplicated", "ReplicasMissing"),
		f.upgradeBlocked(), f.degraded(), f.resizing(), f.fieldsIgnored(),
		condition.New(Paused, metav1.ConditionFalse, "NotPaused", "the operator works on the cluster"),
	}
}

// Refusal is why the spec is refused, with all problems.
func (f Findings) Refusal() string {
	texts := make([]string, len(f.Problems))
	for i, problem := range f.Problems {
		texts[i] = problem.String()
	}
	return strings.Join(texts, "; ")
}

// truth is a condition about the database: unknown when it was not heard.
func (f Findings) truth(kind string, holds bool, reason, otherwise string) metav1.Condition {
	switch {
	case f.Database == nil:
		return condition.New(kind, metav1.ConditionUnknown, f.SilenceReason, "%s", f.Silence)
	case holds:
		return condition.New(kind, metav1.ConditionTrue, reason, "the database says so")
	}
	return condition.New(kind, metav1.ConditionFalse, otherwise, "the database says so")
}

func (f Findings) readiness() metav1.Condition {
	s := f.Cluster.Status
	switch {
	case f.Database == nil && s.Configured:
		return condition.New(condition.TypeReady, metav1.ConditionUnknown, f.SilenceReason, "%s", f.Silence)
	case !s.Configured:
		return condition.New(condition.TypeReady, metav1.ConditionFalse, "NotConfigured", "the database has no configuration yet")
	case !s.Health.Available:
		return condition.New(condition.TypeReady, metav1.ConditionFalse, fdb.DatabaseUnavailable, "the database is not available")
	}
	return condition.New(condition.TypeReady, metav1.ConditionTrue, "Available", "the database is configured and available")
}

func (f Findings) reconciliation(out outcome.Outcome) metav1.Condition {
	switch {
	case len(f.Problems) > 0:
		return condition.FromFault(Reconciled, foundationdb.SpecInvalid, "%s", f.Refusal())
	case f.Reconciled && !out.IsFail():
		return condition.New(Reconciled, metav1.ConditionTrue, "AsDesired", "the cluster is as its spec says")
	case f.Database == nil && f.Cluster.Status.Configured:
		return condition.New(Reconciled, metav1.ConditionUnknown, f.SilenceReason, "%s", f.Silence)
	}
	return condition.New(Reconciled, metav1.ConditionFalse, "InProgress", "%s", f.Needs())
}

// Needs says what is left to do.
func (f Findings) Needs() string {
	g := f.Cluster.Status.Generations
	var texts []string
	for _, need := range []struct {
		generation int64
		text       string
	}{
		{g.NeedsGrow, "groups are missing"}, {g.NeedsShrink, "groups are to go"}, {g.NeedsConfigurationChange, "the database is to be configured"},
		{g.NeedsCoordinatorChange, "coordinators are to change"}, {g.NeedsMonitorConfUpdate, "the config map is to be written"},
		{g.NeedsServiceUpdate, "services are to change"}, {g.NeedsBounce, "servers are to restart"}, {g.NeedsPodDeletion, "pods are to be made anew"},
		{g.MissingDatabaseStatus, "the database is not available"}, {g.HasExtraListeners, "servers listen with and without TLS"},
		{g.NeedsLockConfigurationChanges, "the deny list of the lock is to change"}, {g.HasUnhealthyProcess, "groups are not as they should be"},
	} {
		if need.generation == f.Cluster.Generation {
			texts = append(texts, need.text)
		}
	}
	if f.Held.Needs != "" {
		texts = append(texts, f.Held.Needs)
	}
	return strings.Join(texts, "; ")
}

func (f Findings) upgradeBlocked() metav1.Condition {
	switch {
	case f.Held.Reason == "":
		return condition.New(UpgradeBlocked, metav1.ConditionFalse, "NothingBlocks", "no client holds back an upgrade")
	case f.Held.Reason == port.ToolsMissing.Reason():
		return condition.New(UpgradeBlocked, metav1.ConditionTrue, f.Held.Reason, "%s %s", f.Held.Message, port.ToolsMissing.Remedy)
	}
	return condition.New(UpgradeBlocked, metav1.ConditionTrue, f.Held.Reason, "%s", f.Held.Message)
}

// degraded tells which groups carry a condition for which they will be replaced, or that replicas are
// missing.
func (f Findings) degraded() metav1.Condition {
	var failed []string
	for i := range f.Cluster.Status.ProcessGroups {
		g := &f.Cluster.Status.ProcessGroups[i]
		if !g.Marked() && foundationdb.Fails(g) {
			failed = append(failed, string(g.ProcessGroupID))
		}
	}
	switch {
	case len(failed) > 0:
		return condition.New(Degraded, metav1.ConditionTrue, "GroupsFail", "%s", Some(failed))
	case f.Database == nil:
		return condition.New(Degraded, metav1.ConditionUnknown, f.SilenceReason, "%s", f.Silence)
	}
	if v := fdb.FullFaultTolerance(f.Database); !v.Open {
		return condition.New(Degraded, metav1.ConditionTrue, v.Reason, "%s", v.Message)
	}
	return condition.New(Degraded, metav1.ConditionFalse, "AllWell", "all groups serve and no replica is missing")
}

func (f Findings) fieldsIgnored() metav1.Condition {
	ignored := slices.Concat(foundationdb.Ignored(f.Stored.Spec), f.Ignored)
	slices.Sort(ignored)
	if len(ignored) > 0 {
		return condition.New(FieldsIgnored, metav1.ConditionTrue, "NotActedUpon", "%s", strings.Join(ignored, ", "))
	}
	return condition.New(FieldsIgnored, metav1.ConditionFalse, "AllActedUpon", "all fields of the spec have an effect")
}

// resizing is the condition Resizing.
func (f Findings) resizing() metav1.Condition {
	switch {
	case !f.Judged:
		return condition.New(Resizing, metav1.ConditionUnknown, fdb.StatusIncomplete, "claims were not judged")
	case f.Growing > 0:
		return condition.New(Resizing, metav1.ConditionTrue, "VolumesGrow", "%d volumes are smaller than they should be, or grow; zone by zone", f.Growing)
	}
	return condition.New(Resizing, metav1.ConditionFalse, "AsDesired", "no volume has to grow")
}

// Set gives a cluster a condition.
func Set(cluster *v1beta2.FoundationDBCluster, c metav1.Condition, now time.Time) {
	c.ObservedGeneration = cluster.Generation
	c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	c.Message = Shortened(c.Message)
	meta.SetStatusCondition(&cluster.Status.Conditions, c)
}

// longestMessage is how long the message of a condition may be, in bytes.
const longestMessage = 4000

// Shortened is a message as far as it fits.
func Shortened(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage], "") + "…"
}

// Some lists names, at most 20 of them.
func Some[T ~string](names []T) string {
	const most = 20
	texts := make([]string, 0, most+1)
	for i, name := range names {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		texts = append(texts, string(name))
	}
	return strings.Join(texts, ", ")
}
