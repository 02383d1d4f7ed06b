package declared

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
)

// DatabasesCondition says whether users, databases and extensions are as spec.users and
// spec.databases want them.
const DatabasesCondition = "DatabasesReady"

// The conditions of logical replication are there while the spec has publications, or subscriptions.
const (
	PublicationsCondition  = "PublicationsReady"  // publications are as spec.publications wants them
	SubscriptionsCondition = "SubscriptionsReady" // subscriptions are so, and have all rows but those of their lag
)

// Fill sets the part of a status that is known of declared objects. A nil report knows nothing.
func (r *Report) Fill(s *v1alpha1.SharedStorageClusterStatus) {
	if r == nil {
		return
	}
	if r.databases != nil {
		s.Databases = *r.databases
	}
	if r.replicates {
		s.Subscriptions = r.subscriptions
	}
}

// Unasked returns the conditions that a status has of declared objects as they are while there is no writer.
func Unasked(s *v1alpha1.SharedStorageClusterStatus) (all []metav1.Condition) {
	for _, kind := range []string{DatabasesCondition, PublicationsCondition, SubscriptionsCondition} {
		if meta.FindStatusCondition(s.Conditions, kind) != nil {
			all = append(all, condition.New(kind, metav1.ConditionUnknown, "NoWriter", "there is no writer that could be asked"))
		}
	}
	return all
}

// Prune removes from a status what the spec no longer declares.
func Prune(spec *v1alpha1.SharedStorageClusterSpec, s *v1alpha1.SharedStorageClusterStatus) {
	if len(spec.Publications) == 0 {
		meta.RemoveStatusCondition(&s.Conditions, PublicationsCondition)
	}
	if len(spec.Subscriptions) == 0 {
		s.Subscriptions = nil
		meta.RemoveStatusCondition(&s.Conditions, SubscriptionsCondition)
	}
}
