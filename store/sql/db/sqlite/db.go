// Package sqlite is a SQLite file that several processes share: its connections, its single writer, migrations and
// write-ahead log, and the lock that makes one process its owner.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// DB is one SQLite file.
//
//	writes          ─▶ pending ─▶ writer ─▶ one transaction for all pending writes ─▶ sync
//	reads           ─▶ readers
//	another process ─▶ its own short transactions ─▶ socket beside the file ─▶ Waker
//
// The first process that opens the file owns it, by a lock file beside it. Other
// processes are clients.
type DB struct {
	Waker *db.Waker // fires when a run may be due

	path    string
	owner   bool
	lock    *os.File
	socket  net.Listener
	writer  *Writer // nil: the file is only read
	readers chan *reader
	changed control.Notifier // fires when a feed may have grown
	stats   stats
	broken  atomic.Pointer[fault.Error] // set when the file is found to be damaged

	closing sync.Once
	done    sync.WaitGroup
}

// Options say how to open a file.
type Options struct {
	Path    string
	Client  bool // do not own the file, even when no other process owns it
	Readers int  // connections that read; default 4

	// Counters are queries of the numbers that Writer.Counters holds.
	Counters []string
}

const (
	busyTimeout = 10 * time.Second // of a writer that waits for another process
	quickLimit  = 128 << 20        // at start, only the first page and the schema of larger files are checked
	checkpoint  = 4000             // pages in the log at which they are moved into the file
)

// Open opens or creates a file and brings its schema up to date.
func Open(ctx context.Context, o Options) (*DB, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("path %s: %w", o.Path, err)
	}
	if err := Identify(path); err != nil && !errors.Is(err, runstore.StoreUnavailable) { // SQLite reports the error if the file is unavailable
		return nil, err
	}
	d := &DB{path: path, Waker: db.NewWaker()}
	if !o.Client {
		if d.lock, err = lockFile(path + ".lock"); err != nil {
			return nil, Fault(err, "lock "+path)
		}
		d.owner = d.lock != nil
	}
	_ = createFile(path) // SQLite reports the error
	if err := d.open(ctx, o); err != nil {
		d.unlock()
		return nil, err
	}
	return d, nil
}

// OpenReadOnly opens a file that cannot be opened as a store, as far as it can be read. It writes nothing.
// STORE_EMPTY, STORE_FOREIGN, STORE_NO_FILE; STORE_CORRUPT for a file that is too short to be read.
func OpenReadOnly(path string) (*DB, error) {
	if err := identify(path); err != nil && (!errors.Is(err, runstore.StoreCorrupt) || isShort(path)) {
		return nil, err // any other damaged file is read as far as possible
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, Fault(err, path)
	}
	conn.SetBusyTimeout(busyTimeout)
	d := &DB{path: path, Waker: db.NewWaker(), readers: make(chan *reader, 1)}
	d.readers <- newReader(conn)
	return d, nil
}

// createFile creates a file that only its owner may read; os.ErrExist if it exists.
// SQLite gives the files beside it the same mode. An existing file is not opened:
// closing it would release the locks of another store of this process.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// RemoveFile removes a file that no process has open, and the files that SQLite and its
// owner keep beside it.
func RemoveFile(path string) {
	for _, beside := range []string{"", "-wal", "-shm", "-journal", ".lock"} {
		_ = os.Remove(path + beside)
	}
}

func (d *DB) open(ctx context.Context, o Options) error {
	conn, err := openConn(d.path, sqlite.OpenReadWrite|sqlite.OpenCreate, -8192)
	if err != nil {
		return err
	}
	if err := d.prepare(ctx, conn); err != nil {
		conn.Close()
		return err
	}
	if d.writer, err = newWriter(d, conn, o.Counters); err != nil {
		conn.Close()
		return Fault(err, "open "+d.path)
	}
	n := o.Readers
	if n <= 0 {
		n = 4
	}
	d.readers = make(chan *reader, n)
	for range n {
		conn, err := openConn(d.path, sqlite.OpenReadOnly, -2048)
		if err != nil {
			d.closeReaders(len(d.readers))
			d.writer.closeFiles()
			return err
		}
		d.readers <- newReader(conn)
	}
	if d.owner {
		d.listen()
	}
	d.done.Go(d.writer.serve)
	return nil
}

