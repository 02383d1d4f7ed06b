package sqlstore

import (
	"context"
	"time"
)

// session is one read or one transaction in either database. Statements are the same for
// both: their arguments are $1, $2, … in the order of first use.
type session interface {
	// query calls each for every row of a statement.
	query(sql string, args []any, each func(row) error) error
}

// row is one row of a query. It is valid until the next row.
type row interface {
	int(column int) int64
	text(column int) string
	appendText(to []byte, column int) []byte
	bytes(column int) []byte // nil for NULL; a copy
}

// backend is the database below objects, locks, clusters and accounts.
type backend interface {
	// read runs do in a session in which each statement sees its own snapshot.
	read(ctx context.Context, do func(session) error) error
	// snapshot runs do in a read-only session in which all statements see one snapshot.
	snapshot(ctx context.Context, do func(session) error) error
	// apply executes a change. When it returns nil, the whole change is durable.
	apply(ctx context.Context, c change) error
	// clock returns the time that all processes on the database agree on.
	clock(s session) (time.Time, error)
	// joined returns an SQL expression that joins bytes: a parameter, a number in decimal digits, another
	// parameter.
	joined(before, number, after string) string
	// changes returns the notifier of the feed: it fires when the feed may have grown.
	changes() *notifier
}
