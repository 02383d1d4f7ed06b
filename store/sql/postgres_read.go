package sql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/workflow"
)

// runColumns are the columns that a run is read from. fullColumns add its settled
// records, input and unread signals, all from one snapshot.
const (
	runColumns = `r.k, r.id, r.flow, r.version, r.hash, r.subject, coalesce(r.parent, ''), r.inline, r.birth, r.created, r.phase, r.queue_no,
	r.revision, r.epoch, coalesce((SELECT w.name FROM worker w WHERE w.k = r.owner), ''), r.mail, r.next_at, r.ended, r.body,
	(SELECT i.data FROM input i WHERE i.run = r.k)`
	fullColumns = runColumns + `,
	(SELECT array_agg(e.steps ORDER BY e.seq, e.n) FROM event e WHERE e.run = r.k AND e.steps IS NOT NULL),
	(SELECT array_agg(g.id ORDER BY g.n) FROM signal g WHERE g.run = r.k AND NOT g.taken),
	(SELECT array_agg(g.data ORDER BY g.n) FROM signal g WHERE g.run = r.k AND NOT g.taken)`
)

// pgRow is the row of a run.
type pgRow struct {
	k                                    int64
	run                                  workflow.Run
	version, created, phase, next, ended int64
	birth, body, input                   []byte
	steps                                [][]byte
	signalIDs                            []string
	signals                              [][]byte
}

func (x *pgRow) targets() []any {
	r := &x.run
	return []any{&x.k, &r.ID, &r.Flow, &x.version, &r.Hash, &r.Subject, &r.Parent, &r.Inline, &x.birth, &x.created, &x.phase, &r.Queue,
		&r.Revision, &r.Epoch, &r.Owner, &r.Mail, &x.next, &x.ended, &x.body, &x.input}
}

func (x *pgRow) fullTargets() []any { return append(x.targets(), &x.steps, &x.signalIDs, &x.signals) }

// decode builds the run. A record in the body is newer than an appended one.
func (x *pgRow) decode() (workflow.Loaded, error) {
	r := &x.run
	open, err := codec.ReadBody(x.body, r)
	if err == nil {
		err = codec.ReadBirth(x.birth, r)
	}
	r.Version, r.Phase, r.CreatedAt, r.NextAt, r.EndedAt = int(x.version), codec.PhaseOf(x.phase), db.Instant(x.created), db.Instant(x.next), db.Instant(x.ended)
	r.Input = x.input
	handle := &pgHandle{k: x.k, version: r.Version, hash: r.Hash}
	records := make([]*workflow.StepRecord, 0, len(x.steps)+len(open))
	at := map[string]int{}
	put := func(s *workflow.StepRecord) {
		if i, known := at[s.Name]; known {
			records[i] = s
			return
		}
		at[s.Name] = len(records)
		records = append(records, s)
	}
	for _, data := range x.steps {
		settled, bad := codec.ReadRecords(data)
		err = errors.Join(err, bad)
		for _, s := range settled {
			put(s)
		}
	}
	for _, s := range open {
		put(s)
		handle.open = append(handle.open, s.Name)
	}
	r.Restore(records)
	r.Handle = handle
	loaded := workflow.Loaded{Run: r}
	for i, id := range x.signalIDs {
		s, bad := codec.ReadSignal(id, x.signals[i])
		err = errors.Join(err, bad)
		loaded.Signals = append(loaded.Signals, s)
	}
	if err != nil {
		return loaded, workflow.StoreCorrupt.Errorf("run %s: %w", r.ID, err).With("run", r.ID)
	}
	return loaded, nil
}

// Load implements workflow.Store.
func (p *Postgres) Load(ctx context.Context, id string) (*workflow.Run, []workflow.Signal, error) {
	var x pgRow
	err := p.Pool.QueryRow(ctx, `SELECT `+fullColumns+` FROM run r WHERE r.id = $1`, id).Scan(x.fullTargets()...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil, workflow.ErrNotFound
	case err != nil:
		return nil, nil, postgres.Fault(err)
	}
	loaded, err := x.decode()
	if err != nil {
		return nil, nil, err
	}
	return loaded.Run, loaded.Signals, nil
}

