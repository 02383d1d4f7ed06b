package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
)

// session is one read or one transaction in either database. Statements are
// the same for both: their arguments are $1, $2, … in the order of first use.
type session interface {
	// query gives the rows of a statement to each.
	query(sql string, args []any, each func(row) error) error
}

// row is one row of a query, valid until the next one.
type row interface {
	int(column int) int64
	text(column int) string
	appendText(to []byte, column int) []byte
	bytes(column int) []byte // nil for NULL; a copy
}

// medium is a database in which objects and locks are kept.
type medium interface {
	// read gives a session that sees one moment per statement.
	read(ctx context.Context, do func(session) error) error
	// still gives a session that sees one moment throughout, and writes nothing.
	still(ctx context.Context, do func(session) error) error
	// write gives a session that is durable, as a whole, when write returns nil.
	// lock says what it will change: sessions of one lock never overlap. do may
	// be called again.
	write(ctx context.Context, lock string, do func(session) error) error
	// clock is the time all that share the database agree on.
	clock(s session) (time.Time, error)
	// tell says, within a session that wrote, that the feed will have grown.
	tell(s session) error
	// changes rings when a feed may have grown.
	changes() *bell
}

// FeedKeeps is the number of changes that the feed remembers; who asks for
// older ones hears control.ErrGap and lists again.
const FeedKeeps = 10_000

// trimEvery is how many changes pass between two trims.
const trimEvery = 100

// objects implements control.Objects in either database.
type objects struct {
	m     medium
	keeps int64
}

// feedLock serialises the writers of objects: the order of their numbers is that of their commits.
const feedLock = "feed"

// Get implements control.Objects.
func (o objects) Get(ctx context.Context, ref control.Ref) (control.Object, error) {
	var found *control.Object
	err := o.m.read(ctx, func(s session) (err error) {
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

func (o objects) find(s session, ref control.Ref) (*control.Object, error) {
	var found *control.Object
	err := s.query(`SELECT data FROM object WHERE kind = $1 AND namespace = $2 AND name = $3`, []any{ref.Kind, ref.Namespace, ref.Name},
		func(r row) (err error) {
			found, err = decodeObject(r.bytes(0))
			return err
		})
	return found, err
}

// encodeObject keeps <, > and & in a spec as they are: json.Marshal would not.
func encodeObject(o *control.Object) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

func decodeObject(data []byte) (*control.Object, error) {
	o := new(control.Object)
	if err := json.Unmarshal(data, o); err != nil {
		return nil, workflow.StoreCorrupt.Errorf("a stored object: %w", err)
	}
	return o, nil
}

// List implements control.Objects.
func (o objects) List(ctx context.Context, q control.Query) (control.Page, error) {
	after, _, err := q.After()
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return control.Page{}, err
	}
	var page control.Page
	for page.Next == "" {
		var read int
		err := o.m.read(ctx, func(s session) error {
			read = 0
			return s.query(`SELECT data FROM object
				WHERE (kind, namespace, name) > ($1, $2, $3) AND ($4 = '' OR kind = $4) AND ($5 = '' OR namespace = $5)
				ORDER BY kind, namespace, name LIMIT CAST($6 AS bigint)`,
				[]any{after.Kind, after.Namespace, after.Name, q.Kind, q.Namespace, int64(q.Size() + 1)},
				func(r row) error {
					found, err := decodeObject(r.bytes(0))
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
			break // that was all
		}
	}
	return page, nil
}

// Apply implements control.Objects.
func (o objects) Apply(ctx context.Context, want control.Object) (control.Object, error) {
	return o.change(ctx, want.Ref, func(now time.Time, old *control.Object) (control.Object, control.Act, error) {
		return control.DecideApply(now, old, want)
	})
}

// Update implements control.Objects.
func (o objects) Update(ctx context.Context, next control.Object) (control.Object, error) {
	return o.change(ctx, next.Ref, func(_ time.Time, old *control.Object) (control.Object, control.Act, error) {
		return control.DecideUpdate(old, next)
	})
}

// Delete implements control.Objects.
func (o objects) Delete(ctx context.Context, ref control.Ref, revision int64) (control.Object, error) {
	return o.change(ctx, ref, func(now time.Time, old *control.Object) (control.Object, control.Act, error) {
		return control.DecideDelete(now, old, ref, revision)
	})
}

// change decides on what is read without any lock, and once more under it if
// there is something to write: what changes nothing delays nobody.
func (o objects) change(ctx context.Context, ref control.Ref, decide func(time.Time, *control.Object) (control.Object, control.Act, error)) (control.Object, error) {
	var next control.Object
	var act control.Act
	var refusal error
	look := func(s session) error {
		now, err := o.m.clock(s)
		if err != nil {
			return err
		}
		old, err := o.find(s, ref)
		if err == nil {
			next, act, refusal = decide(now, old)
		}
		return err
	}
	if err := o.m.read(ctx, look); err != nil {
		return control.Object{}, err
	}
	if refusal != nil || act == control.Keep {
		return next.Copy(), refusal
	}
	err := o.m.write(ctx, feedLock, func(s session) error {
		if err := look(s); err != nil || refusal != nil || act == control.Keep {
			return err
		}
		return o.store(s, &next, act)
	})
	if err != nil {
		return control.Object{}, err
	}
	return next.Copy(), refusal
}

// store writes a decision and its change under the next number.
func (o objects) store(s session, next *control.Object, act control.Act) error {
	var floor int64
	err := s.query(`UPDATE feed SET newest = newest + 1 RETURNING newest, floor`, nil, func(r row) error {
		next.Revision, floor = r.int(0), r.int(1)
		return nil
	})
	if err != nil {
		return err
	}
	data, err := encodeObject(next)
	if err != nil {
		return err
	}
	kind := control.Put
	if act == control.Remove {
		kind = control.Delete
		err = s.query(`DELETE FROM object WHERE kind = $1 AND namespace = $2 AND name = $3`, []any{next.Kind, next.Namespace, next.Name}, nil)
	} else {
		err = s.query(`INSERT INTO object (kind, namespace, name, revision, data) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (kind, namespace, name) DO UPDATE SET revision = excluded.revision, data = excluded.data`,
			[]any{next.Kind, next.Namespace, next.Name, next.Revision, data}, nil)
	}
	if err != nil {
		return err
	}
	err = s.query(`INSERT INTO change (number, kind, type, data) VALUES ($1, $2, $3, $4)`, []any{next.Revision, next.Kind, int64(kind), data}, nil)
	if err != nil {
		return err
	}
	if over := next.Revision - o.keeps; over >= floor+trimEvery {
		if err := trim(s, over); err != nil {
			return err
		}
	}
	return o.m.tell(s)
}

// trim forgets the changes up to a number.
func trim(s session, floor int64) error {
	if err := s.query(`DELETE FROM change WHERE number <= $1`, []any{floor}, nil); err != nil {
		return err
	}
	return s.query(`UPDATE feed SET floor = $1`, []any{floor}, nil)
}
