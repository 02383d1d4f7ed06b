package control

import (
	"maps"
	"strings"
)

// Predicate selects the events that trigger a controller. It gets the old and the new
// state and must not change them. nil accepts every event.
//
// The predicates of this package accept every event with Created, Deleted or Resync.
type Predicate[T any] func(Event[T]) bool

// And holds if all hold.
func And[T any](all ...Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool {
		for _, p := range all {
			if p != nil && !p(e) {
				return false
			}
		}
		return true
	}
}

// Or holds if one holds.
func Or[T any](any ...Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool {
		for _, p := range any {
			if p == nil || p(e) {
				return true
			}
		}
		return false
	}
}

// Not holds if p does not.
func Not[T any](p Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool { return p != nil && !p(e) }
}

// Changed holds if of returns different values for the old and the new state.
func Changed[T any, V comparable](of func(T) V) Predicate[T] {
	return func(e Event[T]) bool { return wholeObject(e) || of(e.Old) != of(e.New) }
}

// Labelled holds if the selector matches the old or the new labels: an item that loses
// the label triggers once more.
func Labelled[T any](labels func(T) map[string]string, selector Selector) Predicate[T] {
	return func(e Event[T]) bool {
		return !e.Created && selector.Matches(labels(e.Old)) || !e.Deleted && selector.Matches(labels(e.New))
	}
}

// Became holds if of has become true.
func Became[T any](of func(T) bool) Predicate[T] {
	return func(e Event[T]) bool { return wholeObject(e) || of(e.New) && !of(e.Old) }
}

func wholeObject[T any](e Event[T]) bool { return e.Created || e.Deleted || e.Resync }

// GenerationChanged holds if the spec of an object changed, or the object was replaced by
// another of the same name. A status write does not change the generation.
func GenerationChanged(e Event[Object]) bool {
	return wholeObject(e) || e.Old.Generation != e.New.Generation || e.Old.UID != e.New.UID
}

// DeletionMarked holds if an object got its deletion mark.
func DeletionMarked(e Event[Object]) bool { return Became(Object.Deleting)(e) }

// RequestChanged holds if an annotation that carries a request was set,
// changed or removed.
func RequestChanged(e Event[Object]) bool {
	return wholeObject(e) || !maps.Equal(requests(e.Old), requests(e.New))
}

// LabelsMatch is Labelled for objects.
func LabelsMatch(selector Selector) Predicate[Object] {
	return Labelled(func(o Object) map[string]string { return o.Labels }, selector)
}

// DesiredChanged holds if the spec of an object changed, a request was made or its
// deletion was requested. It does not hold for a status write.
func DesiredChanged(e Event[Object]) bool {
	return GenerationChanged(e) || DeletionMarked(e) || RequestChanged(e)
}

func requests(o Object) map[string]string {
	out := maps.Clone(o.Annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, RequestPrefix) })
	return out
}
