package sqlite

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Faults of files that are not a store.
var (
	StoreForeign = fault.Declare(fault.Kind{
		Code: "STORE_FOREIGN", Class: fault.Invalid,
		Title:  "the file is not a store of pawl",
		Remedy: "Nothing was written to it. Name the file of the store with --dsn; if it should be one, restore a backup into a new file with pawl store restore.",
	})
	StoreEmpty = fault.Declare(fault.Kind{
		Code: "STORE_EMPTY", Class: fault.Invalid,
		Title:  "the file is empty: there is no store in it yet",
		Remedy: "Name the file of the store with --dsn; a server or pawl run makes a store of this one, and pawl store restore fills a new file from a backup.",
	})
	StoreNoFile = fault.Declare(fault.Kind{
		Code: "STORE_NO_FILE", Class: fault.Invalid,
		Title:  "a store must be a regular file, and this is not one",
		Remedy: "Name the file of the store with --dsn, not a folder, a pipe or a device.",
	})
)

const (
	sqliteMagic = "SQLite format 3\x00"
	smallest    = 512 // bytes of the smallest page
)

// Identify checks what a file is, before the store writes to it or beside it. A missing
// or an empty file is valid: it becomes a store. STORE_FOREIGN, STORE_NO_FILE,
// STORE_CORRUPT.
func Identify(path string) error {
	if err := identify(path); err != nil && !errors.Is(err, StoreEmpty) {
		return err
	}
	return nil
}

// identify is Identify for a file that must be a store already: STORE_EMPTY.
func identify(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // opening it reports the error or creates the file
	case err != nil:
		return runstore.StoreUnavailable.Errorf("%w", err)
	case !info.Mode().IsRegular():
		return StoreNoFile.Errorf("%s is %s", path, kindOfFile(info.Mode()))
	}
	log, err := os.Stat(path + "-wal")
	if logged := err == nil && log.Size() > 0; info.Size() == 0 && !logged {
		return StoreEmpty.Errorf("%s has no bytes", path)
	}
	if info.Size() > 0 && info.Size() < smallest {
		return identifyShort(path)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return Fault(err, path)
	}
	defer conn.Close()
	conn.SetBusyTimeout(busyTimeout)
	return Fault(identifySchema(conn, path), path)
}

// isShort reports a file that is too short to read.
func isShort(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() < smallest
}

// identifyShort distinguishes a truncated store from a file that never was one.
func identifyShort(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return runstore.StoreUnavailable.Errorf("%w", err)
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, smallest))
	if err != nil {
		return runstore.StoreUnavailable.Errorf("%s: %w", path, err)
	}
	magic := []byte(sqliteMagic)
	if n := min(len(head), len(magic)-1); bytes.Equal(head[:n], magic[:n]) {
		return runstore.StoreCorrupt.Errorf("%s was cut off: it has %d bytes", path, len(head))
	}
	return StoreForeign.Errorf("%s is not a SQLite database: it has %d bytes", path, len(head))
}

// identifySchema looks for the tables of a store. One transaction creates them, so there
// are all of them or none.
func identifySchema(conn *sqlite.Conn, path string) error {
	tables, err := Text(conn, `SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	if err != nil {
		return err
	}
	if tables == "0" {
		return StoreEmpty.Errorf("%s is a database without tables", path)
	}
	ours, err := Text(conn, `SELECT (SELECT count(*) FROM pragma_table_info('migration') WHERE name IN ('number', 'checksum'))
		+ (SELECT count(*) FROM pragma_table_info('run') WHERE name IN ('id', 'epoch'))`)
	if err != nil {
		return err
	}
	if ours != "4" {
		return StoreForeign.Errorf("%s is a database of another program", path)
	}
	return nil
}

func kindOfFile(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}
