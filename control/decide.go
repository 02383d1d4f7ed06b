package control

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Act is the write that a decision about an object demands.
type Act int

const (
	// Keep writes nothing: the object is already as requested.
	Keep Act = iota
	// Write stores the object under the next revision and adds it to the feed.
	Write
	// Remove deletes the object under the next revision and adds that to the feed.
	Remove
)

// RequestPrefix is the prefix of annotations that carry requests. Apply does not remove
// them unless it names them, so that no writer deletes a request of another.
const RequestPrefix = "pawl.dev/"

// DecideApply decides the result of applying want to an object; old is nil if there is
// none.
//
//   - A field that is nil in want (spec, labels, annotations, owner) stays as it is.
//     Labels and annotations are replaced as a whole, but annotations that
//     begin with RequestPrefix and are not named in want stay.
//   - Status, UID, Generation and times of want are ignored. Finalizers count
//     at creation only.
//   - want.Revision: 0 accepts any, MustNotExist demands a creation (else
//     OBJECT_EXISTS), all others must be the current one (else WRITE_CONFLICT).
//     want.UID, if set, must be the object's (else WRITE_CONFLICT).
//   - The generation rises if the spec changed, compared as JSON values. An
//     apply that changes nothing writes nothing.
//   - The spec of an object with a deletion mark cannot be changed (OBJECT_DELETING).
func DecideApply(now time.Time, old *Object, want Object) (Object, Act, error) {
	if err := want.Validate(); err != nil {
		return Object{}, Keep, err
	}
	if old == nil {
		if want.Revision > 0 || want.UID != "" {
			return Object{}, Keep, NotFoundError(want.Ref)
		}
		next := want.Copy()
		next.UID, next.Generation, next.Revision = NewUID(), 1, 0
		next.Spec, next.Status = normalized(want.Spec), nil
		next.CreatedAt, next.DeletionMark = now.UTC(), time.Time{}
		return next, Write, nil
	}
	switch {
	case want.Revision == MustNotExist:
		return *old, Keep, Exists.Errorf("%s exists already", want.Ref).With("object", want.Ref.String())
	case want.Revision != 0 && want.Revision != old.Revision, want.UID != "" && want.UID != old.UID:
		return *old, Keep, conflict(old, want)
	}
	next := old.Copy()
	if want.Labels != nil {
		next.Labels = maps.Clone(want.Labels)
	}
	if want.Annotations != nil {
		next.Annotations = maps.Clone(want.Annotations)
		for key, value := range old.Annotations {
			if _, named := want.Annotations[key]; !named && strings.HasPrefix(key, RequestPrefix) {
				next.Annotations[key] = value
			}
		}
	}
	if want.Owner != nil {
		next.Owner = new(*want.Owner)
	}
	if want.Spec != nil {
		next.Spec = normalized(want.Spec)
	}
	return decide(old, next)
}

// DecideUpdate decides the result of a write by a controller, which replaces labels,
// annotations, spec, status, finalizers and owner.
//
//   - want.Revision must be the current one and want.UID, if set, the object's;
//     else WRITE_CONFLICT. If there is no object: OBJECT_NOT_FOUND.
//   - The generation rises if the spec changed. An update that changes nothing writes
//     nothing.
//   - With a deletion mark, finalizers can only be removed and the spec not
//     be changed (OBJECT_DELETING); without finalizers the object is removed.
func DecideUpdate(old *Object, want Object) (Object, Act, error) {
	if err := want.Validate(); err != nil {
		return Object{}, Keep, err
	}
	if old == nil {
		return Object{}, Keep, NotFoundError(want.Ref)
	}
	if want.Revision != old.Revision || want.UID != "" && want.UID != old.UID {
		return *old, Keep, conflict(old, want)
	}
	next := want.Copy()
	next.UID, next.Generation = old.UID, old.Generation
	next.CreatedAt, next.DeletionMark = old.CreatedAt, old.DeletionMark
	next.Spec = normalized(want.Spec)
	if want.Status != nil {
		next.Status = normalized(want.Status)
	}
	return decide(old, next)
}

// DecideDelete decides the result of deleting an object.
//
//   - revision 0 accepts any; others must be the current one (else WRITE_CONFLICT).
//   - With finalizers the object gets the deletion mark, once, and a new generation, as on Kubernetes: what was
//     observed before says nothing of its end. Without, it is removed.
func DecideDelete(now time.Time, old *Object, ref Ref, revision int64) (Object, Act, error) {
	if err := ref.Validate(); err != nil {
		return Object{}, Keep, err
	}
	if old == nil {
		return Object{}, Keep, NotFoundError(ref)
	}
	if revision != 0 && revision != old.Revision {
		return *old, Keep, conflict(old, Object{Ref: ref, Revision: revision})
	}
	next := old.Copy()
	if !old.Deleting() {
		next.DeletionMark = now.UTC()
		next.Generation++
	}
	return decide(old, next)
}

func decide(old *Object, next Object) (Object, Act, error) {
	sameSpec := bytes.Equal(old.Spec, next.Spec)
	if old.Deleting() && !sameSpec {
		return *old, Keep, BeingDeleted.Errorf("%s is being deleted since %s; its spec cannot be changed",
			old.Ref, old.DeletionMark.Format(time.RFC3339)).With("object", old.Ref.String())
	}
	for _, f := range next.Finalizers {
		if old.Deleting() && !slices.Contains(old.Finalizers, f) {
			return *old, Keep, BeingDeleted.Errorf("%s is being deleted since %s; finalizer %q cannot be added",
				old.Ref, old.DeletionMark.Format(time.RFC3339), f).With("object", old.Ref.String())
		}
	}
	if !sameSpec {
		next.Generation++
	}
	if err := next.Validate(); err != nil { // the merged object may be too large
		return *old, Keep, err
	}
	switch {
	case next.Deleting() && len(next.Finalizers) == 0:
		return next, Remove, nil
	case next.Equal(*old):
		return *old, Keep, nil
	default:
		return next, Write, nil
	}
}

// NotFoundError returns the OBJECT_NOT_FOUND of a name.
func NotFoundError(ref Ref) error {
	return NotFound.Errorf("there is no %s", ref).With("object", ref.String())
}

func conflict(old *Object, want Object) error {
	if want.UID != "" && want.UID != old.UID {
		return fault.WriteConflict.Errorf("%s was deleted and created again (uid %s, not %s)", old.Ref, old.UID, want.UID).With("object", old.Ref.String())
	}
	return fault.WriteConflict.Errorf("%s is at revision %d, not %d", old.Ref, old.Revision, want.Revision).With("object", old.Ref.String())
}

// normalized returns the canonical form of a validated JSON object; nil becomes {}.
func normalized(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	c, err := canonical(raw)
	if err != nil {
		return raw
	}
	return c
}
