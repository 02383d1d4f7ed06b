package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// NotOwner is the fault of a client of a SQLite file that tries to work on runs.
var NotOwner = fault.Declare(fault.Kind{
	Code: "STORE_OWNED", Class: fault.Blocked,
	Title:  "another process owns the database file",
	Remedy: "Send the request to the process that owns the file, or stop that process first.",
})

// NotOwner returns the fault of a call that only the owner of the file may make; nil in the owner.
func (d *DB) NotOwner() error {
	if d.owner {
		return nil
	}
	return NotOwner.Errorf("another process works on the runs of %s", d.path)
}

// ErrClosed is the error of a call after Close.
var ErrClosed = runstore.StoreUnavailable.Errorf("the store is closed")

// fault turns an error of the database into a fault. After damage, the store refuses all
// writes.
func (d *DB) fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultInterrupt {
		return ctx.Err()
	}
	err = Fault(err, filepath.Base(d.path))
	if damaged, ok := errors.AsType[*fault.Error](err); ok && damaged.Kind == runstore.StoreCorrupt && isFatal(err) {
		d.broken.CompareAndSwap(nil, damaged)
	}
	return err
}

// IsDamage implements db.Maintained.
func (d *DB) IsDamage(err error) bool { return errors.Is(Fault(err, d.path), runstore.StoreCorrupt) }

// Fault maps SQLite's result codes to faults. Other errors stay as they are.
func Fault(err error, what string) error {
	if err == nil || fault.Of(err) != fault.Unknown {
		return err
	}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultOK, sqlite.ResultError, sqlite.ResultConstraint, sqlite.ResultMisuse, sqlite.ResultRange:
		if errors.Is(err, os.ErrPermission) {
			return runstore.StoreFull.Errorf("%s: %w", what, err)
		}
		return err
	case sqlite.ResultFull, sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultAuth:
		return runstore.StoreFull.Errorf("%s: %w", what, err)
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		return runstore.StoreCorrupt.Errorf("%s: %w", what, err)
	default: // busy, locked, I/O, cannot open, out of memory
		return runstore.StoreUnavailable.Errorf("%s: %w", what, err)
	}
}

// partialError is the error of a write without a savepoint after its first change.
type partialError struct{ error }

func (e partialError) Unwrap() error { return e.error }

// Partial marks the error of a write without a savepoint that has changed something: the
// whole transaction is rolled back.
func Partial(err error) error {
	if err == nil {
		return nil
	}
	return partialError{err}
}

// isFatal reports an error after which the transaction must be rolled back.
func isFatal(err error) bool {
	if errors.As(err, new(partialError)) {
		return true
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultOK, sqlite.ResultConstraint, sqlite.ResultError:
		return false
	}
	return true
}
