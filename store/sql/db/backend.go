// Package db says what the stores of objects, locks, clusters and accounts need of a database, whichever it
// is: sessions that read, changes that are durable as a whole, and a notifier. It holds the migrations of
// both databases.
package db

import (
	"context"
	"time"
)

// Session is one read or one transaction in either database. Statements are the same for
// both: their arguments are $1, $2, … in the order of first use.
type Session interface {
	// Query calls each for every row of a statement.
	Query(sql string, args []any, each func(Row) error) error
}

// Row is one row of a query. It is valid until the next row.
type Row interface {
	Int(column int) int64
	Text(column int) string
	AppendText(to []byte, column int) []byte
	Bytes(column int) []byte // nil for NULL; a copy
}

// Backend is the database below objects, locks, clusters and accounts.
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
	Changes() *Notifier
}
