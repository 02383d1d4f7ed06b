package sqlstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// migrationLock serialises processes that start at once. The number is ours by chance.
const migrationLock = 7295_0001

// migratePostgres brings the schema up to date, all or nothing.
func migratePostgres(ctx context.Context, config *pgx.ConnConfig) error {
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return pgError(err)
	}
	defer closeConn(c)
	return pgError(pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, migrationTable); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT number, checksum FROM migration ORDER BY number")
		if err != nil {
			return err
		}
		done, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (applied, error) {
			var a applied
			return a, row.Scan(&a.number, &a.checksum)
		})
		if err != nil {
			return err
		}
		todo, err := missing(migrations("postgres"), done)
		if err != nil {
			return err
		}
		for _, m := range todo {
			if _, err := pgScript(ctx, tx.Conn().PgConn(), m.sql); err != nil {
				return err
			}
			if m.name == labelMigration {
				if err := postgresLabels(ctx, tx); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, "INSERT INTO migration (number, name, checksum, at) VALUES ($1, $2, $3, $4)", m.number, m.name, m.checksum, time.Now().UnixNano())
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// pgScript executes several statements.
func pgScript(ctx context.Context, c *pgconn.PgConn, sql string) ([]*pgconn.Result, error) {
	return c.Exec(ctx, sql).ReadAll()
}
