package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	_ "modernc.org/sqlite" // the SQLite driver that River's documentation names
)

func measure(ctx context.Context, o options) (result, error) {
	if o.runs < 1 || o.steps < 1 || o.concurrency < 1 {
		return result{}, errors.New("--runs, --steps and --concurrency are at least 1")
	}
	switch o.store {
	case "sqlite":
		return onSQLite(ctx, o)
	case "postgres":
		return onPostgres(ctx, o)
	}
	return result{}, fmt.Errorf("--store %q is neither sqlite nor postgres", o.store)
}

func onPostgres(ctx context.Context, o options) (r result, err error) {
	if o.dsn == "" {
		return r, errors.New("--store postgres needs --dsn of an empty database")
	}
	config, err := pgxpool.ParseConfig(o.dsn)
	if err != nil {
		return r, err
	}
	config.MaxConns = 20
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	return drive(ctx, backend[pgx.Tx]{
		driver: riverpgxv5.New(pool),
		inTx:   func(ctx context.Context, do func(pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, do) },
		complete: func(ctx context.Context, tx pgx.Tx, job *river.Job[step]) error {
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		},
	}, o)
}

// onSQLite opens a new file with one connection, as River's documentation recommends, and
// with Pawl's durability: an acknowledged commit survives a loss of power.
func onSQLite(ctx context.Context, o options) (r result, err error) {
	folder, err := os.MkdirTemp(o.dir, "bench-river-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	db, err := openSQLite(ctx, filepath.Join(folder, "river.db"))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return drive(ctx, backend[*sql.Tx]{
		driver: riversqlite.New(db),
		inTx: func(ctx context.Context, do func(*sql.Tx) error) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := do(tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
		complete: func(ctx context.Context, tx *sql.Tx, job *river.Job[step]) error {
			_, err := river.JobCompleteTx[*riversqlite.Driver](ctx, tx, job)
			return err
		},
	}, o)
}

func openSQLite(ctx context.Context, path string) (*sql.DB, error) {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	var synchronous int
	if err := db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if synchronous != 2 {
		return nil, errors.Join(fmt.Errorf("PRAGMA synchronous is %d, not 2 (FULL)", synchronous), db.Close())
	}
	return db, nil
}
