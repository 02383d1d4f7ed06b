package sqlstore

import (
	"errors"
	"slices"
)

// change is one durable transaction. Its statements are known before it begins, so
// PostgreSQL gets all of them in one message: the server never holds a lock while
// it waits for this process, which may be frozen or dead.
//
// A change that depends on stored data reads it first, without a lock. A guarding
// statement then checks that the data is unchanged: see retryStale.
type change struct {
	lock      string // the database executes changes with the same lock one after the other; "": no lock beyond those of the rows
	list      []statement
	feedGrows bool   // the change adds to the feed
	begin     func() // called before each try; clears the results of the try before
}

// statement is one SQL statement of a change. Its arguments are $1, $2, … in the order
// of first use.
type statement struct {
	sql  string
	args []any
	each func(row) error // called for each row
	// must is the error of the whole change if the statement returns no row. With must, the statement
	// returns one number.
	must error
}

// errStale reports that the data that a change depends on has changed.
var errStale = errors.New("what was read has changed since")

// retryStale repeats try until no other writer has changed the data in between.
func retryStale(try func() error) error {
	for {
		if err := try(); !errors.Is(err, errStale) {
			return err
		}
	}
}

// do returns a change of one statement.
func do(sql string, args ...any) change { return change{list: []statement{{sql: sql, args: args}}} }

// returning makes a change of one statement report in found whether the statement
// returned a row.
func (c change) returning(found *bool) change {
	c.list = slices.Clone(c.list)
	c.list[0].each = func(row) error { *found = true; return nil }
	c.begin = func() { *found = false }
	return c
}
