package sql

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

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow"
)

// SQLite stores runs in one file.
//
//	Create, Save, Send ─▶ pending ─▶ writer ─▶ one transaction for all pending writes ─▶ sync
//	Load, List, Claim  ─▶ readers
//	another process    ─▶ its own short transactions ─▶ socket beside the file ─▶ Wake
//
// The first process that opens the file owns it, by a lock file beside it. Only the
// owner claims and saves runs. Other processes are clients: they read, create and
// send.
type SQLite struct {
	path      string
	owner     bool
	lock      *os.File
	socket    net.Listener
	writer    *sqWriter
	readers   chan *sqReader
	wake      *db.Waker
	changed   db.Notifier // fires when a feed may have grown
	clusters  *clusters.Store
	encrypter *secrets.Encrypter
	claims    claimTable
	stats     sqStats
	broken    atomic.Pointer[fault.Error] // set when the file is found to be damaged

	closing sync.Once
	done    sync.WaitGroup
}

var _ Store = (*SQLite)(nil)

const (
	busyTimeout = 10 * time.Second // of a writer that waits for another process
	quickLimit  = 128 << 20        // at start, only the first page and the schema of larger files are checked
	checkpoint  = 4000             // pages in the log at which they are moved into the file
)

// OpenSQLite opens or creates the file Options.Path. See Open.
func OpenSQLite(ctx context.Context, o Options) (*SQLite, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, workflow.InputInvalid.Errorf("path %s: %w", o.Path, err)
	}
	if err := Identify(path); err != nil && !errors.Is(err, workflow.StoreUnavailable) { // SQLite reports the error if the file is unavailable
		return nil, err
	}
	encrypter, err := o.encrypter()
	if err != nil {
		return nil, err
	}
	s := &SQLite{path: path, wake: db.NewWaker(), encrypter: encrypter}
	s.clusters = clusters.New(sqBackend{s}, encrypter)
	s.claims.init()
	if !o.Client {
		if s.lock, err = lockFile(path + ".lock"); err != nil {
			return nil, sqFault(err, "lock "+path)
		}
		s.owner = s.lock != nil
	}
	_ = createFile(path) // SQLite reports the error
	if err := s.open(ctx, o); err != nil {
		s.unlock()
		return nil, err
	}
	return s, nil
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

func (s *SQLite) open(ctx context.Context, o Options) error {
	conn, err := openConn(s.path, sqlite.OpenReadWrite|sqlite.OpenCreate, -8192)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx, conn); err != nil {
		conn.Close()
		return err
	}
	if s.writer, err = newSQWriter(s, conn); err != nil {
		conn.Close()
		return sqFault(err, "open "+s.path)
	}
	n := o.Readers
	if n <= 0 {
		n = 4
	}
	s.readers = make(chan *sqReader, n)
	for range n {
		reader, err := openConn(s.path, sqlite.OpenReadOnly, -2048)
		if err != nil {
			s.closeReaders(len(s.readers))
			s.writer.closeFiles()
			return err
		}
		s.readers <- newSQReader(reader)
	}
	if s.owner {
		if err := s.loadOrphans(ctx); err != nil {
			s.closeReaders(n)
			s.writer.closeFiles()
			return err
		}
		s.listen()
	}
	s.done.Go(s.writer.serve)
	return nil
}

// prepare checks the file before the first write, and brings the schema up to date.
func (s *SQLite) prepare(ctx context.Context, conn *sqlite.Conn) error {
	if s.owner {
		if err := quickCheck(conn, s.path); err != nil {
			return err
		}
	}
	for _, pragma := range []string{
		"PRAGMA journal_mode = wal", "PRAGMA synchronous = full", "PRAGMA foreign_keys = off", "PRAGMA temp_store = memory",
		fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", checkpoint), "PRAGMA journal_size_limit = 67108864",
	} {
		if err := execute(conn, pragma); err != nil {
			return sqFault(err, pragma)
		}
	}
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		got, err := text(conn, "PRAGMA "+pragma)
		if err != nil {
			return sqFault(err, pragma)
		}
		if got != want {
			return workflow.StoreUnavailable.Errorf("%s: %s is %q and cannot be set to %q: is it on a network file system?", s.path, pragma, got, want)
		}
	}
	return migrateSQLite(ctx, conn)
}

func openConn(path string, flags sqlite.OpenFlags, cache int) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, sqFault(err, "open "+path)
	}
	conn.SetBusyTimeout(busyTimeout)
	if err := execute(conn, fmt.Sprintf("PRAGMA cache_size = %d", cache)); err != nil {
		conn.Close()
		return nil, sqFault(err, "open "+path)
	}
	return conn, nil
}

// quickCheck checks the file before the store writes to it.
func quickCheck(conn *sqlite.Conn, path string) error {
	query := "PRAGMA quick_check(1)"
	if info, err := os.Stat(path); err == nil && info.Size() > quickLimit {
		query = "SELECT 'ok' FROM (SELECT count(*) FROM sqlite_schema)"
	}
	answer, err := text(conn, query)
	if err != nil {
		return sqFault(err, "check "+path)
	}
	if answer != "ok" {
		return workflow.StoreCorrupt.Errorf("%s: %s", path, answer)
	}
	return nil
}

