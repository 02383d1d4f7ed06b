// Package db says what the stores of runs, objects, locks, clusters and accounts need of a database, whichever it
// is: sessions that read, changes that are durable as a whole, and a notifier; and what maintenance needs beyond that.
// It holds the migrations of both databases.
package db

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// Session is one read or one transaction in either database. Statements are the same for
// both: their arguments are $1, $2, … in the order of first use.
type Session interface {
	// Query calls each for every row of a statement.
	Query(sql string, args []any, each func(Row) error) error
	// Columns calls each for every row of a statement, with the names of its columns. A value is an int64, a
	// string, a []byte or nil.
	Columns(sql string, each func(names []string, values []any) error) error
	// HasTable reports whether the schema has a table; a file may have an older one.
	HasTable(name string) (bool, error)
}

// Row is one row of a query. It is valid until the next row.
type Row interface {
	Int(column int) int64
	Text(column int) string
	AppendText(to []byte, column int) []byte
	Bytes(column int) []byte  // nil for NULL; a copy
	List(column int) [][]byte // of an array; PostgreSQL only
}

// Backend is the database below the stores.
type Backend interface {
	// Read runs do in a session in which each statement sees its own snapshot.
	Read(ctx context.Context, do func(Session) error) error
	// Snapshot runs do in a read-only session in which all statements see one snapshot.
	Snapshot(ctx context.Context, do func(Session) error) error
	// Apply executes a change. When it returns nil, the whole change is durable.
	Apply(ctx context.Context, c Change) error
	// Clock returns the time that all processes on the database agree on.
	Clock(s Session) (time.Time, error)
	// Joined returns an SQL expression that joins bytes: a parameter, a number in decimal digits, another
	// parameter.
	Joined(before, number, after string) string
	// Changes returns the notifier of the feed: it fires when the feed may have grown.
	Changes() *control.Notifier
}

// Maintained is a database for the maintenance commands.
type Maintained interface {
	Backend
	// IsOwner reports whether this process may claim and save runs.
	IsOwner() bool
	// Owned reports whether any process claims and saves runs; true where nobody knows.
	Owned() bool
	// Stats counts what was written since Open.
	Stats() Stats
	// Process returns a name of this process that no other process on the database has.
	Process() string
	// Inspect is Snapshot for a reader that may be slow.
	Inspect(ctx context.Context, do func(Session) error) error
	// Rewrite runs do in one transaction that no other writer disturbs, and that may be slow.
	Rewrite(ctx context.Context, do func(Rewriter) error) error
	// Integrity calls damaged for each damaged part of the file that the database itself finds.
	Integrity(s Session, damaged func(what string)) error
	// Backup writes a copy to a new file. The database stays in use.
	Backup(ctx context.Context, path string) error
	// IsDamage reports the error of a read that found damage, if the session can read on.
	IsDamage(err error) bool
}

// Rewriter is the transaction of a Rewrite.
type Rewriter interface {
	Session
	// Execute executes statements in their order.
	Execute(list []Statement) error
	// Restored makes the database continue its numbers after the greatest number of a table's column.
	Restored(table, column string) error
}
