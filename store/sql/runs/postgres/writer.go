package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// writer writes all pending writes in one transaction. Writes that arrive while a
// transaction is under way go into the next one. Only when a transaction takes long,
// for example because it waits for a lock, a second writer works beside it.
//
// A transaction costs the server, and so every other worker, about as much as ten
// writes in it. So a batch waits for the runs that are expected to write next:
// those whose last write was just answered. It never waits longer than a recent
// transaction took. A single run never waits: when it writes, no other run is
// expected.
type writer struct {
	db      *postgres.DB
	mu      sync.Mutex
	ready   sync.Cond
	pending []*write
	conns   []*pgconn.PgConn // idle connections
	closed  bool

	committing  []time.Time   // start times of the transactions under way, the oldest first
	expected    int           // runs that go on and whose last write was answered
	answered    time.Time     // when the newest of these writes was answered
	averageTime time.Duration // moving average of a transaction's time
	deadline    time.Time     // the first pending write waits until then at most
	timer       *time.Timer   // wakes a writer at the deadline
}

const (
	writers            = 2 // the second connects when the first waits long
	maxBatch           = 512
	maxSingleSaves     = 2                     // up to this many saves, each has its own statement
	fullBatch          = 32                    // a batch of this size waits for no other run
	minLongTransaction = 20 * time.Millisecond // after at least this time of a transaction, the second writer works beside it
)

// maxWait is how long a write waits at most for writes of other runs.
func (w *writer) maxWait() time.Duration {
	return min(max(w.averageTime, 200*time.Microsecond), 10*time.Millisecond)
}

// longTransaction is how long a transaction may take before the second writer works
// beside it. On a busy machine all transactions take longer.
func (w *writer) longTransaction() time.Duration {
	return min(max(4*w.averageTime, minLongTransaction), 10*minLongTransaction)
}

// runsLongerThan reports a transaction that has been under way for at least this long.
func (w *writer) runsLongerThan(long time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.committing) > 0 && time.Since(w.committing[0]) >= long
}

// waitsForMore reports that the pending writes still wait for writes of other runs.
func (w *writer) waitsForMore(now time.Time) bool {
	switch {
	case w.closed:
		return false
	case len(w.committing) > 0:
		return now.Sub(w.committing[0]) < w.longTransaction()
	case len(w.pending) >= fullBatch || !now.Before(w.deadline):
		return false
	}
	return w.expected > 0 && now.Sub(w.answered) < w.maxWait()
}

// setDeadline sets the deadline of the pending writes and the timer that wakes a writer.
func (w *writer) setDeadline(now time.Time) {
	w.deadline = now.Add(w.maxWait() / 2)
	delay := w.deadline.Sub(now)
	if len(w.committing) > 0 {
		delay = w.committing[0].Add(w.longTransaction()).Sub(now)
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(delay, w.ready.Signal)
	} else {
		w.timer.Reset(delay)
	}
}

// transactionEnded records the end of a transaction before its writes are answered.
// began is the time that next returned.
func (w *writer) transactionEnded(batch []*write, began time.Time, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committing = slices.DeleteFunc(w.committing, began.Equal)
	w.averageTime += (took - w.averageTime) / 8
	now := time.Now()
	if now.Sub(w.answered) >= w.maxWait() { // the runs expected so far are busy with something else
		w.expected = 0
	}
	for _, op := range batch {
		if op.owner != 0 && (op.create != nil || op.phase == runningNumber) {
			w.expected++
		}
	}
	w.answered = now
	if len(w.pending) > 0 {
		if w.setDeadline(now); !w.waitsForMore(now) {
			w.ready.Signal()
		}
	}
}

var runningNumber = codec.PhaseNumber(runtype.Running)

// write is one Create or Save, encoded by its caller.
type write struct {
	runs.Encoded
	create *runs.NewRun // nil: a save

	k, rev, epoch, owner, next, ended, mail int64
	phase                                   int64
	consumed                                []string
	outgoing                                []runstore.Mail
	pin                                     *pin    // of a save that moves the run to another definition
	fault                                   *string // the new value of the column; "": NULL. nil: it stays
	freesSubject                            bool    // the save ends a run, so that the next run of the subject may begin
	subject                                 string
	freesLimits                             string // id of a limited run that the save ends

	done chan result // has a buffer of one
}

type pin struct {
	version int64
	hash    string
}

