package db

import (
	"errors"
	"slices"
)

// Change is one durable transaction. Its statements are known before it begins, so
// PostgreSQL gets all of them in one message: the server never holds a lock while
// it waits for this process, which may be frozen or dead.
//
// A change that depends on stored data reads it first, without a lock. A guarding
// statement then checks that the data is unchanged: see RetryStale.
type Change struct {
	Lock      string // the database executes changes with the same lock one after the other; "": no lock beyond those of the rows
	List      []Statement
	FeedGrows bool   // the change adds to the feed
	Begin     func() // called before each try; clears the results of the try before
}

// Statement is one SQL statement of a change. Its arguments are $1, $2, … in the order
// of first use.
type Statement struct {
	SQL  string
	Args []any
	Each func(Row) error // called for each row
	// Must is the error of the whole change if the statement returns no row. With must, the statement
	// returns one number.
	Must error
}

// ErrStale reports that the data that a change depends on has changed.
var ErrStale = errors.New("what was read has changed since")

// RetryStale repeats try until no other writer has changed the data in between.
func RetryStale(try func() error) error {
	for {
		if err := try(); !errors.Is(err, ErrStale) {
			return err
		}
	}
}

// Single returns a change of one statement.
func Single(sql string, args ...any) Change { return Change{List: []Statement{{SQL: sql, Args: args}}} }

// Returning makes a change of one statement report in found whether the statement
// returned a row.
func (c Change) Returning(found *bool) Change {
	c.List = slices.Clone(c.List)
	c.List[0].Each = func(Row) error { *found = true; return nil }
	c.Begin = func() { *found = false }
	return c
}
