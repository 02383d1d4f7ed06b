package control

import (
	"context"
	"errors"
	"iter"
	"strings"
)

// ErrGap reports that a source cannot continue from the given version: list again.
var ErrGap = errors.New("control: the source no longer knows this version; list again")

// Item is one item of a source.
type Item[T any] struct {
	// Key names the item; it is unique in its source.
	Key string
	// Version orders the states of an item. Decimal numbers are compared as
	// numbers. Any other text (a content hash) is newer than the known version
	// if it differs from it, and an empty version is always newer.
	Version string
	Value   T
}

// Type is the type of a change.
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

// String returns put, delete or bookmark.
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
	// Version is the position after this change: a watch from here returns the
	// changes after it. If several changes share a position, all but the last
	// carry the position before them, so that a break loses none.
	Version string
}

// Source provides items. Both methods may be called at any time and by several callers
// at once.
type Source[T any] interface {
	// List returns all items and the position of this state.
	List(ctx context.Context) (items []Item[T], version string, err error)
	// Watch yields the changes after the position, in order, until the caller
	// stops, the context ends or it yields an error. The error is ErrGap if the
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

// older reports whether version a is certainly before version b.
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
