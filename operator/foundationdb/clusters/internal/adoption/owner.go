// Package adoption says who has made a cluster, what must not happen before a person has let it pass, and which other
// object claims the same prefix.
package adoption

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Annotation tells when the take-over from another operator was approved.
const Annotation = "pawl.dev/adopted"

// Type is the condition of a cluster that another operator has made: False until its take-over is
// approved.
const Type = "Adopted"

// heldLinks are the links that recreate, replace or restart what another operator has made.
var heldLinks = []string{"DeletePodsForBuggification", "ReplaceMisconfiguredProcessGroups", "BounceProcesses", "UpdatePods"}

// Owner is who has made a cluster.
type Owner struct {
	Stored  *v1beta2.FoundationDBCluster
	AtOnce  bool // clusters are taken over without asking
	Foreign bool // another operator has made it, and its take-over is not approved
}

// OwnerOf finds out whether another operator has made a cluster: it has groups, or children, and
// no condition of ours. atOnce: that does not matter.
func OwnerOf(stored *v1beta2.FoundationDBCluster, children int, atOnce bool) Owner {
	o := Owner{Stored: stored, AtOnce: atOnce}
	c := meta.FindStatusCondition(stored.Status.Conditions, Type)
	switch {
	case atOnce:
	case c != nil:
		o.Foreign = c.Status == metav1.ConditionFalse
	default:
		o.Foreign = len(stored.Status.Conditions) == 0 && children+len(stored.Status.ProcessGroups) > 0
	}
	return o
}

// Holds returns which links must not act in this pass; nil: none.
func (o Owner) Holds() func(link string) bool {
	byPerson := foundationdb.Holds(o.Stored.Annotations)
	if !o.Foreign || o.Stored.Annotations[Annotation] != "" {
		return byPerson
	}
	return func(link string) bool {
		return slices.Contains(heldLinks, link) || byPerson != nil && byPerson(link)
	}
}

// MayBeForeign reports whether another operator has made the cluster, or may have.
func (o Owner) MayBeForeign() bool {
	return o.Foreign || o.AtOnce || o.Stored.Annotations[Annotation] != "" || meta.FindStatusCondition(o.Stored.Status.Conditions, Type) != nil
}

// Condition is the condition of a cluster that another operator has made; nil: it is our own.
func (o Owner) Condition(hash string) *metav1.Condition {
	var c metav1.Condition
	switch at := o.Stored.Annotations[Annotation]; {
	case o.Foreign && at == "":
		c = condition.New(Type, metav1.ConditionFalse, "ApprovalMissing",
			"another operator has made this cluster: nothing that it has made is recreated, replaced or restarted before the annotation %s has the hash of the plan, %s", foundationdb.ApproveAnnotation, hash)
	case o.Foreign || meta.FindStatusCondition(o.Stored.Status.Conditions, Type) != nil:
		c = condition.New(Type, metav1.ConditionTrue, "Approved", "the take-over was approved")
	default:
		return nil
	}
	return &c
}
