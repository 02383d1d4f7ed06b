package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// BackupElsewhere is the fault of a backup that the database server must make.
var BackupElsewhere = fault.Declare(fault.Kind{
	Code: "BACKUP_ELSEWHERE", Class: fault.Invalid,
	Title:  "PostgreSQL is backed up by its own tools",
	Remedy: "Use pg_dump and pg_restore (or the server's base backups), or write the runs as JSON lines with pawl store export. Keep the master key (PAWL_MASTER_KEY) with them: no backup holds it.",
})

// adminIdleTimeout is how long the session of a maintenance command may be idle.
const adminIdleTimeout = "10min"

// IsOwner returns true: every process on the database may work on runs.
func (p *DB) IsOwner() bool { return true }

// Owned returns true: nobody knows the processes on the database.
func (p *DB) Owned() bool { return true }

// Process implements db.Maintained.
func (p *DB) Process() string { return p.name }

// IsDamage implements db.Maintained. An error of the server ends the transaction.
func (p *DB) IsDamage(err error) bool { return errors.Is(err, runstore.StoreCorrupt) }

// Backup fails with BACKUP_ELSEWHERE.
func (p *DB) Backup(context.Context, string) error {
	return BackupElsewhere.Errorf("a file cannot be written from here")
}

// Integrity finds nothing: the server checks its own files.
func (p *DB) Integrity(db.Session, func(what string)) error { return nil }

// Inspect implements db.Maintained.
func (p *DB) Inspect(ctx context.Context, do func(db.Session) error) error {
	return p.snapshot(ctx, adminIdleTimeout, do)
}

// snapshot runs do in one snapshot. The session may be idle for pause between two
// statements. It holds no lock that others wait for.
func (p *DB) snapshot(ctx context.Context, pause string, do func(db.Session) error) error {
	begin := "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL idle_in_transaction_session_timeout = '" + pause + "'"
	if pause == adminIdleTimeout {
		begin += "; SET LOCAL statement_timeout = 0"
	}
	return Fault(pgx.BeginTxFunc(ctx, p.Pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return do(session{ctx, tx}) }))
}

// Rewrite implements db.Maintained. Nobody writes runs meanwhile.
func (p *DB) Rewrite(ctx context.Context, do func(db.Rewriter) error) error {
	x := &rewriter{}
	err := pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
		x.session, x.tx = session{ctx, tx}, tx
		if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = '`+adminIdleTimeout+`'; LOCK TABLE run IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		if err := do(x); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT pg_notify($1, '')`, RunChannel)
		return err
	})
	p.Count(x.statements, 0)
	return Fault(err)
}

type rewriter struct {
	session
	tx         pgx.Tx
	statements int
}

// Execute sends the statements in one message.
func (x *rewriter) Execute(list []db.Statement) error {
	var b pgx.Batch
	for _, st := range list {
		b.Queue(st.SQL, st.Args...)
	}
	x.statements += len(list)
	return x.tx.SendBatch(x.ctx, &b).Close()
}

// Restored continues the sequence of a column after its greatest number.
func (x *rewriter) Restored(table, column string) error {
	sql := fmt.Sprintf("SELECT setval(pg_get_serial_sequence('%s', '%s'), max(%s)) FROM %s HAVING max(%s) IS NOT NULL", table, column, column, table, column)
	return x.Query(sql, nil, nil)
}
