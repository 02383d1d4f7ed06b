package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// commit executes the batch as one pipelined transaction.
func (w *writer) commit(c *pgconn.PgConn, batch []*write) ([]result, error) {
	ctx, cancel := context.WithTimeout(w.db.Context(), time.Minute)
	defer cancel()
	results := make([]result, len(batch))
	var pipe pipe
	pipe.creates(batch, results)
	pipe.saves(batch, results)
	var promoted []string
	freed := pipe.freeLimits(batch)
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
	w.db.CountCommit(len(batch), len(pipe.readers), size)
	for _, id := range append(promoted, freed...) {
		w.db.Waker.Notify(id)
	}
	return results, nil
}

// size is the number of bytes that a write sends to the database; a number counts 8.
func (op *write) size() int64 {
	n := 9*8 + len(op.Body) + len(op.Events) + len(op.Steps)
	if c := op.create; c != nil {
		n += len(c.Run.ID) + len(c.Run.Flow) + len(c.Run.Hash) + len(c.Run.Subject) + len(c.Run.Parent) + len(c.Birth) + len(c.Run.Input)
	}
	return int64(n)
}

// pipe collects the statements of a batch and the functions that read their rows.
type pipe struct {
	batch   pgconn.Batch
	readers []func(row [][]byte)
}

func (p *pipe) add(name string, read func([][]byte), params ...[]byte) {
	p.batch.ExecPrepared(name, params, postgres.BinaryFormat, postgres.BinaryFormat)
	p.readers = append(p.readers, read)
}

func (p *pipe) creates(batch []*write, results []result) {
	var ops []*write
	at := map[string]int{}
	for i, op := range batch {
		if op.create == nil {
			continue
		}
		id := op.create.Run.ID
		if _, twice := at[id]; twice {
			continue // not applied: its caller finds the first one
		}
		at[id] = i
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return
	}
	text := func(get func(*runtype.Run) string) []byte {
		return postgres.TextArray(ops, func(op *write) string { return get(op.create.Run) })
	}
	p.add("create", func(row [][]byte) {
		results[at[string(row[0])]] = result{applied: true, k: postgres.Int8Value(row[1]), owned: row[2][0] != 0, next: postgres.Int8Value(row[3])}
	},
		text(func(r *runtype.Run) string { return r.ID }),
		text(func(r *runtype.Run) string { return r.Flow }),
		postgres.Int8Array(ops, func(op *write) int64 { return int64(op.create.Run.Version) }),
		text(func(r *runtype.Run) string { return r.Hash }),
		text(func(r *runtype.Run) string { return r.Subject }),
		text(func(r *runtype.Run) string { return r.Parent }),
		postgres.Int8Array(ops, func(op *write) int64 {
			if op.create.Run.Inline {
				return 1
			}
			return 0
		}),
		postgres.ByteaArray(ops, func(op *write) []byte { return op.create.Birth }),
		postgres.Int8Array(ops, func(op *write) int64 { return db.Nanos(op.create.Run.CreatedAt) }),
		postgres.Int8Array(ops, func(op *write) int64 { return op.epoch }),
		postgres.Int8Array(ops, func(op *write) int64 { return op.owner }),
		postgres.Int8Array(ops, func(op *write) int64 { return op.next }),
		postgres.ByteaArray(ops, func(op *write) []byte { return op.Body }),
		postgres.Int8Array(ops, func(op *write) int64 { return op.Seq }),
		postgres.ByteaArray(ops, func(op *write) []byte { return op.Events }),
		postgres.ByteaArray(ops, func(op *write) []byte { return op.Steps }),
		postgres.ByteaArray(ops, input),
		postgres.Int8Array(ops, func(op *write) int64 { return int64(len(op.create.Run.Limits)) }),
	)
	type limit struct {
		run *runtype.Run
		runtype.Limit
	}
	var limits []limit
	for _, op := range ops {
		for _, l := range op.create.Run.Limits {
			limits = append(limits, limit{op.create.Run, l})
		}
	}
	if len(limits) > 0 {
		p.add("limit", nil,
			postgres.TextArray(limits, func(l limit) string { return l.run.ID }),
			postgres.TextArray(limits, func(l limit) string { return l.Key }),
			postgres.Int8Array(limits, func(l limit) int64 { return int64(l.AtOnce) }),
			postgres.Int8Array(limits, func(l limit) int64 { return l.run.Rank() }))
	}
	type label struct{ run, key, value string }
	var labels []label
	for _, op := range ops {
		for _, key := range slices.Sorted(maps.Keys(op.create.Run.Labels)) {
			labels = append(labels, label{op.create.Run.ID, key, op.create.Run.Labels[key]})
		}
	}
	if len(labels) > 0 {
		p.add("label", nil,
			postgres.TextArray(labels, func(l label) string { return l.run }),
			postgres.TextArray(labels, func(l label) string { return l.key }),
			postgres.TextArray(labels, func(l label) string { return l.value }))
	}
}

// input returns the input of a new run; nil without one.
func input(op *write) []byte {
	if len(op.create.Run.Input) == 0 {
		return nil
	}
	return op.create.Run.Input
}

