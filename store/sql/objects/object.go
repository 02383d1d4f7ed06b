// Package objects stores standalone objects and their change feed in either database.
package objects

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// FeedLimit is how many changes the feed keeps. A reader that is further behind gets
// control.ErrGap and must list again.
const FeedLimit = 10_000

// trimEvery is how many changes pass between two trims of the feed.
const trimEvery = 100

// Store implements control.Objects in either database.
type Store struct {
	m         db.Backend
	feedLimit int64
}

// New returns the objects of a database.
func New(m db.Backend) Store { return Store{m: m, feedLimit: FeedLimit} }

// Get implements control.Objects.
func (o Store) Get(ctx context.Context, ref control.Ref) (control.Object, error) {
	var found *control.Object
	err := o.m.Read(ctx, func(s db.Session) (err error) {
		found, err = o.find(s, ref)
		return err
	})
	switch {
	case err != nil:
		return control.Object{}, err
	case found == nil:
		return control.Object{}, control.NotFoundError(ref)
	}
	return *found, nil
}

func (o Store) find(s db.Session, ref control.Ref) (*control.Object, error) {
	var found *control.Object
	err := s.Query(`SELECT data FROM object WHERE kind = $1 AND namespace = $2 AND name = $3`, []any{ref.Kind, ref.Namespace, ref.Name},
		func(r db.Row) (err error) {
			found, err = DecodeObject(r.Bytes(0))
			return err
		})
	return found, err
}

// encodeObject leaves <, > and & unescaped in a spec; json.Marshal would escape them.
func encodeObject(o *control.Object) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// DecodeObject reads an object as it is stored. STORE_CORRUPT if it cannot be read.
func DecodeObject(data []byte) (*control.Object, error) {
	o := new(control.Object)
	if err := json.Unmarshal(data, o); err != nil {
		return nil, runstore.StoreCorrupt.Errorf("a stored object: %w", err)
	}
	return o, nil
}

// List implements control.Objects.
func (o Store) List(ctx context.Context, q control.Query) (control.Page, error) {
	after, _, err := q.After()
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return control.Page{}, err
	}
	var page control.Page
	for page.Next == "" {
		var read int
		err := o.m.Read(ctx, func(s db.Session) error {
			read = 0
			return s.Query(`SELECT data FROM object
				WHERE (kind, namespace, name) > ($1, $2, $3) AND ($4 = '' OR kind = $4) AND ($5 = '' OR namespace = $5)
				ORDER BY kind, namespace, name LIMIT CAST($6 AS bigint)`,
				[]any{after.Kind, after.Namespace, after.Name, q.Kind, q.Namespace, int64(q.Size() + 1)},
				func(r db.Row) error {
					found, err := DecodeObject(r.Bytes(0))
					if err != nil {
						return err
					}
					read++
					after = found.Ref
					switch {
					case page.Next != "" || !q.Selector.Matches(found.Labels):
					case len(page.Items) == q.Size():
						page.Next = page.Items[len(page.Items)-1].Ref.String()
					default:
						page.Items = append(page.Items, *found)
					}
					return nil
				})
		})
		if err != nil {
			return control.Page{}, err
		}
		if read <= q.Size() {
			break // the list has ended
		}
	}
	return page, nil
}

// Apply implements control.Objects.
func (o Store) Apply(ctx context.Context, want control.Object) (control.Object, error) {
	return o.change(ctx, want.Ref, func(now time.Time, old *control.Object) (control.Object, control.Act, error) {
		return control.DecideApply(now, old, want)
	})
}

// Update implements control.Objects.
func (o Store) Update(ctx context.Context, next control.Object) (control.Object, error) {
	return o.change(ctx, next.Ref, func(_ time.Time, old *control.Object) (control.Object, control.Act, error) {
		return control.DecideUpdate(old, next)
	})
}

// Delete implements control.Objects.
func (o Store) Delete(ctx context.Context, ref control.Ref, revision int64) (control.Object, error) {
	return o.change(ctx, ref, func(now time.Time, old *control.Object) (control.Object, control.Act, error) {
		return control.DecideDelete(now, old, ref, revision)
	})
}

