package controller

import (
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pawl-dev/pawl/control"
)

// DesiredChanged accepts the creation and the removal of an object, a change of its spec,
// its deletion mark, a finalizer that is lost, a request, and a resync. It does not accept a status write. Requests
// are the annotations that begin with control.RequestPrefix, and the named ones: a name
// that ends in / means all that begin with it.
func DesiredChanged(requests ...string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld == nil || e.ObjectNew == nil || desiredChanged(e.ObjectOld, e.ObjectNew, requests)
	}}
}

func desiredChanged(old, now client.Object, requests []string) bool {
	return old.GetResourceVersion() == now.GetResourceVersion() || // a resync
		old.GetUID() != now.GetUID() ||
		old.GetGeneration() != now.GetGeneration() ||
		old.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero() ||
		finalizerLost(old, now) ||
		requestsChanged(old.GetAnnotations(), now.GetAnnotations(), requests)
}

// finalizerLost reports a finalizer that somebody has taken off an object that nobody deletes.
func finalizerLost(old, now client.Object) bool {
	return now.GetDeletionTimestamp().IsZero() && slices.ContainsFunc(old.GetFinalizers(), func(f string) bool {
		return !slices.Contains(now.GetFinalizers(), f)
	})
}

func requestsChanged(old, now map[string]string, requests []string) bool {
	for key, value := range now {
		if was, had := old[key]; (!had || was != value) && isRequest(key, requests) {
			return true
		}
	}
	for key := range old {
		if _, has := now[key]; !has && isRequest(key, requests) {
			return true
		}
	}
	return false
}

func isRequest(key string, requests []string) bool {
	if strings.HasPrefix(key, control.RequestPrefix) {
		return true
	}
	for _, r := range requests {
		if key == r || strings.HasSuffix(r, "/") && strings.HasPrefix(key, r) {
			return true
		}
	}
	return false
}

// extraUpdates accepts the updates that a function selects.
func extraUpdates[T client.Object](also func(old, now T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, was := e.ObjectOld.(T)
		now, is := e.ObjectNew.(T)
		return was && is && also(old, now)
	}}
}