func (p *pipe) saves(batch []*write, results []result) {
	type consumedSignal struct {
		op *write
		id string
	}
	type outgoingMail struct {
		op *write
		runstore.Mail
	}
	var ops []*write
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
		if i, ok := slices.BinarySearchFunc(ops, postgres.Int8Value(row[0]), func(op *write, k int64) int { return cmp.Compare(op.k, k) }); ok {
			results[at[i]] = result{applied: true, mail: postgres.Int8Value(row[1])}
		}
	}
	if len(ops) <= maxSingleSaves {
		for _, op := range ops {
			p.add("one", read, postgres.Int8Param(op.k), postgres.Int8Param(op.rev), postgres.Int8Param(op.epoch), postgres.Int8Param(op.phase), postgres.Int8Param(op.owner), postgres.Int8Param(op.next),
				postgres.Int8Param(op.ended), postgres.Int8Param(op.mail), postgres.Int8Param(op.Seq), op.Body, op.Events, op.Steps)
		}
	} else {
		p.saveAll(ops, read)
	}
	if pinned := slices.DeleteFunc(slices.Clone(ops), func(op *write) bool { return op.pin == nil }); len(pinned) > 0 {
		p.add("pin", nil,
			postgres.Int8Array(pinned, func(op *write) int64 { return op.k }),
			postgres.Int8Array(pinned, func(op *write) int64 { return op.rev }),
			postgres.Int8Array(pinned, func(op *write) int64 { return op.pin.version }),
			postgres.TextArray(pinned, func(op *write) string { return op.pin.hash }))
	}
	if changed := slices.DeleteFunc(slices.Clone(ops), func(op *write) bool { return op.fault == nil }); len(changed) > 0 {
		p.add("fault", nil,
			postgres.Int8Array(changed, func(op *write) int64 { return op.k }),
			postgres.Int8Array(changed, func(op *write) int64 { return op.rev }),
			postgres.TextArray(changed, func(op *write) string { return *op.fault }))
	}
	if len(taken) > 0 {
		p.add("take", nil,
			postgres.Int8Array(taken, func(t consumedSignal) int64 { return t.op.k }),
			postgres.Int8Array(taken, func(t consumedSignal) int64 { return t.op.rev }),
			postgres.TextArray(taken, func(t consumedSignal) string { return t.id }))
	}
	if len(posts) > 0 {
		p.add("mail", nil,
			postgres.Int8Array(posts, func(m outgoingMail) int64 { return m.op.k }),
			postgres.Int8Array(posts, func(m outgoingMail) int64 { return m.op.rev }),
			postgres.TextArray(posts, func(m outgoingMail) string { return m.To }),
			postgres.TextArray(posts, func(m outgoingMail) string { return m.Signal.ID }),
			postgres.ByteaArray(posts, func(m outgoingMail) []byte { return codec.AppendSignal(nil, &m.Signal) }),
			postgres.Int8Param(runstore.MaxSignalIDs))
	}
}

// saveAll adds the statement of a larger batch.
func (p *pipe) saveAll(ops []*write, read func([][]byte)) {
	number := func(get func(*write) int64) []byte { return postgres.Int8Array(ops, get) }
	p.add("save", read,
		number(func(op *write) int64 { return op.k }),
		number(func(op *write) int64 { return op.rev }),
		number(func(op *write) int64 { return op.epoch }),
		number(func(op *write) int64 { return op.phase }),
		number(func(op *write) int64 { return op.owner }),
		number(func(op *write) int64 { return op.next }),
		number(func(op *write) int64 { return op.ended }),
		number(func(op *write) int64 { return op.mail }),
		number(func(op *write) int64 { return op.Seq }),
		postgres.ByteaArray(ops, func(op *write) []byte { return op.Body }),
		postgres.ByteaArray(ops, func(op *write) []byte { return op.Events }),
		postgres.ByteaArray(ops, func(op *write) []byte { return op.Steps }),
	)
}

// freeLimits releases the limit of the runs that have ended. It returns an id for the wake-up of this process: a run
// that is not in its hands is only a reason to claim.
func (p *pipe) freeLimits(batch []*write) (wake []string) {
	var ended []*write
	for _, op := range batch {
		if op.freesLimits != "" {
			ended = append(ended, op)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	p.add("free", nil, postgres.Int8Array(ended, func(op *write) int64 { return op.k }))
	p.add("notify", nil, []byte(ended[0].freesLimits))
	return []string{ended[0].freesLimits}
}

func (p *pipe) promote(batch []*write, promoted *[]string) {
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
	list := postgres.TextArray(slices.Compact(subjects), func(s string) string { return s })
	for range 2 {
		p.add("promote", func(row [][]byte) { *promoted = append(*promoted, string(row[0])) }, list)
	}
}

// notify tells other processes that new runs without an owner exist, for any worker to
// claim.
func (p *pipe) notify(batch []*write) {
	free := 0
	var id string
	for _, op := range batch {
		if op.create != nil && op.owner == 0 {
			free++
			id = op.create.Run.ID
		}
	}
	switch {
	case free == 1:
		p.add("notify", nil, []byte(id))
	case free > 1:
		p.add("notify", nil, []byte{})
	}
}