// prepare checks the file before the first write, and brings the schema up to date.
func (d *DB) prepare(ctx context.Context, conn *sqlite.Conn) error {
	if d.owner {
		if err := quickCheck(conn, d.path); err != nil {
			return err
		}
	}
	for _, pragma := range []string{
		"PRAGMA journal_mode = wal", "PRAGMA synchronous = full", "PRAGMA foreign_keys = off", "PRAGMA temp_store = memory",
		fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", checkpoint), "PRAGMA journal_size_limit = 67108864",
	} {
		if err := Execute(conn, pragma); err != nil {
			return Fault(err, pragma)
		}
	}
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		got, err := Text(conn, "PRAGMA "+pragma)
		if err != nil {
			return Fault(err, pragma)
		}
		if got != want {
			return runstore.StoreUnavailable.Errorf("%s: %s is %q and cannot be set to %q: is it on a network file system?", d.path, pragma, got, want)
		}
	}
	return migrate(ctx, conn)
}

func openConn(path string, flags sqlite.OpenFlags, cache int) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, Fault(err, "open "+path)
	}
	conn.SetBusyTimeout(busyTimeout)
	if err := Execute(conn, fmt.Sprintf("PRAGMA cache_size = %d", cache)); err != nil {
		conn.Close()
		return nil, Fault(err, "open "+path)
	}
	return conn, nil
}

// quickCheck checks the file before the store writes to it.
func quickCheck(conn *sqlite.Conn, path string) error {
	query := "PRAGMA quick_check(1)"
	if info, err := os.Stat(path); err == nil && info.Size() > quickLimit {
		query = "SELECT 'ok' FROM (SELECT count(*) FROM sqlite_schema)"
	}
	answer, err := Text(conn, query)
	if err != nil {
		return Fault(err, "check "+path)
	}
	if answer != "ok" {
		return runstore.StoreCorrupt.Errorf("%s: %s", path, answer)
	}
	return nil
}

// Path returns the path of the file.
func (d *DB) Path() string { return d.path }

// IsOwner reports whether this process owns the file.
func (d *DB) IsOwner() bool { return d.owner }

// Process implements db.Maintained.
func (d *DB) Process() string { return "file" }

// Stats counts what was written since Open.
func (d *DB) Stats() db.Stats { return d.stats.read() }

// Close waits for the writes under way and closes the file.
func (d *DB) Close() {
	d.closing.Do(func() {
		if d.socket != nil {
			d.socket.Close()
		}
		if d.writer != nil {
			d.writer.close()
		}
		d.done.Wait()
		d.closeReaders(cap(d.readers))
		close(d.readers) // later reads receive nil and fail
		if d.writer != nil {
			d.writer.closeFiles()
		}
		d.unlock()
	})
}

func (d *DB) closeReaders(n int) {
	for range n {
		(<-d.readers).close()
	}
}

func (d *DB) unlock() {
	if d.lock != nil {
		d.lock.Close()
	}
}

// Select runs fn in one read transaction.
func (d *DB) Select(ctx context.Context, fn func(*sqlite.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var r *reader
	select {
	case r = <-d.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r == nil {
		return ErrClosed
	}
	end := r.read(ctx, fn)
	d.readers <- r
	if end.panicked != nil {
		panic(end.panicked)
	}
	return d.fault(ctx, end.err)
}

// Do executes a write in the next transaction of the writer, and waits until it is
// durable or refused. A write that changes nothing before it can fail needs no
// savepoint.
func (d *DB) Do(write Write, savepoint bool) error { return d.writer.do(write, savepoint) }

type stats struct {
	writes, commits, syncs, bytes, wal, statements atomic.Int64
}

func (s *stats) read() db.Stats {
	return db.Stats{Writes: s.writes.Load(), Commits: s.commits.Load(), Syncs: s.syncs.Load(),
		Bytes: s.bytes.Load(), WALBytes: s.wal.Load(), Statements: s.statements.Load()}
}