// change reads the object without a lock, decides, and writes if the object is still
// unchanged. A decision that changes nothing takes no lock and delays no other writer.
func (o Store) change(ctx context.Context, ref control.Ref, decide func(time.Time, *control.Object) (control.Object, control.Act, error)) (control.Object, error) {
	var next control.Object
	var floor int64
	var refusal error
	err := db.RetryStale(func() error {
		var now time.Time
		var old *control.Object
		err := o.m.Read(ctx, func(s db.Session) (err error) {
			if old, err = o.find(s, ref); err == nil {
				now, err = o.m.Clock(s)
			}
			return err
		})
		if err != nil {
			return err
		}
		var act control.Act
		var revision int64
		if old != nil {
			revision = old.Revision
		}
		next, act, refusal = decide(now, old)
		if floor = 0; refusal != nil || act == control.Keep {
			return nil //nolint:nilerr // change returns the refusal below
		}
		store, err := o.store(&next, act, revision, &floor)
		if err != nil {
			return err
		}
		return o.m.Apply(ctx, store)
	})
	if err != nil {
		return control.Object{}, err
	}
	if over := next.Revision - o.feedLimit; floor > 0 && over >= floor-1+trimEvery {
		_ = o.m.Apply(ctx, trim(over)) // after an error, a later change trims
	}
	return next.Copy(), refusal
}

// store returns the change that writes a decision. revision is that of the object that
// the decision read (0: none). The database assigns the next number and writes it into
// the object. The row with the numbers is locked first, so that changes become visible
// in the order of their numbers. The change sets floor to the feed's floor plus one.
func (o Store) store(next *control.Object, act control.Act, revision int64, floor *int64) (db.Change, error) {
	next.Revision = math.MaxInt64
	data, err := encodeObject(next)
	if err != nil {
		return db.Change{}, err
	}
	mark := fmt.Appendf(nil, `"revision":%d`, next.Revision)
	at := bytes.LastIndex(data, mark) // inside a JSON string its quotes would be escaped
	before, after := data[:at+len(`"revision":`)], data[at+len(mark):]
	kind := control.Put
	write := db.Statement{Must: db.ErrStale}
	switch {
	case act == control.Remove:
		kind = control.Delete
		write.SQL = `DELETE FROM object WHERE kind = $1 AND namespace = $2 AND name = $3 AND revision = $4 RETURNING revision`
		write.Args = []any{next.Kind, next.Namespace, next.Name, revision}
	case revision == 0:
		write.SQL = `INSERT INTO object (kind, namespace, name, revision, data) SELECT $1, $2, $3, newest, ` + o.m.Joined("$4", "newest", "$5") + ` FROM feed WHERE true
			ON CONFLICT (kind, namespace, name) DO NOTHING RETURNING revision`
		write.Args = []any{next.Kind, next.Namespace, next.Name, before, after}
	default:
		write.SQL = `UPDATE object SET revision = newest, data = ` + o.m.Joined("$1", "newest", "$2") + ` FROM feed
			WHERE kind = $3 AND namespace = $4 AND name = $5 AND revision = $6 RETURNING revision`
		write.Args = []any{before, after, next.Kind, next.Namespace, next.Name, revision}
	}
	return db.Change{FeedGrows: true, List: []db.Statement{
		{SQL: `UPDATE feed SET newest = newest + 1 RETURNING newest, floor`, Each: func(r db.Row) error {
			next.Revision, *floor = r.Int(0), r.Int(1)+1
			return nil
		}},
		write,
		{SQL: `INSERT INTO change (number, kind, type, data) SELECT newest, $1, CAST($2 AS bigint), ` + o.m.Joined("$3", "newest", "$4") + ` FROM feed`,
			Args: []any{next.Kind, int64(kind), before, after}},
	}}, nil
}

// trim returns the change that removes all changes of objects up to a number.
func trim(floor int64) db.Change {
	return db.Change{List: []db.Statement{
		{SQL: `UPDATE feed SET floor = $1 WHERE floor < $1`, Args: []any{floor}},
		{SQL: `DELETE FROM change WHERE number <= $1`, Args: []any{floor}},
	}}
}
