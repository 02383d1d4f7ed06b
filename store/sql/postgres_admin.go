package sql

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/objects"
	"github.com/pawl-dev/pawl/workflow"
)

// BackupElsewhere is the fault of a backup that the database server must make.
var BackupElsewhere = fault.Declare(fault.Kind{
	Code: "BACKUP_ELSEWHERE", Class: fault.Invalid,
	Title:  "PostgreSQL is backed up by its own tools",
	Remedy: "Use pg_dump and pg_restore (or the server's base backups), or write the runs as JSON lines with pawl store export. Keep the master key (PAWL_MASTER_KEY) with them: no backup holds it.",
})

const (
	adminPage    = 100 // runs of one query
	restoreBatch = 500 // events of one restored row
)

// IsOwner returns true: every process on the database may work on runs.
func (p *Postgres) IsOwner() bool { return true }

// Backup fails with BACKUP_ELSEWHERE.
func (p *Postgres) Backup(context.Context, string) error {
	return BackupElsewhere.Errorf("a file cannot be written from here")
}

// Check reads one snapshot of the whole store and reports damage. It writes nothing.
func (p *Postgres) Check(ctx context.Context) (Report, error) {
	var report Report
	err := p.SnapshotFor(ctx, postgres.AdminIdleTimeout, func(tx pgx.Tx) error {
		if err := checkRecords(postgres.NewSession(ctx, tx), &report); err != nil {
			return err
		}
		var err error
		if report.Keys, err = encryptedWith(postgres.NewSession(ctx, tx), func(string) (bool, error) { return true, nil }); err != nil {
			return err
		}
		return eachRun(ctx, tx, func(id string, line dump, damage error) error {
			report.Runs++
			report.Events += len(line.Events)
			if damage != nil {
				report.Damage = append(report.Damage, Damage{Run: id, What: fault.Message(damage)})
			}
			return nil
		})
	})
	if errors.Is(err, workflow.StoreCorrupt) { // the server found a damaged page or index
		report.Damage = append(report.Damage, Damage{What: fault.Message(err)})
		err = nil
	}
	report.Healthy = err == nil && len(report.Damage) == 0
	return report, err
}