// List implements workflow.Lister. A cursor is a position in the order of creation.
func (p *Postgres) List(ctx context.Context, q workflow.Query) ([]*workflow.Run, string, error) {
	where, args := []string{"true"}, []any{}
	add := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if len(q.Phases) > 0 {
		var numbers []int64
		for _, phase := range q.Phases {
			numbers = append(numbers, codec.PhaseNumber(phase))
		}
		add("r.phase = ANY($%d)", numbers)
	}
	if q.Active {
		where = append(where, "r.phase < 6")
	}
	for condition, value := range map[string]string{
		"r.flow = $%d": q.Flow, "r.subject = $%d": q.Subject, "r.hash = $%d": q.Hash, "r.parent = $%d": q.Parent, "starts_with(r.id, $%d)": q.Prefix,
	} {
		if value != "" {
			add(condition, value)
		}
	}
	if len(q.IDs) > 0 {
		add("r.id = ANY($%d)", q.IDs)
	}
	from, row := "run r", "r.k"
	first, others := firstLabel(q.Labels)
	if first != nil { // read the index of labels, which is in the order of runs
		from, row = "run_label c JOIN run r ON r.k = c.run", "c.run"
		add("c.key = $%d", first.Key)
		add("c.value = $%d", first.Value)
	}
	for _, t := range others {
		condition, values := labelCondition(t, "r.k", fmt.Sprintf("$%d", len(args)+1), fmt.Sprintf("$%d", len(args)+2))
		where, args = append(where, condition), append(args, values...)
	}
	order, behind := "DESC", row+" < $%d"
	if q.OldestFirst {
		order, behind = "ASC", row+" > $%d"
	}
	if q.Cursor != "" {
		k, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil || k < 0 {
			return nil, "", workflow.InputInvalid.Errorf("cursor %q is not from an earlier answer", q.Cursor)
		}
		add(behind, k)
	}
	limit := q.PageSize()
	rows, err := p.Pool.Query(ctx, `SELECT `+runColumns+` FROM `+from+` WHERE `+strings.Join(where, " AND ")+` ORDER BY `+row+` `+order+` LIMIT `+strconv.Itoa(limit+1), args...)
	if err != nil {
		return nil, "", postgres.Fault(err)
	}
	defer rows.Close()
	var runs []*workflow.Run
	var last int64
	for rows.Next() {
		if len(runs) == limit {
			return runs, strconv.FormatInt(last, 10), nil
		}
		var x pgRow
		if err := rows.Scan(x.targets()...); err != nil {
			return nil, "", postgres.Fault(err)
		}
		loaded, damage := x.decode()
		if damage != nil {
			unreadableRun(loaded.Run, damage)
		}
		runs, last = append(runs, withCurrentStep(loaded.Run)), x.k
	}
	return runs, "", postgres.Fault(rows.Err())
}

// withCurrentStep returns a run with only the record of its current step.
func withCurrentStep(r *workflow.Run) *workflow.Run {
	current := r.Current()
	if current == nil {
		r.Restore(nil)
	} else {
		r.Restore([]*workflow.StepRecord{current})
	}
	return r
}

// History implements workflow.Lister.
func (p *Postgres) History(ctx context.Context, id string, after int64, limit int) ([]workflow.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	var k int64
	err := p.Pool.QueryRow(ctx, `SELECT k FROM run WHERE id = $1`, id).Scan(&k)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, workflow.ErrNotFound
	}
	if err != nil {
		return nil, postgres.Fault(err)
	}
	rows, err := p.Pool.Query(ctx, `SELECT data FROM event WHERE run = $1 AND seq > $2 AND data IS NOT NULL ORDER BY seq, n LIMIT $3`, k, after, limit)
	if err != nil {
		return nil, postgres.Fault(err)
	}
	defer rows.Close()
	var events []workflow.Event
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return nil, postgres.Fault(err)
		}
		block, err := codec.ReadEvents(id, data)
		if err != nil {
			return nil, workflow.StoreCorrupt.Errorf("history of run %s: %w", id, err)
		}
		for _, e := range block {
			if e.Seq > after && len(events) < limit {
				events = append(events, e)
			}
		}
	}
	return events, postgres.Fault(rows.Err())
}

// eventCursor is a position in the history of all runs: the transaction, the row, and
// the number of events of that row that were returned.
type eventCursor struct {
	x, n int64
	part int
}

func (c eventCursor) String() string { return fmt.Sprintf("%d-%d-%d", c.x, c.n, c.part) }

func parseEventCursor(text string) (eventCursor, error) {
	var c eventCursor
	if text == "" {
		return c, nil
	}
	if _, err := fmt.Sscanf(text, "%d-%d-%d", &c.x, &c.n, &c.part); err != nil || c.String() != text {
		return c, workflow.InputInvalid.Errorf("cursor %q is not from an earlier answer", text)
	}
	return c, nil
}

