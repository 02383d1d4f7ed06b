package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// migrationLock serializes processes that start at once. The number is arbitrary.
const migrationLock = 7295_0001

// migrate brings the schema up to date, all or nothing. It finds the missing
// migrations without a lock and sends them as one message, so that a process that
// freezes here delays no other process.
func migrate(ctx context.Context, config *pgx.ConnConfig) error {
	config = config.Copy()
	config.RuntimeParams["lock_timeout"] = "60s" // a migration may have to wait for the reads of a running server
	config.RuntimeParams["statement_timeout"] = "0"
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return Fault(err)
	}
	defer CloseConn(c)
	return Fault(db.RetryStale(func() error {
		done, err := appliedMigrations(ctx, c)
		if err != nil {
			return err
		}
		todo, err := db.Missing(db.Migrations("postgres"), done)
		if err != nil || len(todo) == 0 {
			return err
		}
		_, err = Script(ctx, c.PgConn(), migrationScript(len(done), todo))
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == missingRow {
			return db.ErrStale // another process migrated first
		}
		return err
	}))
}

func appliedMigrations(ctx context.Context, c *pgx.Conn) ([]db.Applied, error) {
	var there bool
	if err := c.QueryRow(ctx, "SELECT to_regclass('migration') IS NOT NULL").Scan(&there); err != nil || !there {
		return nil, err
	}
	rows, err := c.Query(ctx, "SELECT number, checksum FROM migration ORDER BY number")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (db.Applied, error) {
		var a db.Applied
		return a, row.Scan(&a.Number, &a.Checksum)
	})
}

// migrationScript returns one transaction that applies migrations if exactly done
// migrations are applied already.
func migrationScript(done int, todo []db.Migration) string {
	var sql strings.Builder
	fmt.Fprintf(&sql, "SELECT pg_advisory_xact_lock(%d);\n%s;\n", migrationLock, db.MigrationTable)
	fmt.Fprintf(&sql, "DO $$ BEGIN IF (SELECT count(*) FROM migration) <> %d THEN RAISE EXCEPTION 'another process migrates' USING ERRCODE = '%s'; END IF; END $$;\n", done, missingRow)
	for _, m := range todo {
		fmt.Fprintf(&sql, "%s;\nINSERT INTO migration (number, name, checksum, at) VALUES (%d, '%s', '%s', %d);\n", m.SQL, m.Number, m.Name, m.Checksum, time.Now().UnixNano())
	}
	return sql.String()
}

// Script executes several statements as one transaction and one message.
func Script(ctx context.Context, c *pgconn.PgConn, sql string) ([]*pgconn.Result, error) {
	return c.Exec(ctx, sql).ReadAll()
}