// Export writes one snapshot of the store as JSON lines. SQLite reads the same format.
func (p *Postgres) Export(ctx context.Context, to io.Writer) error {
	out, err := newExporter(to)
	if err != nil {
		return err
	}
	err = p.SnapshotFor(ctx, postgres.AdminIdleTimeout, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT hash, flow, version, data, source FROM definition ORDER BY flow, hash`)
		if err != nil {
			return err
		}
		definitions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d workflow.Definition, err error) {
			return d, row.Scan(&d.Hash, &d.Flow, &d.Version, &d.Data, &d.Source)
		})
		if err != nil {
			return err
		}
		for _, d := range definitions {
			if len(d.Source) == 0 {
				d.Source = nil
			}
			if err := out.write(dump{Definition: &d}); err != nil {
				return err
			}
		}
		if err := eachObject(ctx, tx, out); err != nil {
			return err
		}
		if err := exportTables(out, func(t exportedTable, each func(map[string]cell) error) error {
			return pgRows(postgres.NewSession(ctx, tx), t, each)
		}); err != nil {
			return err
		}
		return eachRun(ctx, tx, func(id string, line dump, damage error) error {
			if damage != nil {
				line = dump{Damaged: &Damage{Run: id, What: fault.Message(damage)}}
			}
			return out.write(line)
		})
	})
	if err != nil {
		return err
	}
	return out.end()
}

// eachObject writes the objects, the number of their newest change, and the locks.
func eachObject(ctx context.Context, tx pgx.Tx, out *exporter) error {
	rows, err := tx.Query(ctx, `SELECT data, kind, namespace, name FROM object ORDER BY kind, namespace, name`)
	if err != nil {
		return err
	}
	var data []byte
	var ref control.Ref
	_, err = pgx.ForEachRow(rows, []any{&data, &ref.Kind, &ref.Namespace, &ref.Name}, func() error {
		line := dump{Object: bytes.Clone(data)}
		if _, err := objects.DecodeObject(line.Object); err != nil {
			line = dump{Damaged: &Damage{What: "object " + ref.String() + ": " + fault.Message(err)}}
		}
		return out.write(line)
	})
	if err != nil {
		return err
	}
	var newest int64
	if err := tx.QueryRow(ctx, `SELECT newest FROM feed`).Scan(&newest); err != nil {
		return err
	}
	if err := out.write(dump{Newest: newest}); err != nil {
		return err
	}
	if rows, err = tx.Query(ctx, `SELECT name, value FROM lock ORDER BY name`); err != nil {
		return err
	}
	var name string
	var value []byte
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error { return out.write(dump{Lock: name, Value: bytes.Clone(value)}) })
	return err
}

// queueObject adds an object or a lock to the batch. Numbers of changes continue after
// the newest one, and readers of the feed must list again.
func (line *dump) queueObject(b *pgx.Batch) error {
	if line.Lock != "" {
		b.Queue(`INSERT INTO lock (name, value) VALUES ($1, $2)`, line.Lock, db.NonNil(line.Value))
		return nil
	}
	newest := line.Newest
	if line.Object != nil {
		o, err := objects.DecodeObject(line.Object)
		if err != nil {
			return err
		}
		newest = o.Revision
		b.Queue(`INSERT INTO object (kind, namespace, name, revision, data) VALUES ($1, $2, $3, $4, $5)`, o.Kind, o.Namespace, o.Name, o.Revision, []byte(line.Object))
	}
	b.Queue(`UPDATE feed SET newest = greatest(newest, $1), floor = greatest(floor, $1)`, newest)
	return nil
}

// eachRun reads all runs in the order of creation. A damaged run does not end it.
func eachRun(ctx context.Context, tx pgx.Tx, fn func(id string, line dump, damage error) error) error {
	for last := int64(-1); ; {
		rows, err := tx.Query(ctx, `SELECT `+fullColumns+` FROM run r WHERE r.k > $1 ORDER BY r.k LIMIT $2`, last, adminPage)
		if err != nil {
			return err
		}
		page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*pgRow, error) {
			x := &pgRow{}
			return x, row.Scan(x.fullTargets()...)
		})
		if err != nil {
			return err
		}
		for _, x := range page {
			last = x.k
			line, damage, err := x.dumpRun(ctx, tx)
			if err != nil {
				return err
			}
			if err := fn(x.run.ID, line, damage); err != nil {
				return err
			}
		}
		if len(page) < adminPage {
			return nil
		}
	}
}

// dumpRun adds history and consumed signals to a run. damage is the error of the parts
// that cannot be read.
func (x *pgRow) dumpRun(ctx context.Context, tx pgx.Tx) (line dump, damage, err error) {
	id := x.run.ID
	loaded, damage := x.decode()
	line = dump{Run: loaded.Run, Signals: loaded.Signals}
	rows, err := tx.Query(ctx, `SELECT data FROM event WHERE run = $1 AND data IS NOT NULL ORDER BY seq, n`, x.k)
	if err != nil {
		return line, damage, err
	}
	blocks, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return line, damage, err
	}
	for _, data := range blocks {
		events, bad := codec.ReadEvents(id, data)
		if bad != nil {
			damage = errors.Join(damage, workflow.StoreCorrupt.Errorf("history of run %s: %w", id, bad))
			continue
		}
		line.Events = append(line.Events, events...)
	}
	if rows, err = tx.Query(ctx, `SELECT id FROM signal WHERE run = $1 AND taken ORDER BY n`, x.k); err != nil {
		return line, damage, err
	}
	if line.Seen, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return line, damage, err
	}
	line.Run.Handle = nil
	line.Steps = slices.Collect(line.Run.Steps())
	return line, damage, nil
}

// Restore reads an export of either database into an empty database: all of it or
// nothing. Runs with an owner become due at once. It skips the lines of damaged runs.
func (p *Postgres) Restore(ctx context.Context, from io.Reader) error {
	statements := 0
	err := pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
		// The database is empty, so no worker is delayed. from may be slow.
		if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = '`+postgres.AdminIdleTimeout+`'; LOCK TABLE run IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		var holds bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM run) OR EXISTS (SELECT FROM object) OR (`+hasClustersSQL+`)`).Scan(&holds); err != nil {
			return err
		}
		if holds {
			return workflow.InputInvalid.Errorf("the database holds runs, objects or clusters already: restore into a new one")
		}
		err := readExport(from, func(line dump) error {
			if line.Table != "" {
				statements++
				return restoreRow(postgres.NewSession(ctx, tx), line)
			}
			var b pgx.Batch
			if d := line.Definition; d != nil {
				b.Queue(putDefinitionSQL, d.Hash, d.Flow, d.Version, db.NonNil(d.Data), db.NonNil(d.Source))
			}
			if line.Run != nil {
				line.queue(&b)
			}
			if line.Object != nil || line.Newest > 0 || line.Lock != "" {
				if err := line.queueObject(&b); err != nil {
					return err
				}
			}
			statements += b.Len()
			return tx.SendBatch(ctx, &b).Close()
		})
		if err != nil {
			return err
		}
		if err := advanceSequences(postgres.NewSession(ctx, tx)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_notify($1, '')`, postgres.RunChannel)
		return err
	})
	p.Count(statements, 0)
	return postgres.Fault(err)
}

// queue adds the statements that write a run. Its other rows find it by its id.
func (line *dump) queue(b *pgx.Batch) {
	r := line.Run
	var open, settled []*workflow.StepRecord
	for _, s := range line.Steps {
		if staysInBody(s) {
			open = append(open, s)
		} else {
			settled = append(settled, s)
		}
	}
	var due *int64
	switch at := db.Nanos(r.NextAt); {
	case r.Phase.Final():
	case r.Owner != "":
		soon := int64(1)
		due = &soon
	case at != 0:
		due = &at
	}
	b.Queue(`INSERT INTO run (id, flow, version, hash, subject, parent, inline, birth, created, phase, queue_no, revision, epoch, mail, next_at, due_at, ended, body)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		r.ID, r.Flow, r.Version, r.Hash, r.Subject, r.Parent, r.Inline, codec.AppendBirth(nil, r), db.Nanos(r.CreatedAt), codec.PhaseNumber(r.Phase), r.Queue,
		r.Revision, r.Epoch, r.Mail, db.Nanos(r.NextAt), due, db.Nanos(r.EndedAt), codec.AppendBody(nil, r, open))
	for _, l := range labelRows(r.ID, r.Labels) {
		b.Queue(putLabelSQL, l.run, l.key, l.value)
	}
	if len(r.Input) > 0 {
		b.Queue(`INSERT INTO input (run, data) SELECT k, $2 FROM run WHERE id = $1`, r.ID, []byte(r.Input))
	}
	n := r.Mail - int64(len(line.Signals)+len(line.Seen))
	for _, id := range line.Seen {
		n++
		b.Queue(`INSERT INTO signal (run, n, id, taken) SELECT k, $2, $3, true FROM run WHERE id = $1`, r.ID, n, id)
	}
	for _, s := range line.Signals {
		n++
		b.Queue(`INSERT INTO signal (run, n, id, data) SELECT k, $2, $3, $4 FROM run WHERE id = $1`, r.ID, n, s.ID, codec.AppendSignal(nil, &s))
	}
	const event = `INSERT INTO event (run, seq, data, steps) SELECT k, $2, $3, $4 FROM run WHERE id = $1`
	if len(settled) > 0 {
		b.Queue(event, r.ID, int64(0), []byte(nil), codec.AppendRecords(nil, settled))
	}
	for piece := range slices.Chunk(line.Events, restoreBatch) {
		b.Queue(event, r.ID, piece[len(piece)-1].Seq, codec.AppendEvents(nil, piece), []byte(nil))
	}
}
