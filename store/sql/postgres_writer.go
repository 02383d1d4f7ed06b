package sql

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/workflow"
)

// pgWriter writes all pending writes in one transaction. Writes that arrive while a
// transaction is under way go into the next one. Only when a transaction takes long,
// for example because it waits for a lock, a second writer works beside it.
//
// A transaction costs the server, and so every other worker, about as much as ten
// writes in it. So a batch waits for the runs that are expected to write next:
// those whose last write was just answered. It never waits longer than a recent
// transaction took. A single run never waits: when it writes, no other run is
// expected.
type pgWriter struct {
	p       *Postgres
	mu      sync.Mutex
	ready   sync.Cond
	pending []*pgWrite
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
	fullBatch          = 32                    // a batch of this size waits for no other run
	minLongTransaction = 20 * time.Millisecond // after at least this time of a transaction, the second writer works beside it
)

// maxWait is how long a write waits at most for writes of other runs.
func (w *pgWriter) maxWait() time.Duration {
	return min(max(w.averageTime, 200*time.Microsecond), 10*time.Millisecond)
}

// longTransaction is how long a transaction may take before the second writer works
// beside it. On a busy machine all transactions take longer.
func (w *pgWriter) longTransaction() time.Duration {
	return min(max(4*w.averageTime, minLongTransaction), 10*minLongTransaction)
}

// runsLongerThan reports a transaction that has been under way for at least this long.
func (w *pgWriter) runsLongerThan(long time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.committing) > 0 && time.Since(w.committing[0]) >= long
}

