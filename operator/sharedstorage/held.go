package sharedstorage

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/condition"
)

// HeldBy returns the fault that blocks a cluster, read from its conditions, or nil.
func HeldBy(conditions []metav1.Condition) *control.FaultRecord {
	why := meta.FindStatusCondition(conditions, InterruptedCondition)
	if why == nil || why.Status != metav1.ConditionTrue {
		why = meta.FindStatusCondition(conditions, ProgressingCondition)
		if why == nil || why.Status != metav1.ConditionFalse {
			return nil
		}
	}
	return condition.Fault(*why)
}
