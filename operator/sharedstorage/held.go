package sharedstorage

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// HeldBy is the fault that keeps a cluster from going on, as its conditions tell
// it; nil: there is none.
func HeldBy(conditions []metav1.Condition) *control.FaultRecord {
	find := func(kind string, status metav1.ConditionStatus) *metav1.Condition {
		at := slices.IndexFunc(conditions, func(one metav1.Condition) bool { return one.Type == kind && one.Status == status })
		if at < 0 {
			return nil
		}
		return &conditions[at]
	}
	why := find(InterruptedCondition, metav1.ConditionTrue)
	if why == nil {
		why = find(ProgressingCondition, metav1.ConditionFalse)
	}
	if why == nil {
		return nil
	}
	for _, kind := range fault.All() {
		if kind.Reason() != why.Reason {
			continue
		}
		message := strings.TrimSuffix(strings.TrimSuffix(why.Message, kind.Remedy), ". ")
		return &control.FaultRecord{
			Code: kind.Code, Class: kind.Class, Title: kind.Title, Remedy: kind.Remedy,
			Message: strings.TrimPrefix(message, string(kind.Code)+": "), ObservedGeneration: why.ObservedGeneration, At: why.LastTransitionTime.UTC(),
		}
	}
	return nil
}
