package sql

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
)

// rawPG creates the two tables of the raw loop.
const rawPG = `
DROP TABLE IF EXISTS pawl_raw_run, pawl_raw_event;
CREATE TABLE pawl_raw_run (k bigint PRIMARY KEY, revision bigint NOT NULL, body bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE pawl_raw_event (n bigint GENERATED ALWAYS AS IDENTITY, run bigint NOT NULL, data bytea NOT NULL);`

const rawStep = `
WITH u AS (
	UPDATE pawl_raw_run r SET revision = r.revision + 1, body = s.body
	FROM unnest($1::int8[], $2::int8[], $3::bytea[]) AS s(k, rev, body) WHERE r.k = s.k AND r.revision = s.rev RETURNING r.k
), e AS (
	INSERT INTO pawl_raw_event (run, data) SELECT k, body FROM unnest($1::int8[], $3::bytea[]) AS s(k, body)
)
SELECT count(*) FROM u`

// RawPostgres measures a minimal write loop, the baseline for every store: a step is one
// update of a small row by its key and one append of 60 bytes. Submitters wait for their
// commit, and two connections write all pending steps in batches. It creates two tables
// in the database and drops them.
func RawPostgres(ctx context.Context, dsn string, submitters, steps int) (RawResult, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return RawResult{}, fmt.Errorf("dsn: %w", err)
	}
	postgres.PrepareSession(config)
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return RawResult{}, postgres.Fault(err)
	}
	defer postgres.CloseConn(c)
	if _, err := postgres.Script(ctx, c.PgConn(), rawPG); err != nil {
		return RawResult{}, postgres.Fault(err)
	}
	defer func() {
		_, _ = postgres.Script(context.WithoutCancel(ctx), c.PgConn(), `DROP TABLE pawl_raw_run, pawl_raw_event`)
	}()
	if _, err := c.Exec(ctx, `INSERT INTO pawl_raw_run SELECT i, 0, '' FROM generate_series(0, $1::bigint - 1) i`, submitters); err != nil {
		return RawResult{}, postgres.Fault(err)
	}

	type step struct {
		k, rev int64
		done   chan error
	}
	queue := make(chan step, submitters)
	body := make([]byte, 60)
	var commits, taken atomic.Int64
	var writers, all sync.WaitGroup
	failed := make(chan error, submitters+pgWriters)
	var conns []*pgx.Conn
	for range pgWriters {
		w, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			_, err = w.PgConn().Prepare(ctx, "raw", rawStep, nil)
		}
		if err != nil {
			return RawResult{}, postgres.Fault(err)
		}
		defer postgres.CloseConn(w)
		conns = append(conns, w)
	}
	begun := time.Now()
	for _, w := range conns {
		writers.Go(func() {
			for first := range queue {
				batch := []step{first}
				for more := true; more && len(batch) < pgBatch; {
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
					int8Array(batch, func(s step) int64 { return s.k }),
					int8Array(batch, func(s step) int64 { return s.rev }),
					byteaArray(batch, func(step) []byte { return body }),
				}, binaryFormat, binaryFormat).Read().Err
				commits.Add(1)
				for _, s := range batch {
					s.done <- err
				}
			}
		})
	}
	for i := range submitters {
		all.Go(func() {
			done := make(chan error, 1)
			for rev := int64(0); taken.Add(1) <= int64(steps) && ctx.Err() == nil; rev++ {
				queue <- step{int64(i), rev, done}
				if err := <-done; err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	close(queue)
	writers.Wait()
	select {
	case err := <-failed:
		return RawResult{}, postgres.Fault(err)
	default:
	}
	return RawResult{Steps: steps, Took: took, StepsPerSec: float64(steps) / took.Seconds(),
		SyncsPerStep: float64(commits.Load()) / float64(steps), BytesPerWrite: 8 + 8 + 60 + 60}, ctx.Err()
}
