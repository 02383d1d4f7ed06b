package sql

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/workflow"
)

// sqWriter is the only goroutine that writes. It writes all pending writes in one
// transaction; while it commits, the next batch collects. It does not wait for more
// writes, but it yields before each batch: a caller whose write just became durable
// often has the next one.
//
// A save whose first statement, the guarded update, matches no row has changed
// nothing, and its later statements can fail only with the whole transaction. So it
// needs no savepoint. Neither does a create, or a save without mail and consumed
// signals. Every other write has its own savepoint.
type sqWriter struct {
	store   *SQLite
	conn    *sqlite.Conn
	update  *sqlite.Stmt
	event   *sqlite.Stmt
	begin   *sqlite.Stmt
	commit  *sqlite.Stmt
	version *sqlite.Stmt

	mu      sync.Mutex
	wake    *sync.Cond
	pending []*sqWrite
	closed  bool

	// The numbers of the newest rows. Other processes may write too: then the version of the data differs,
	// and the writer reads the numbers again.
	dataVersion      int64
	lastRun, lastRow int64
	size             int64 // bytes bound in this batch
	count            int64 // statements of this batch
	log              sqLog
}

// sqWrite is one call that waits for its commit.
type sqWrite struct {
	save        *sqSave               // a save, or
	run         func(*sqWriter) error // any other write
	noSavepoint bool                  // run changes nothing before it can fail, so it needs no savepoint
	after       func()                // called when the write is durable
	err         error
	done        chan struct{}
}

var errClosed = workflow.StoreUnavailable.Errorf("the store is closed")

const maxBatch = 1024 // writes of one transaction

func newSQWriter(s *SQLite, conn *sqlite.Conn) (*sqWriter, error) {
	w := &sqWriter{store: s, conn: conn, dataVersion: -1}
	w.wake = sync.NewCond(&w.mu)
	for sql, to := range map[string]**sqlite.Stmt{
		sqlUpdate: &w.update, sqlEvent: &w.event, "BEGIN IMMEDIATE": &w.begin, "COMMIT": &w.commit, "PRAGMA data_version": &w.version,
	} {
		stmt, err := conn.Prepare(sql)
		if err != nil {
			return nil, err
		}
		*to = stmt
	}
	w.log.open(s.path, s.owner)
	return w, nil
}

var donePool = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// do queues a write and waits until it is durable or refused.
func (w *sqWriter) do(op *sqWrite) error {
	if broken := w.store.broken.Load(); broken != nil {
		return broken
	}
	op.done = donePool.Get().(chan struct{})
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed
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

func (w *sqWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Signal()
	w.mu.Unlock()
}

func (w *sqWriter) closeFiles() {
	w.conn.Close()
	w.log.close()
}

func (w *sqWriter) serve() {
	var batch []*sqWrite
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
				switch {
				case op.save != nil:
					op.save.durable(w.store)
				case op.after != nil:
					op.after()
				}
			}
			op.done <- struct{}{}
		}
		clear(batch)
	}
}

// transaction executes a batch. It returns the error of the whole batch; the error of a
// single write is in its err.
func (w *sqWriter) transaction(batch []*sqWrite) (err error) {
	w.size, w.count = 0, 0
	defer func() {
		if err != nil {
			w.dataVersion = -1
			if !w.conn.AutocommitEnabled() {
				_ = execute(w.conn, "ROLLBACK")
			}
			err = w.store.fault(noContext, err)
		}
	}()
	if err := w.step(w.begin); err != nil {
		return err
	}
	w.log.lengthen()
	if err := w.refreshNumbers(); err != nil {
		return err
	}
	for _, op := range batch {
		switch {
		case op.save != nil:
			op.err = op.save.execute(w)
		case op.noSavepoint:
			op.err = op.run(w)
		default:
			op.err = w.guarded(func() error { return op.run(w) })
		}
		if op.err != nil && (fatal(op.err) || w.conn.AutocommitEnabled()) {
			return op.err
		}
	}
	if err := w.step(w.commit); err != nil {
		return err
	}
	w.addStats(len(batch))
	return nil
}

// guarded runs fn in a savepoint.
func (w *sqWriter) guarded(fn func() error) error {
	if err := execute(w.conn, "SAVEPOINT one"); err != nil {
		return err
	}
	lastRun, lastRow := w.lastRun, w.lastRow
	err := fn()
	if err != nil {
		if fatal(err) || w.conn.AutocommitEnabled() {
			return err
		}
		w.lastRun, w.lastRow = lastRun, lastRow
		if back := execute(w.conn, "ROLLBACK TO one"); back != nil {
			return errors.Join(err, back)
		}
	}
	if end := execute(w.conn, "RELEASE one"); end != nil {
		return end
	}
	return err
}

// refreshNumbers reads the newest numbers again if another process has written.
func (w *sqWriter) refreshNumbers() error {
	_, err := w.version.Step()
	version := w.version.ColumnInt64(0)
	if e := w.version.Reset(); err == nil {
		err = e
	}
	if err != nil || version == w.dataVersion {
		return err
	}
	for sql, to := range map[string]*int64{
		"SELECT max(coalesce((SELECT max(row) FROM run), 0), coalesce((SELECT value FROM counter WHERE name = 'run'), 0))":     &w.lastRun,
		"SELECT max(coalesce((SELECT max(row) FROM event), 0), coalesce((SELECT value FROM counter WHERE name = 'event'), 0))": &w.lastRow,
	} {
		err := query(w.conn, sql, func(row *sqlite.Stmt) error { *to = row.ColumnInt64(0); return nil })
		if err != nil {
			return err
		}
	}
	w.dataVersion = version
	return nil
}

func (w *sqWriter) step(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	if end := stmt.Reset(); err == nil {
		err = end
	}
	w.count++
	return err
}

// exec runs a statement that returns no rows, and counts the bytes it binds.
func (w *sqWriter) exec(sql string, params ...any) error {
	stmt, err := w.conn.Prepare(sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	w.size += int64(bind(stmt, params))
	return w.step(stmt)
}

// addEvent appends a row of events and settled records.
func (w *sqWriter) addEvent(run int64, data, steps []byte) error {
	w.lastRow++
	w.event.BindInt64(1, w.lastRow)
	w.event.BindInt64(2, run)
	blob(w.event, 3, data)
	blob(w.event, 4, steps)
	w.size += int64(16 + len(data) + len(steps))
	return w.step(w.event)
}

func blob(stmt *sqlite.Stmt, i int, data []byte) {
	if data == nil {
		stmt.BindNull(i)
		return
	}
	stmt.BindBytes(i, data)
}

// addStats adds a committed batch to the statistics. The index of the log shows how many
// pages were written: it holds the number of frames, and a smaller number than before
// means that the log was restarted.
func (w *sqWriter) addStats(writes int) {
	stats := &w.store.stats
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
