package control

import (
	"context"

	"github.com/pawl-dev/pawl/fault"
)

// Objects stores objects without Kubernetes. objecttest is its conformance suite.
//
// DecideApply, DecideUpdate and DecideDelete decide the result of a write. An
// implementation reads, calls them and writes in one transaction. It sets the object's
// Revision to the next number of its feed.
type Objects interface {
	// Get returns OBJECT_NOT_FOUND if there is none.
	Get(ctx context.Context, ref Ref) (Object, error)
	// List returns one page, ordered by kind, namespace and name.
	List(ctx context.Context, q Query) (Page, error)
	// Apply creates an object or changes its desired state: see DecideApply.
	Apply(ctx context.Context, want Object) (Object, error)
	// Update replaces exactly the revision that the object carries, status
	// included: see DecideUpdate. It returns WRITE_CONFLICT if the object was
	// changed or replaced meanwhile.
	Update(ctx context.Context, next Object) (Object, error)
	// Delete sets the deletion mark while finalizers exist and removes the
	// object otherwise: see DecideDelete. Revision 0 accepts any.
	Delete(ctx context.Context, ref Ref, revision int64) (Object, error)
	// Feed returns the changes of all objects of a kind, or of all kinds if it is empty.
	// Keys are Ref.String(), item versions are revisions. Several changes of one object
	// may be reported as one. The value of a removal has at least Ref, UID and the
	// Revision of the removal.
	Feed(kind string) Source[Object]
}

const (
	// DefaultPage and MaxPage are the default and the maximum number of objects of a page.
	DefaultPage, MaxPage = 100, 500
	// MustNotExist as the Revision of Apply's object demands a creation: an existing object is OBJECT_EXISTS.
	MustNotExist int64 = -1
)

// Query selects objects. The zero Query is the first page of all.
type Query struct {
	Kind      string // empty: all
	Namespace string // empty: all
	Selector  Selector
	Limit     int    // 0: DefaultPage; more than MaxPage is MaxPage
	Cursor    string // Next of the previous page; empty: the first page
}

// After decodes the cursor: the page contains the objects ordered after it. It returns
// OBJECT_INVALID for a malformed cursor.
func (q Query) After() (after Ref, found bool, err error) {
	if q.Cursor == "" {
		return Ref{}, false, nil
	}
	after, err = ParseRef(q.Cursor)
	if err != nil {
		return Ref{}, false, Invalid.Errorf("cursor %q: use the `next` of the previous page, unchanged", q.Cursor)
	}
	return after, true, nil
}

// Size returns the number of objects of a page.
func (q Query) Size() int {
	if q.Limit <= 0 {
		return DefaultPage
	}
	return min(q.Limit, MaxPage)
}

// Page is one page of a list.
type Page struct {
	Items []Object `json:"items"`
	Next  string   `json:"next,omitempty"` // cursor of the next page: Ref.String() of the last item; empty: this is the last page
}

// Modify reads an object, changes it and writes it. It repeats that if the object was
// written meanwhile. If change returns an error, nothing is written.
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