func migrateSQLite(ctx context.Context, conn *sqlite.Conn) (err error) {
	if err := execute(conn, "BEGIN IMMEDIATE"); err != nil {
		return sqFault(err, "migrate")
	}
	defer func() {
		if err != nil {
			_ = execute(conn, "ROLLBACK")
			err = sqFault(err, "migrate")
		}
	}()
	// A database that is up to date must not be written to.
	var done []db.Applied
	if known, err := text(conn, "SELECT count(*) FROM sqlite_schema WHERE name = 'migration'"); err != nil {
		return err
	} else if known == "0" {
		if err := execute(conn, db.MigrationTable); err != nil {
			return err
		}
	}
	err = query(conn, "SELECT number, checksum FROM migration ORDER BY number", func(row *sqlite.Stmt) error {
		done = append(done, db.Applied{Number: row.ColumnInt(0), Checksum: row.ColumnText(1)})
		return nil
	})
	if err != nil {
		return err
	}
	todo, err := db.Missing(db.Migrations("sqlite"), done)
	if err != nil {
		return err
	}
	for _, m := range todo {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := script(conn, m.SQL); err != nil {
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
		if m.Name == db.LabelMigration {
			if err := sqliteLabels(conn); err != nil {
				return fmt.Errorf("migration %s: %w", m.Name, err)
			}
		}
		if err := execute(conn, "INSERT INTO migration (number, name, checksum, at) VALUES (?, ?, ?, ?)",
			m.Number, m.Name, m.Checksum, time.Now().UnixNano()); err != nil {
			return err
		}
	}
	return execute(conn, "COMMIT")
}

// IsOwner reports whether this process owns the file.
func (s *SQLite) IsOwner() bool { return s.owner }

// Stats counts what was written since Open.
func (s *SQLite) Stats() db.Stats { return s.stats.read() }

// Wake carries the ids of runs that may be due. See workflow.Claimer.
func (s *SQLite) Wake() <-chan string { return s.wake.C }

// Close waits for the writes under way and closes the file.
func (s *SQLite) Close() error {
	s.closing.Do(func() {
		if s.socket != nil {
			s.socket.Close()
		}
		s.writer.close()
		s.done.Wait()
		s.closeReaders(cap(s.readers))
		close(s.readers) // later reads receive nil and fail
		s.writer.closeFiles()
		s.unlock()
	})
	return nil
}

func (s *SQLite) closeReaders(n int) {
	for range n {
		(<-s.readers).close()
	}
}

func (s *SQLite) unlock() {
	if s.lock != nil {
		s.lock.Close()
	}
}

// read runs fn in one read transaction.
func (s *SQLite) read(ctx context.Context, fn func(*sqlite.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var reader *sqReader
	select {
	case reader = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	if reader == nil {
		return errClosed
	}
	end := reader.read(ctx, fn)
	s.readers <- reader
	if end.panicked != nil {
		panic(end.panicked)
	}
	return s.fault(ctx, end.err)
}

// write runs fn in the next transaction of the writer.
func (s *SQLite) write(ctx context.Context, fn func(*sqlite.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.writer.do(&sqWrite{run: func(w *sqWriter) error { return fn(w.conn) }})
}

// fault turns an error of the database into a fault. After damage, the store refuses all
// writes.
func (s *SQLite) fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultInterrupt {
		return ctx.Err()
	}
	err = sqFault(err, filepath.Base(s.path))
	if damaged, ok := errors.AsType[*fault.Error](err); ok && damaged.Kind == workflow.StoreCorrupt && fatal(err) {
		s.broken.CompareAndSwap(nil, damaged)
	}
	return err
}

// sqFault maps SQLite's result codes to faults. Other errors stay as they are.
func sqFault(err error, what string) error {
	if err == nil || fault.Of(err) != fault.Unknown {
		return err
	}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultOK, sqlite.ResultError, sqlite.ResultConstraint, sqlite.ResultMisuse, sqlite.ResultRange:
		if errors.Is(err, os.ErrPermission) {
			return workflow.StoreFull.Errorf("%s: %w", what, err)
		}
		return err
	case sqlite.ResultFull, sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultAuth:
		return workflow.StoreFull.Errorf("%s: %w", what, err)
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		return workflow.StoreCorrupt.Errorf("%s: %w", what, err)
	default: // busy, locked, I/O, cannot open, out of memory
		return workflow.StoreUnavailable.Errorf("%s: %w", what, err)
	}
}

// partialWriteError is the error of a write without a savepoint after its first change.
type partialWriteError struct{ error }

func (e partialWriteError) Unwrap() error { return e.error }

func partialWrite(err error) error {
	if err == nil {
		return nil
	}
	return partialWriteError{err}
}

// fatal reports an error after which the transaction must be rolled back.
func fatal(err error) bool {
	if errors.As(err, new(partialWriteError)) {
		return true
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultOK, sqlite.ResultConstraint, sqlite.ResultError:
		return false
	}
	return true
}

type sqStats struct {
	writes, commits, syncs, bytes, wal, statements atomic.Int64
}

func (s *sqStats) read() db.Stats {
	return db.Stats{Writes: s.writes.Load(), Commits: s.commits.Load(), Syncs: s.syncs.Load(),
		Bytes: s.bytes.Load(), WALBytes: s.wal.Load(), Statements: s.statements.Load()}
}