// waitsForMore reports that the pending writes still wait for writes of other runs.
func (w *pgWriter) waitsForMore(now time.Time) bool {
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
func (w *pgWriter) setDeadline(now time.Time) {
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
func (w *pgWriter) transactionEnded(batch []*pgWrite, began time.Time, took time.Duration) {
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

var runningNumber = codec.PhaseNumber(workflow.Running)

// pgWrite is one Create or Save, encoded by its caller.
type pgWrite struct {
	create *pgCreate // nil: a save

	k, rev, epoch, owner, next, ended, mail, seq int64
	phase                                        int64
	body, events, steps                          []byte
	consumed                                     []string
	outgoing                                     []workflow.Mail
	pin                                          *pgPin // of a save that moves the run to another definition
	freesSubject                                 bool   // the save ends a run, so that the next run of the subject may begin
	subject                                      string

	done chan pgResult // has a buffer of one
}

type pgPin struct {
	version int64
	hash    string
}

type pgCreate struct {
	run   *workflow.Run // read only
	birth []byte
	input []byte
}

// pgResult is the answer to one write.
type pgResult struct {
	err     error
	applied bool  // false without err: a save lost its compare-and-swap, or the id or subject of a create was taken
	mail    int64 // of a save
	k       int64 // of a create
	owned   bool  // the created run has the requested owner
	next    int64
}

var errWriterClosed = errors.New("the store is closed")

func newPGWriter(p *Postgres) *pgWriter {
	w := &pgWriter{p: p}
	w.ready.L = &w.mu
	return w
}

// do queues a write and waits for its answer. If the context ends first, the write may
// or may not happen.
func (w *pgWriter) do(ctx context.Context, op *pgWrite) (pgResult, error) {
	if err := ctx.Err(); err != nil {
		return pgResult{}, err
	}
	op.done = make(chan pgResult, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return pgResult{}, workflow.StoreUnavailable.Errorf("%w", errWriterClosed)
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
		return pgResult{}, ctx.Err()
	}
}

func (w *pgWriter) close() {
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
func (w *pgWriter) next(batch []*pgWrite) ([]*pgWrite, time.Time, bool) {
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
	batch = append(batch[:0], w.pending[:min(len(w.pending), pgBatch)]...)
	w.pending = append(w.pending[:0], w.pending[len(batch):]...)
	slices.SortStableFunc(batch, func(a, b *pgWrite) int { return cmp.Compare(a.k, b.k) })
	same := func(a, b *pgWrite) bool { return a.k == b.k && a.create == nil && b.create == nil }
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
func (w *pgWriter) serve() {
	defer func() {
		for c := w.takeConn(); c != nil; c = w.takeConn() {
			w.closeConn(c)
		}
	}()
	var batch []*pgWrite
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
				answer(batch, pgResult{err: postgres.Fault(err)})
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
func (w *pgWriter) takeConn() *pgconn.PgConn {
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

func (w *pgWriter) putConn(c *pgconn.PgConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
}

func (w *pgWriter) closeConn(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

func (w *pgWriter) connect() (*pgconn.PgConn, error) {
	return w.p.Connect(pgStatements)
}

func answer(batch []*pgWrite, r pgResult) {
	for _, op := range batch {
		op.done <- r
	}
}

// write commits a batch. If the server refuses the whole batch, write tries each write
// alone, so that one cannot harm the others. It calls ended before it answers the
// writes, or, after single tries, behind them.
func (w *pgWriter) write(c *pgconn.PgConn, batch []*pgWrite, ended func()) {
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
		answer(batch, pgResult{err: postgres.Fault(err)})
	}
}

// commit executes the batch as one pipelined transaction.
func (w *pgWriter) commit(c *pgconn.PgConn, batch []*pgWrite) ([]pgResult, error) {
	ctx, cancel := context.WithTimeout(w.p.Context(), time.Minute)
	defer cancel()
	results := make([]pgResult, len(batch))
	var pipe pgPipe
	pipe.creates(batch, results)
	pipe.saves(batch, results)
	var promoted []string
	pipe.promote(batch, &promoted)
	pipe.notify(batch)

	reader := c.ExecBatch(ctx, &pipe.batch)
	for i := 0; reader.NextResult(); i++ {
		rr := reader.ResultReader()
		for rr.NextRow() {
			if read := pipe.readers[i]; read != nil {
				read(rr.Values())
			}
		}
		if _, err := rr.Close(); err != nil {
			_ = reader.Close()
			return nil, err
		}
	}
	if err := reader.Close(); err != nil {
		return nil, err
	}
	var size int64
	for _, op := range batch {
		size += op.size()
	}
	w.p.CountCommit(len(batch), len(pipe.readers), size)
	for _, id := range promoted {
		w.p.Waker.Notify(id)
	}
	return results, nil
}

// size is the number of bytes that a write sends to the database; a number counts 8.
func (op *pgWrite) size() int64 {
	n := 9*8 + len(op.body) + len(op.events) + len(op.steps)
	if c := op.create; c != nil {
		n += len(c.run.ID) + len(c.run.Flow) + len(c.run.Hash) + len(c.run.Subject) + len(c.run.Parent) + len(c.birth) + len(c.input)
	}
	return int64(n)
}

// pgPipe collects the statements of a batch and the functions that read their rows.
type pgPipe struct {
	batch   pgconn.Batch
	readers []func(row [][]byte)
}

var binaryFormat = []int16{1}

func (p *pgPipe) add(name string, read func([][]byte), params ...[]byte) {
	p.batch.ExecPrepared(name, params, binaryFormat, binaryFormat)
	p.readers = append(p.readers, read)
}

func (p *pgPipe) creates(batch []*pgWrite, results []pgResult) {
	var ops []*pgWrite
	at := map[string]int{}
	for i, op := range batch {
		if op.create == nil {
			continue
		}
		id := op.create.run.ID
		if _, twice := at[id]; twice {
			continue // not applied: its caller finds the first one
		}
		at[id] = i
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return
	}
	text := func(get func(*workflow.Run) string) []byte {
		return textArray(ops, func(op *pgWrite) string { return get(op.create.run) })
	}
	p.add("create", func(row [][]byte) {
		results[at[string(row[0])]] = pgResult{applied: true, k: int8Value(row[1]), owned: row[2][0] != 0, next: int8Value(row[3])}
	},
		text(func(r *workflow.Run) string { return r.ID }),
		text(func(r *workflow.Run) string { return r.Flow }),
		int8Array(ops, func(op *pgWrite) int64 { return int64(op.create.run.Version) }),
		text(func(r *workflow.Run) string { return r.Hash }),
		text(func(r *workflow.Run) string { return r.Subject }),
		text(func(r *workflow.Run) string { return r.Parent }),
		int8Array(ops, func(op *pgWrite) int64 {
			if op.create.run.Inline {
				return 1
			}
			return 0
		}),
		byteaArray(ops, func(op *pgWrite) []byte { return op.create.birth }),
		int8Array(ops, func(op *pgWrite) int64 { return db.Nanos(op.create.run.CreatedAt) }),
		int8Array(ops, func(op *pgWrite) int64 { return op.epoch }),
		int8Array(ops, func(op *pgWrite) int64 { return op.owner }),
		int8Array(ops, func(op *pgWrite) int64 { return op.next }),
		byteaArray(ops, func(op *pgWrite) []byte { return op.body }),
		int8Array(ops, func(op *pgWrite) int64 { return op.seq }),
		byteaArray(ops, func(op *pgWrite) []byte { return op.events }),
		byteaArray(ops, func(op *pgWrite) []byte { return op.steps }),
		byteaArray(ops, func(op *pgWrite) []byte { return op.create.input }),
	)
	var labels []labelRow
	for _, op := range ops {
		labels = append(labels, labelRows(op.create.run.ID, op.create.run.Labels)...)
	}
	if len(labels) > 0 {
		p.add("label", nil,
			textArray(labels, func(l labelRow) string { return l.run }),
			textArray(labels, func(l labelRow) string { return l.key }),
			textArray(labels, func(l labelRow) string { return l.value }))
	}
}

func (p *pgPipe) saves(batch []*pgWrite, results []pgResult) {
	type consumedSignal struct {
		op *pgWrite
		id string
	}
	type outgoingMail struct {
		op *pgWrite
		workflow.Mail
	}
	var ops []*pgWrite
	var at []int
	var taken []consumedSignal
	var posts []outgoingMail
	for i, op := range batch {
		if op.create != nil {
			continue
		}
		ops, at = append(ops, op), append(at, i)
		for _, id := range op.consumed {
			taken = append(taken, consumedSignal{op, id})
		}
		for _, m := range op.outgoing {
			posts = append(posts, outgoingMail{op, m})
		}
	}
	if len(ops) == 0 {
		return
	}
	read := func(row [][]byte) {
		if i, ok := slices.BinarySearchFunc(ops, int8Value(row[0]), func(op *pgWrite, k int64) int { return cmp.Compare(op.k, k) }); ok {
			results[at[i]] = pgResult{applied: true, mail: int8Value(row[1])}
		}
	}
	if len(ops) <= maxSingleSaves {
		for _, op := range ops {
			p.add("one", read, int8Param(op.k), int8Param(op.rev), int8Param(op.epoch), int8Param(op.phase), int8Param(op.owner), int8Param(op.next),
				int8Param(op.ended), int8Param(op.mail), int8Param(op.seq), op.body, op.events, op.steps)
		}
	} else {
		p.saveAll(ops, read)
	}
	if pinned := slices.DeleteFunc(slices.Clone(ops), func(op *pgWrite) bool { return op.pin == nil }); len(pinned) > 0 {
		p.add("pin", nil,
			int8Array(pinned, func(op *pgWrite) int64 { return op.k }),
			int8Array(pinned, func(op *pgWrite) int64 { return op.rev }),
			int8Array(pinned, func(op *pgWrite) int64 { return op.pin.version }),
			textArray(pinned, func(op *pgWrite) string { return op.pin.hash }))
	}
	if len(taken) > 0 {
		p.add("take", nil,
			int8Array(taken, func(t consumedSignal) int64 { return t.op.k }),
			int8Array(taken, func(t consumedSignal) int64 { return t.op.rev }),
			textArray(taken, func(t consumedSignal) string { return t.id }))
	}
	if len(posts) > 0 {
		p.add("mail", nil,
			int8Array(posts, func(m outgoingMail) int64 { return m.op.k }),
			int8Array(posts, func(m outgoingMail) int64 { return m.op.rev }),
			textArray(posts, func(m outgoingMail) string { return m.To }),
			textArray(posts, func(m outgoingMail) string { return m.Signal.ID }),
			byteaArray(posts, func(m outgoingMail) []byte { return codec.AppendSignal(nil, &m.Signal) }),
			int8Param(workflow.MaxSignalIDs))
	}
}

// saveAll adds the statement of a larger batch.
func (p *pgPipe) saveAll(ops []*pgWrite, read func([][]byte)) {
	number := func(get func(*pgWrite) int64) []byte { return int8Array(ops, get) }
	p.add("save", read,
		number(func(op *pgWrite) int64 { return op.k }),
		number(func(op *pgWrite) int64 { return op.rev }),
		number(func(op *pgWrite) int64 { return op.epoch }),
		number(func(op *pgWrite) int64 { return op.phase }),
		number(func(op *pgWrite) int64 { return op.owner }),
		number(func(op *pgWrite) int64 { return op.next }),
		number(func(op *pgWrite) int64 { return op.ended }),
		number(func(op *pgWrite) int64 { return op.mail }),
		number(func(op *pgWrite) int64 { return op.seq }),
		byteaArray(ops, func(op *pgWrite) []byte { return op.body }),
		byteaArray(ops, func(op *pgWrite) []byte { return op.events }),
		byteaArray(ops, func(op *pgWrite) []byte { return op.steps }),
	)
}

func (p *pgPipe) promote(batch []*pgWrite, promoted *[]string) {
	var subjects []string
	for _, op := range batch {
		if op.freesSubject {
			subjects = append(subjects, op.subject)
		}
	}
	if len(subjects) == 0 {
		return
	}
	slices.Sort(subjects)
	list := textArray(slices.Compact(subjects), func(s string) string { return s })
	for range 2 {
		p.add("promote", func(row [][]byte) { *promoted = append(*promoted, string(row[0])) }, list)
	}
}

// notify tells other processes that new runs without an owner exist, for any worker to
// claim.
func (p *pgPipe) notify(batch []*pgWrite) {
	free := 0
	var id string
	for _, op := range batch {
		if op.create != nil && op.owner == 0 {
			free++
			id = op.create.run.ID
		}
	}
	switch {
	case free == 1:
		p.add("notify", nil, []byte(id))
	case free > 1:
		p.add("notify", nil, []byte{})
	}
}
