package control

import (
	"context"
	"errors"
	"iter"
	"strings"
)

// ErrGap says that a source cannot go on from the version asked for: list again.
var ErrGap = errors.New("control: the source no longer knows this version; list again")

// Item is one thing of a source.
type Item[T any] struct {
	// Key names the item; it is unique in its source.
	Key string
	// Version tells a newer item from an older one. Decimal numbers are
	// compared as numbers; any other text (a content hash) is newer than what
	// came before if it differs, and no version always is.
	Version string
	Value   T
}

// Type says what a change did.
type Type int

const (
	// Put created or replaced an item.
	Put Type = iota
	// Delete removed it. Key must be set; a Version, if set, is the version of
	// the removal; Value may be the last one known.
	Delete
	// Bookmark only moves the position; it has no item.
	Bookmark
)

// String gives put, delete or bookmark.
func (t Type) String() string {
	switch t {
	case Put:
		return "put"
	case Delete:
		return "delete"
	default:
		return "bookmark"
	}
}

// Change is one event of a watch.
type Change[T any] struct {
	Type Type
	Item Item[T]
	// Version is the position after this change: a watch from here gives what
	// comes next. If one position holds several changes, all but the last
	// carry the position before them, so that none is lost by a break.
	Version string
}

// Source is where items come from. Both methods may be called at any time and
// by several callers at once.
type Source[T any] interface {
	// List gives all items and the position at which they were true.
	List(ctx context.Context) (items []Item[T], version string, err error)
	// Watch gives what changed after the position, in order, until the caller
	// stops, the context ends or an error is given. The error is ErrGap if the
	// position is no longer known. An end without error is a break as well:
	// the caller watches again from the last position.
	Watch(ctx context.Context, version string) iter.Seq2[Change[T], error]
}

// newer reports whether version a replaces version b.
func newer(a, b string) bool {
	if decimal(a) && decimal(b) {
		return compareDecimal(a, b) > 0
	}
	return a != b || a == ""
}

// older reports whether version a is certain to lie before version b.
func older(a, b string) bool {
	return decimal(a) && decimal(b) && compareDecimal(a, b) < 0
}

func decimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func compareDecimal(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
