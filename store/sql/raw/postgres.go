package raw

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
)

const (
	connections = 2
	maxBatch    = 512
)

// tablesSQL creates the two tables of the loop.
const tablesSQL = `
DROP TABLE IF EXISTS pawl_raw_run, pawl_raw_event;
CREATE TABLE pawl_raw_run (k bigint PRIMARY KEY, revision bigint NOT NULL, body bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE pawl_raw_event (n bigint GENERATED ALWAYS AS IDENTITY, run bigint NOT NULL, data bytea NOT NULL);`

const stepSQL = `
WITH u AS (
	UPDATE pawl_raw_run r SET revision = r.revision + 1, body = s.body
	FROM unnest($1::int8[], $2::int8[], $3::bytea[]) AS s(k, rev, body) WHERE r.k = s.k AND r.revision = s.rev RETURNING r.k
), e AS (
	INSERT INTO pawl_raw_event (run, data) SELECT k, body FROM unnest($1::int8[], $3::bytea[]) AS s(k, body)
)
SELECT count(*) FROM u`

// Postgres measures the same loop as SQLite: a step is one
// update of a small row by its key and one append of 60 bytes. Submitters wait for their
// commit, and two connections write all pending steps in batches. It creates two tables
// in the database and drops them.
func Postgres(ctx context.Context, dsn string, submitters, steps int) (Result, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return Result{}, fmt.Errorf("dsn: %w", err)
	}
	postgres.PrepareSession(config)
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return Result{}, postgres.Fault(err)
	}
	defer postgres.CloseConn(c)
	if _, err := postgres.Script(ctx, c.PgConn(), tablesSQL); err != nil {
		return Result{}, postgres.Fault(err)
	}
	defer func() {
		_, _ = postgres.Script(context.WithoutCancel(ctx), c.PgConn(), `DROP TABLE pawl_raw_run, pawl_raw_event`)
	}()
	if _, err := c.Exec(ctx, `INSERT INTO pawl_raw_run SELECT i, 0, '' FROM generate_series(0, $1::bigint - 1) i`, submitters); err != nil {
		return Result{}, postgres.Fault(err)
	}

	type step struct {
		k, rev int64
		done   chan error
	}
	queue := make(chan step, submitters)
	body := make([]byte, 60)
	var commits atomic.Int64
	var writers sync.WaitGroup
	var conns []*pgx.Conn
	for range connections {
		w, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			_, err = w.PgConn().Prepare(ctx, "raw", stepSQL, nil)
		}
		if err != nil {
			return Result{}, postgres.Fault(err)
		}
		defer postgres.CloseConn(w)
		conns = append(conns, w)
	}
	for _, w := range conns {
		writers.Go(func() {
			for first := range queue {
				batch := []step{first}
				for more := true; more && len(batch) < maxBatch; {
					select {
					case s, open := <-queue:
						if more = open; open {
							batch = append(batch, s)
						}
					default:
						more = false
					}
				}
				err := w.PgConn().ExecPrepared(ctx, "raw", [][]byte{
					postgres.Int8Array(batch, func(s step) int64 { return s.k }),
					postgres.Int8Array(batch, func(s step) int64 { return s.rev }),
					postgres.ByteaArray(batch, func(step) []byte { return body }),
				}, postgres.BinaryFormat, postgres.BinaryFormat).Read().Err
				commits.Add(1)
				for _, s := range batch {
					s.done <- err
				}
			}
		})
	}
	answers := make([]chan error, submitters)
	for i := range answers {
		answers[i] = make(chan error, 1)
	}
	result, err := measure(ctx, submitters, steps, func(i int, revision int64) error {
		queue <- step{int64(i), revision, answers[i]}
		return <-answers[i]
	})
	close(queue)
	writers.Wait()
	result.SyncsPerStep, result.BytesPerWrite = float64(commits.Load())/float64(steps), 8+8+60+60
	return result, postgres.Fault(err)
}
