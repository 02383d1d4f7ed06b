package objects

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/store/sql/db"
)

// safetyPoll is how long a feed waits for a notification before it polls.
const safetyPoll = 30 * time.Second

// feedPage is how many changes one query reads.
const feedPage = 500

// feed is the change feed of the objects of one kind; "" means all kinds. A position is
// the number of a change.
type feed struct {
	o    Store
	kind string
}

// Feed implements control.Objects.
func (o Store) Feed(kind string) control.Source[control.Object] { return feed{o, kind} }

// List implements control.Source.
func (f feed) List(ctx context.Context) ([]control.Item[control.Object], string, error) {
	var items []control.Item[control.Object]
	var position int64
	err := f.o.m.Read(ctx, func(s db.Session) error {
		items = nil
		return s.Query(`SELECT f.newest, o.data FROM feed f LEFT JOIN object o ON ($1 = '' OR o.kind = $1)`, []any{f.kind}, func(r db.Row) error {
			position = r.Int(0)
			data := r.Bytes(1)
			if data == nil {
				return nil
			}
			o, err := DecodeObject(data)
			if err == nil {
				items = append(items, control.Item[control.Object]{Key: o.Ref.String(), Version: strconv.FormatInt(o.Revision, 10), Value: *o})
			}
			return err
		})
	})
	return items, strconv.FormatInt(position, 10), err
}

// Watch implements control.Source.
func (f feed) Watch(ctx context.Context, version string) iter.Seq2[control.Change[control.Object], error] {
	return func(yield func(control.Change[control.Object], error) bool) {
		position, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			yield(control.Change[control.Object]{}, control.ErrGap)
			return
		}
		for ctx.Err() == nil {
			woken := f.o.m.Changes().Next() // before the read, so that it misses no change in between
			changes, newest, err := f.since(ctx, position)
			if err != nil {
				if ctx.Err() == nil {
					yield(control.Change[control.Object]{}, err)
				}
				return
			}
			more := len(changes) == feedPage
			for _, c := range changes {
				position = c.Item.Value.Revision
				if !yield(c, nil) {
					return
				}
			}
			if !more && position < newest {
				position = newest
				if !yield(control.Change[control.Object]{Type: control.Bookmark, Version: strconv.FormatInt(newest, 10)}, nil) {
					return
				}
			}
			if !more {
				waitForChange(ctx, woken)
			}
		}
	}
}

// waitForChange waits until the notifier fires, the context ends, or safetyPoll has
// passed.
func waitForChange(ctx context.Context, woken <-chan struct{}) {
	timer := time.NewTimer(safetyPoll)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// since reads the changes after a position and returns the newest number. ErrGap: some
// of them were trimmed, or the position is greater than the newest number.
func (f feed) since(ctx context.Context, position int64) (changes []control.Change[control.Object], newest int64, err error) {
	var floor int64
	err = f.o.m.Read(ctx, func(s db.Session) error {
		changes = nil
		return s.Query(`SELECT f.newest, f.floor, c.type, c.data
			FROM feed f LEFT JOIN change c ON c.number > $1 AND ($2 = '' OR c.kind = $2) ORDER BY c.number LIMIT CAST($3 AS bigint)`,
			[]any{position, f.kind, int64(feedPage)}, func(r db.Row) error {
				newest, floor = r.Int(0), r.Int(1)
				data := r.Bytes(3)
				if data == nil {
					return nil
				}
				o, err := DecodeObject(data)
				if err != nil {
					return err
				}
				version := strconv.FormatInt(o.Revision, 10)
				changes = append(changes, control.Change[control.Object]{Type: control.Type(r.Int(2)), Version: version,
					Item: control.Item[control.Object]{Key: o.Ref.String(), Version: version, Value: *o}})
				return nil
			})
	})
	if err == nil && (position < floor || position > newest) {
		err = control.ErrGap
	}
	return changes, newest, err
}