// Events implements workflow.Lister. It leaves out rows of transactions that are younger
// than the oldest open one, so that it never skips the events of a slow writer. So the
// history of all runs lags behind while any transaction of the server is open, in
// another database too. The history of one run (History) never lags.
func (p *Postgres) Events(ctx context.Context, cursor string, limit int) ([]workflow.Event, string, error) {
	if limit <= 0 {
		limit = 1000
	}
	if cursor == "now" {
		var c eventCursor
		err := p.Pool.QueryRow(ctx, `SELECT (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint`).Scan(&c.x)
		if err != nil {
			return nil, "", postgres.Fault(err)
		}
		return nil, c.String(), nil
	}
	c, err := parseEventCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	rows, err := p.Pool.Query(ctx, `
		SELECT e.x::text::bigint, e.n, r.id, e.data FROM event e JOIN run r ON r.k = e.run
		WHERE (e.x, e.n) >= ($1::text::xid8, $2::bigint) AND e.x < pg_snapshot_xmin(pg_current_snapshot()) AND e.data IS NOT NULL
		ORDER BY e.x, e.n LIMIT $3`, strconv.FormatInt(c.x, 10), c.n, limit+1)
	if err != nil {
		return nil, "", postgres.Fault(err)
	}
	defer rows.Close()
	var events []workflow.Event
	for rows.Next() && len(events) < limit {
		var x, n int64
		var id string
		var data []byte
		if err := rows.Scan(&x, &n, &id, &data); err != nil {
			return nil, "", postgres.Fault(err)
		}
		block, err := codec.ReadEvents(id, data)
		if err != nil {
			return nil, "", workflow.StoreCorrupt.Errorf("history of run %s: %w", id, err)
		}
		from := 0
		if x == c.x && n == c.n {
			from = min(c.part, len(block))
		}
		block = block[from:min(len(block), from+limit-len(events))]
		events = append(events, block...)
		c = eventCursor{x: x, n: n, part: from + len(block)}
	}
	rows.Close()
	return events, c.String(), postgres.Fault(rows.Err())
}

const putDefinitionSQL = `INSERT INTO definition (hash, flow, version, data, source) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`

// PutDefinition implements workflow.Definitions.
func (p *Postgres) PutDefinition(ctx context.Context, d workflow.Definition) error {
	p.Count(1, len(d.Hash)+len(d.Flow)+8+len(d.Data)+len(d.Source))
	_, err := p.Pool.Exec(ctx, putDefinitionSQL, d.Hash, d.Flow, d.Version, db.NonNil(d.Data), db.NonNil(d.Source))
	return postgres.Fault(err)
}

// Definition implements workflow.Definitions.
func (p *Postgres) Definition(ctx context.Context, hash string) (workflow.Definition, error) {
	d := workflow.Definition{Hash: hash}
	err := p.Pool.QueryRow(ctx, `SELECT flow, version, data, source FROM definition WHERE hash = $1`, hash).Scan(&d.Flow, &d.Version, &d.Data, &d.Source)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, workflow.ErrNotFound
	}
	return d, postgres.Fault(err)
}

// Expired implements workflow.Retainer.
func (p *Postgres) Expired(ctx context.Context, now time.Time, policy func(flow string) workflow.Retention, limit int) ([]string, error) {
	rows, err := p.Pool.Query(ctx, `
		SELECT f.id, f.flow, f.ended, f.rank FROM (
			SELECT r.k, r.id, r.flow, r.ended, r.parent, rank() OVER (PARTITION BY r.subject ORDER BY r.ended DESC, r.k DESC) - 1 AS rank
			FROM run r WHERE r.phase > 5
		) f
		WHERE NOT EXISTS (SELECT FROM run o WHERE o.id = f.parent AND o.phase < 6)
		ORDER BY f.ended, f.k`)
	if err != nil {
		return nil, postgres.Fault(err)
	}
	defer rows.Close()
	ids := []string{}
	for rows.Next() && (limit <= 0 || len(ids) < limit) {
		var id, flow string
		var ended, rank int64
		if err := rows.Scan(&id, &flow, &ended, &rank); err != nil {
			return nil, postgres.Fault(err)
		}
		if !policy(flow).Keeps(now, db.Instant(ended), int(rank)) {
			ids = append(ids, id)
		}
	}
	rows.Close()
	return ids, postgres.Fault(rows.Err())
}

// Remove implements workflow.Retainer.
func (p *Postgres) Remove(ctx context.Context, ids []string) error {
	p.Count(1, 0)
	_, err := p.Pool.Exec(ctx, `
		WITH gone AS (DELETE FROM run WHERE id = ANY($1) AND phase > 5 RETURNING k),
			e AS (DELETE FROM event WHERE run IN (SELECT k FROM gone)),
			i AS (DELETE FROM input WHERE run IN (SELECT k FROM gone)),
			l AS (DELETE FROM run_label WHERE run IN (SELECT k FROM gone))
		DELETE FROM signal WHERE run IN (SELECT k FROM gone)`, ids)
	return postgres.Fault(err)
}