// result is the answer to one write.
type result struct {
	err     error
	applied bool  // false without err: a save lost its compare-and-swap, or the id or subject of a create was taken
	mail    int64 // of a save
	k       int64 // of a create
	owned   bool  // the created run has the requested owner
	next    int64
}

var errWriterClosed = errors.New("the store is closed")

func newWriter(on *postgres.DB) *writer {
	w := &writer{db: on}
	w.ready.L = &w.mu
	return w
}

// do queues a write and waits for its answer. If the context ends first, the write may
// or may not happen.
func (w *writer) do(ctx context.Context, op *write) (result, error) {
	if err := ctx.Err(); err != nil {
		return result{}, err
	}
	op.done = make(chan result, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return result{}, runstore.StoreUnavailable.Errorf("%w", errWriterClosed)
	}
	w.pending = append(w.pending, op)
	w.expected = max(0, w.expected-1)
	now := time.Now()
	if len(w.pending) == 1 {
		w.setDeadline(now)
	}
	if !w.waitsForMore(now) {
		w.ready.Signal()
	}
	w.mu.Unlock()
	select {
	case r := <-op.done:
		return r, r.err
	case <-ctx.Done():
		return result{}, ctx.Err()
	}
}

func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.ready.Broadcast()
}

// next waits for writes and takes those of one transaction, which begins now. If a run
// has two pending writes, the second stays for the next transaction. False: the writer
// is closed and has no pending writes.
func (w *writer) next(batch []*write) ([]*write, time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) == 0 || w.waitsForMore(time.Now()) {
		if w.closed {
			return nil, time.Time{}, false
		}
		w.ready.Wait()
	}
	if !time.Now().Before(w.deadline) { // the expected runs are busy with something else
		w.expected = 0
	}
	now := time.Now()
	w.committing = append(w.committing, now)
	batch = append(batch[:0], w.pending[:min(len(w.pending), maxBatch)]...)
	w.pending = append(w.pending[:0], w.pending[len(batch):]...)
	slices.SortStableFunc(batch, func(a, b *write) int { return cmp.Compare(a.k, b.k) })
	same := func(a, b *write) bool { return a.k == b.k && a.create == nil && b.create == nil }
	for i := 1; i < len(batch); i++ {
		if same(batch[i-1], batch[i]) {
			w.pending = append(w.pending, batch[i])
			batch = slices.Delete(batch, i, i+1)
			i--
		}
	}
	if len(w.pending) > 0 {
		w.setDeadline(now)
	}
	return batch, now, true
}

// serve runs one writer.
func (w *writer) serve() {
	defer func() {
		for c := w.takeConn(); c != nil; c = w.takeConn() {
			w.closeConn(c)
		}
	}()
	var batch []*write
	for {
		var taken time.Time
		var open bool
		if batch, taken, open = w.next(batch); !open {
			return
		}
		c := w.takeConn()
		if c == nil {
			var err error
			if c, err = w.connect(); err != nil {
				w.transactionEnded(nil, taken, 0)
				answer(batch, result{err: postgres.Fault(err)})
				continue
			}
		}
		began := time.Now()
		w.write(c, batch, func() {
			w.putConn(c)
			w.transactionEnded(batch, taken, time.Since(began))
		})
	}
}

// takeConn takes the connection that was used last, so that a second one is opened only
// while two transactions are under way; nil: there is none.
func (w *writer) takeConn() *pgconn.PgConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := len(w.conns); n > 0; n = len(w.conns) {
		c := w.conns[n-1]
		if w.conns = w.conns[:n-1]; !c.IsClosed() {
			return c
		}
	}
	return nil
}

func (w *writer) putConn(c *pgconn.PgConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
}

func (w *writer) closeConn(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

func (w *writer) connect() (*pgconn.PgConn, error) {
	return w.db.Connect(statements)
}

func answer(batch []*write, r result) {
	for _, op := range batch {
		op.done <- r
	}
}

// write commits a batch. If the server refuses the whole batch, write tries each write
// alone, so that one cannot harm the others. It calls ended before it answers the
// writes, or, after single tries, behind them.
func (w *writer) write(c *pgconn.PgConn, batch []*write, ended func()) {
	results, err := w.commit(c, batch)
	switch {
	case err == nil:
		ended()
		for i, op := range batch {
			op.done <- results[i]
		}
	case postgres.IsRefused(err) && len(batch) > 1 && !c.IsClosed():
		for i := range batch {
			w.write(c, batch[i:i+1], func() {})
		}
		ended()
	default:
		ended()
		answer(batch, result{err: postgres.Fault(err)})
	}
}
