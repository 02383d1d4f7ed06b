package control

import (
	"context"

	"github.com/pawl-dev/pawl/fault"
)

// Objects keeps objects where there is no Kubernetes. objecttest is its exam.
//
// What a write does is decided by DecideApply, DecideUpdate and DecideDelete;
// an implementation reads, asks them and writes in one transaction, and gives
// each change the next number of its feed as the object's Revision.
type Objects interface {
	// Get returns OBJECT_NOT_FOUND if there is none.
	Get(ctx context.Context, ref Ref) (Object, error)
	// List gives one page, ordered by kind, namespace and name.
	List(ctx context.Context, q Query) (Page, error)
	// Apply creates or changes what people ask for: see DecideApply.
	Apply(ctx context.Context, want Object) (Object, error)
	// Update replaces exactly the revision that the object carries, status
	// included: see DecideUpdate. It returns WRITE_CONFLICT if the object was
	// changed or replaced in between.
	Update(ctx context.Context, next Object) (Object, error)
	// Delete sets the deletion mark while finalizers exist and removes the
	// object otherwise: see DecideDelete. A revision of 0 stands for any.
	Delete(ctx context.Context, ref Ref, revision int64) (Object, error)
	// Feed tells of all changes to objects of a kind, or of all kinds if it is
	// empty. Keys are Ref.String(), item versions are revisions. Several changes
	// of one object may be told as one. Of a removal the value holds at least
	// Ref, UID and Revision, which is that of the removal.
	Feed(kind string) Source[Object]
}

const (
	// DefaultPage and MaxPage are the numbers of objects of a page, by default and at most.
	DefaultPage, MaxPage = 100, 500
	// MustNotExist as the Revision of Apply's object demands a creation: an existing object is OBJECT_EXISTS.
	MustNotExist int64 = -1
)

// Query chooses objects. The zero Query is the first page of all.
type Query struct {
	Kind      string // empty: all
	Namespace string // empty: all
	Selector  Selector
	Limit     int    // 0: DefaultPage; more than MaxPage is MaxPage
	Cursor    string // Next of the page before; empty: from the start
}

// After gives the place to go on from: the objects wanted are ordered behind
// it. It returns OBJECT_INVALID for a malformed cursor.
func (q Query) After() (after Ref, found bool, err error) {
	if q.Cursor == "" {
		return Ref{}, false, nil
	}
	after, err = ParseRef(q.Cursor)
	if err != nil {
		return Ref{}, false, Invalid.Errorf("cursor %q: use the `next` of the page before, unchanged", q.Cursor)
	}
	return after, true, nil
}

// Size is the number of objects wanted.
func (q Query) Size() int {
	if q.Limit <= 0 {
		return DefaultPage
	}
	return min(q.Limit, MaxPage)
}

// Page is one page of a list.
type Page struct {
	Items []Object `json:"items"`
	Next  string   `json:"next,omitempty"` // the cursor of the page after it: Ref.String() of the last item; empty: there is none
}

// Modify reads an object, changes it and writes it, and begins anew when
// someone else wrote in between. An error of change ends it unwritten.
func Modify(ctx context.Context, objects Objects, ref Ref, change func(*Object) error) (Object, error) {
	for {
		o, err := objects.Get(ctx, ref)
		if err != nil {
			return Object{}, err
		}
		next := o.Copy()
		if err := change(&next); err != nil {
			return o, err
		}
		saved, err := objects.Update(ctx, next)
		if fault.Of(err) != fault.WriteConflict || ctx.Err() != nil {
			return saved, err
		}
	}
}
