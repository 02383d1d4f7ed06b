package groups

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// ByID are the groups of a status, to be changed.
type ByID map[v1beta2.ProcessGroupID]*v1beta2.ProcessGroupStatus

// Add gives a group a condition.
func (b ByID) Add(id v1beta2.ProcessGroupID, t v1beta2.ProcessGroupConditionType, now time.Time) {
	if g := b[id]; g != nil && !g.Has(t) {
		SetConditions(g, append(conditionTypes(g, t, v1beta2.ProcessGroupConditionReady), t), now)
	}
}

// Drop takes a condition from a group.
func (b ByID) Drop(id v1beta2.ProcessGroupID, t v1beta2.ProcessGroupConditionType, now time.Time) {
	if g := b[id]; g != nil && g.Has(t) {
		SetConditions(g, conditionTypes(g, t, v1beta2.ProcessGroupConditionReady), now)
	}
}

// conditionTypes are the conditions of a group without some.
func conditionTypes(g *v1beta2.ProcessGroupStatus, without ...v1beta2.ProcessGroupConditionType) []v1beta2.ProcessGroupConditionType {
	var kept []v1beta2.ProcessGroupConditionType
	for _, c := range g.ProcessGroupConditions {
		if !slices.Contains(without, c.Type) {
			kept = append(kept, c.Type)
		}
	}
	return kept
}

// Mark marks a group for removal, if there is one.
func (b ByID) Mark(id v1beta2.ProcessGroupID, skipExclusion bool, now time.Time) {
	g := b[id]
	if g == nil {
		return
	}
	if g.RemovalTimestamp == nil {
		at := metav1.NewTime(now).Rfc3339Copy()
		g.RemovalTimestamp = &at
	}
	g.ExclusionSkipped = g.ExclusionSkipped || skipExclusion
}

// Excluded notes that groups are safe to delete.
func (b ByID) Excluded(ids []v1beta2.ProcessGroupID, now time.Time) {
	for _, id := range ids {
		if g := b[id]; g != nil {
			at := metav1.NewTime(now).Rfc3339Copy()
			g.ExclusionTimestamp = &at
		}
	}
}
