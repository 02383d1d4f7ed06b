package sql

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// Probe writes a row, as a request does. Its error says why the store cannot write. It
// tests both paths: the writer of runs and the pool.
func (p *Postgres) Probe(ctx context.Context) error {
	if err := p.Backend().Apply(ctx, db.Single(probeSQL, probeOwner, p.Name, time.Now().UnixNano())); err != nil {
		return err
	}
	_, err := p.writer.do(ctx, &pgWrite{k: -1})
	return err
}

// Probe writes a row, as a request does. Its error says why the store cannot write.
func (s *SQLite) Probe(ctx context.Context) error {
	return sqBackend{s}.Apply(ctx, db.Single(probeSQL, probeOwner, "file", time.Now().UnixNano()))
}

// probeOwner is the account of the rows that Probe writes.
const probeOwner = "probe"

// probeSQL stores a row for each process. Rows of dead processes are removed with the
// answers of the day before.
const probeSQL = `INSERT INTO idempotency (account, key, hash, at, answer) VALUES ($1, $2, '', $3, NULL) ON CONFLICT (account, key) DO UPDATE SET at = excluded.at`
