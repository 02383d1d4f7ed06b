package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// History implements runstore.Lister.
func (s *Store) History(ctx context.Context, id string, after int64, limit int) ([]runtype.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	var rows [][]runtype.Event
	err := s.db.Read(ctx, func(x db.Session) error {
		var h *Handle
		var damage error
		err := x.Query("SELECT "+s.texts.Key+", r.body FROM run AS r WHERE r.id = $1", []any{id}, func(r db.Row) error {
			h = &Handle{store: s, Key: r.Int(0)}
			if s.texts.Chained {
				h.LastEvent, _, _, damage = ReadPointers(r.Bytes(1))
			}
			return nil
		})
		switch {
		case err != nil:
			return err
		case h == nil:
			return runstore.ErrNotFound
		case damage == nil:
			if rows, damage, err = s.dialect.History(x, id, h, after, limit); err != nil {
				return err
			}
		}
		if damage != nil {
			return runstore.StoreCorrupt.Errorf("the history of run %s cannot be read: %w", id, damage)
		}
		return nil
	})
	var events []runtype.Event
	for _, row := range rows {
		for _, e := range row {
			if e.Seq > after && len(events) < limit {
				events = append(events, e)
			}
		}
	}
	return events, err
}

// eventCursor is a position in the history of all runs: the transaction (0 in SQLite), the
// row, and the number of events of that row that were returned.
type eventCursor struct {
	x, n int64
	part int
}

func (c eventCursor) String() string { return fmt.Sprintf("%d-%d-%d", c.x, c.n, c.part) }

func parseEventCursor(text string) (eventCursor, error) {
	var c eventCursor
	if text == "" {
		return c, nil
	}
	if _, err := fmt.Sscanf(text, "%d-%d-%d", &c.x, &c.n, &c.part); err != nil || c.String() != text {
		return c, runtype.InputInvalid.Errorf("cursor %q is not from an earlier answer", text)
	}
	return c, nil
}

var errFull = errors.New("the page is full")

// Events implements runstore.Lister. It leaves out events that cannot be decoded: their
// run is unreadable.
func (s *Store) Events(ctx context.Context, cursor string, limit int) (events []runtype.Event, next string, err error) {
	if limit <= 0 {
		limit = 1000
	}
	var c eventCursor
	if cursor == "now" {
		err = s.db.Read(ctx, func(x db.Session) error {
			return x.Query(s.texts.Newest, nil, func(r db.Row) error { c = eventCursor{x: r.Int(0), n: r.Int(1)}; return nil })
		})
		return nil, c.String(), err
	}
	if c, err = parseEventCursor(cursor); err != nil {
		return nil, "", err
	}
	err = s.db.Read(ctx, func(x db.Session) error {
		return x.Query(s.texts.Events, []any{c.x, c.n, limit + 1}, func(r db.Row) error {
			if len(events) >= limit {
				return errFull // the rows after it would be read in vain
			}
			at := eventCursor{x: r.Int(0), n: r.Int(1)}
			block, damage := codec.ReadEvents(r.Text(2), r.Bytes(3), s.pointers()...)
			if damage != nil {
				block = nil
			}
			if at.x == c.x && at.n == c.n {
				at.part = min(c.part, len(block))
			}
			block = block[at.part:min(len(block), at.part+limit-len(events))]
			events = append(events, block...)
			at.part += len(block)
			c = at
			return nil
		})
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, "", err
	}
	return events, c.String(), nil
}

const scanRows = 2000

// EventsOf returns at most limit events of some kinds behind a cursor, and the cursor behind what was looked at,
// which is a part of the history. At its end the cursor stays. Cursors are those of Events.
func (s *Store) EventsOf(ctx context.Context, cursor string, limit int, kinds []runtype.EventKind) (events []runtype.Event, next string, err error) {
	c, err := parseEventCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	var keys []int64 // of the runs of the events
	err = s.db.Read(ctx, func(x db.Session) error {
		events, keys = nil, nil
		err := x.Query(cmp.Or(s.texts.Rows, s.texts.Events), []any{c.x, c.n, scanRows}, func(r db.Row) error {
			if len(events) >= limit {
				return errFull
			}
			at := eventCursor{x: r.Int(0), n: r.Int(1)}
			first := 0
			if at.x == c.x && at.n == c.n {
				first = c.part
			}
			data := r.Bytes(3)
			n, found, damage := codec.CountEvents(data, kinds, s.pointers()...)
			if damage != nil {
				n, found = 0, false
			}
			at.part = n
			if found {
				block, _ := codec.ReadEvents("", data, s.pointers()...)
				for i, e := range block {
					if i < first || !slices.Contains(kinds, e.Kind) {
						continue
					}
					if len(events) >= limit {
						at.part = i
						break
					}
					if s.texts.Rows == "" {
						e.Run = r.Text(2)
					} else {
						keys = append(keys, r.Int(2))
					}
					events = append(events, e)
				}
			}
			c = at
			return nil
		})
		if err != nil && !errors.Is(err, errFull) {
			return err
		}
		ids := map[int64]string{}
		for i, key := range keys {
			if _, known := ids[key]; !known {
				if err := x.Query(s.texts.ID, []any{key}, func(r db.Row) error { ids[key] = r.Text(0); return nil }); err != nil {
					return err
				}
			}
			events[i].Run = ids[key]
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return slices.DeleteFunc(events, func(e runtype.Event) bool { return e.Run == "" }), c.String(), nil // of a run that was removed
}

// pointers receives the number before a chained blob.
func (s *Store) pointers() []*int64 {
	if s.texts.Chained {
		return []*int64{new(int64)}
	}
	return nil
}
