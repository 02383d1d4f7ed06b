package sql

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// Postgres stores runs in a PostgreSQL database that several processes share.
//
//	Create, Save ─▶ pending ─▶ writer 1 ─▶ one pipelined transaction for all pending writes
//	                      └──▶ writer 2 ─▶ while a transaction of writer 1 takes long
//	Load, Claim, Send, … ────▶ pool
//
// It has at most pgWriters connections more than its DB.
type Postgres struct {
	*postgres.DB
	writer    *pgWriter
	clusters  *clusters.Store
	encrypter *secrets.Encrypter
	leases    sync.Map // worker name → int64, its lease in the table worker
}

var _ Store = (*Postgres)(nil)

const (
	pgWriters      = 2 // the second connects when the first waits long
	pgBatch        = 512
	maxSingleSaves = 2 // up to this many saves, each has its own statement
)

// openPostgres opens the database and starts the writers.
func openPostgres(ctx context.Context, dsn string, encrypter *secrets.Encrypter) (*Postgres, error) {
	d, err := postgres.Open(ctx, dsn, postgresLabels)
	if err != nil {
		return nil, err
	}
	p := &Postgres{DB: d, encrypter: encrypter, clusters: clusters.New(d.Backend(), encrypter)}
	p.writer = newPGWriter(p)
	for range pgWriters {
		d.Run(p.writer.serve)
	}
	d.Start(p.writer.runsLongerThan)
	return p, nil
}

// Close finishes the writes under way and closes all connections. Later writes fail with
// STORE_UNAVAILABLE.
func (p *Postgres) Close() error {
	p.writer.close()
	p.DB.Close()
	return nil
}
