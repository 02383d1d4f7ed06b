package sqlstore

import (
	"errors"
	"slices"
)

// change is one durable transaction. Its statements are known before it begins,
// so that PostgreSQL gets all of them in one message: no lock is held while the
// server waits for this process, which may be frozen or gone.
//
// What must be decided here is read first, without a lock, and the change is
// guarded by what was read: see again.
type change struct {
	lock      string // changes of one lock come one after the other; "": their rows are enough
	list      []statement
	feedGrows bool   // the feed will have grown
	begin     func() // before each try: forgets what a try before it has given
}

// statement is one of a change. Its arguments are $1, $2, … in the order of first use.
type statement struct {
	sql  string
	args []any
	each func(row) error // its rows
	// must is the error of the whole change if the statement gives no row. It
	// gives one number then.
	must error
}

// errStale says that what a change was decided on is not there any more.
var errStale = errors.New("what was read has changed since")

// again repeats reading and changing for as long as others come in between.
func retryStale(try func() error) error {
	for {
		if err := try(); !errors.Is(err, errStale) {
			return err
		}
	}
}

// do is a change of one statement.
func do(sql string, args ...any) change { return change{list: []statement{{sql: sql, args: args}}} }

// some is a change of one statement that reports whether it gave a row.
func (c change) returning(found *bool) change {
	c.list = slices.Clone(c.list)
	c.list[0].each = func(row) error { *found = true; return nil }
	c.begin = func() { *found = false }
	return c
}
