package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"zombiezen.com/go/sqlite"
)

// Writer is the only goroutine that writes. It writes all pending writes in one
// transaction; while it commits, the next batch collects. It does not wait for more
// writes, but it yields before each batch: a caller whose write just became durable
// often has the next one.
//
// A write that changes nothing before it can fail, and whose later statements can fail
// only with the whole transaction, needs no savepoint: see Partial. Every other write has
// its own savepoint.
type Writer struct {
	Conn *sqlite.Conn
	// Counters are the numbers that Options.Counters query. A write may raise them. Other processes may
	// write too: then the version of the data differs, and the writer queries them again.
	Counters []int64

	db       *DB
	begin    *sqlite.Stmt
	commit   *sqlite.Stmt
	version  *sqlite.Stmt
	counters []string

	mu      sync.Mutex
	wake    *sync.Cond
	pending []*pending
	closed  bool

	dataVersion int64
	size        int64 // bytes bound in this batch
	count       int64 // statements of this batch
	log         logFile
}

// Write is one durable change.
type Write interface {
	// Execute makes the change. Its error undoes it.
	Execute(w *Writer) error
	// Durable is called when the change is durable.
	Durable()
}

// Func is a Write of functions.
type Func struct {
	Run   func(*Writer) error
	After func() // may be nil
}

// Execute implements Write.
func (f Func) Execute(w *Writer) error { return f.Run(w) }

// Durable implements Write.
func (f Func) Durable() {
	if f.After != nil {
		f.After()
	}
}

// pending is a write that waits for its commit.
type pending struct {
	Write
	savepoint bool
	err       error
	done      chan struct{}
}

const maxBatch = 1024 // writes of one transaction

func newWriter(d *DB, conn *sqlite.Conn, counters []string) (*Writer, error) {
	w := &Writer{db: d, Conn: conn, Counters: make([]int64, len(counters)), counters: counters, dataVersion: -1}
	w.wake = sync.NewCond(&w.mu)
	for sql, to := range map[string]**sqlite.Stmt{"BEGIN IMMEDIATE": &w.begin, "COMMIT": &w.commit, "PRAGMA data_version": &w.version} {
		stmt, err := conn.Prepare(sql)
		if err != nil {
			return nil, err
		}
		*to = stmt
	}
	w.log.open(d.path, d.owner)
	return w, nil
}

var donePool = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// do queues a write and waits until it is durable or refused.
func (w *Writer) do(write Write, savepoint bool) error {
	if broken := w.db.broken.Load(); broken != nil {
		return broken
	}
	op := &pending{Write: write, savepoint: savepoint, done: donePool.Get().(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.pending = append(w.pending, op)
	if len(w.pending) == 1 {
		w.wake.Signal()
	}
	w.mu.Unlock()
	<-op.done
	donePool.Put(op.done)
	return op.err
}

func (w *Writer) close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Signal()
	w.mu.Unlock()
}

func (w *Writer) closeFiles() {
	w.Conn.Close()
	w.log.close()
}

func (w *Writer) serve() {
	var batch []*pending
	for {
		runtime.Gosched()
		w.mu.Lock()
		for len(w.pending) == 0 && !w.closed {
			w.wake.Wait()
		}
		if len(w.pending) == 0 {
			w.mu.Unlock()
			return
		}
		n := min(len(w.pending), maxBatch)
		batch = append(batch[:0], w.pending[:n]...)
		rest := copy(w.pending, w.pending[n:])
		clear(w.pending[rest:])
		w.pending = w.pending[:rest]
		w.mu.Unlock()

		err := w.transaction(batch)
		for _, op := range batch {
			if err != nil {
				op.err = err
			}
			if op.err == nil {
				op.Durable()
			}
			op.done <- struct{}{}
		}
		clear(batch)
	}
}

// transaction executes a batch. It returns the error of the whole batch; the error of a
// single write is in its err.
func (w *Writer) transaction(batch []*pending) (err error) {
	w.size, w.count = 0, 0
	defer func() {
		if err != nil {
			w.dataVersion = -1
			if !w.Conn.AutocommitEnabled() {
				_ = Execute(w.Conn, "ROLLBACK")
			}
			err = w.db.fault(context.Background(), err)
		}
	}()
	if err := w.Step(w.begin); err != nil {
		return err
	}
	w.log.lengthen()
	if err := w.refreshCounters(); err != nil {
		return err
	}
	for _, op := range batch {
		if op.savepoint {
			op.err = w.Guarded(func() error { return op.Execute(w) })
		} else {
			op.err = op.Execute(w)
		}
		if op.err != nil && (isFatal(op.err) || w.Conn.AutocommitEnabled()) {
			return op.err
		}
	}
	if err := w.Step(w.commit); err != nil {
		return err
	}
	w.addStats(len(batch))
	return nil
}

// Guarded runs fn in a savepoint.
func (w *Writer) Guarded(fn func() error) error {
	if err := Execute(w.Conn, "SAVEPOINT one"); err != nil {
		return err
	}
	var before [4]int64
	copy(before[:], w.Counters)
	err := fn()
	if err != nil {
		if isFatal(err) || w.Conn.AutocommitEnabled() {
			return err
		}
		copy(w.Counters, before[:])
		if back := Execute(w.Conn, "ROLLBACK TO one"); back != nil {
			return errors.Join(err, back)
		}
	}
	if end := Execute(w.Conn, "RELEASE one"); end != nil {
		return end
	}
	return err
}

// refreshCounters reads the counters again if another process has written.
func (w *Writer) refreshCounters() error {
	_, err := w.version.Step()
	version := w.version.ColumnInt64(0)
	if e := w.version.Reset(); err == nil {
		err = e
	}
	if err != nil || version == w.dataVersion {
		return err
	}
	for i, sql := range w.counters {
		err := Query(w.Conn, sql, func(row *sqlite.Stmt) error { w.Counters[i] = row.ColumnInt64(0); return nil })
		if err != nil {
			return err
		}
	}
	w.dataVersion = version
	return nil
}

// Step executes a prepared statement that returns no rows.
func (w *Writer) Step(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	if end := stmt.Reset(); err == nil {
		err = end
	}
	w.count++
	return err
}

// Count counts bytes that the caller has bound to a prepared statement.
func (w *Writer) Count(bytes int) { w.size += int64(bytes) }

// Exec runs a statement that returns no rows, and counts the bytes it binds.
func (w *Writer) Exec(sql string, params ...any) error {
	stmt, err := w.Conn.Prepare(sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	w.size += int64(bind(stmt, params))
	return w.Step(stmt)
}

// addStats adds a committed batch to the statistics. The index of the log shows how many
// pages were written: it holds the number of frames, and a smaller number than before
// means that the log was restarted.
func (w *Writer) addStats(writes int) {
	stats := &w.db.stats
	stats.writes.Add(int64(writes))
	stats.commits.Add(1)
	stats.syncs.Add(1)
	stats.bytes.Add(w.size)
	stats.statements.Add(w.count)
	pages, again := w.log.countNewPages()
	if again {
		stats.syncs.Add(2)
	}
	stats.wal.Add(pages * logPage)
}
