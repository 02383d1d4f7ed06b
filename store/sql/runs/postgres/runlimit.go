package postgres

import (
	"context"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
)

// limitSQL stores the limits of the runs that this transaction created. A claim lets them start.
const limitSQL = `
WITH put AS (
	INSERT INTO run_limit (run, key, at_once, rank, state)
	SELECT r.k, s.key, s.at_once, s.rank, 1
	FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[]) AS s(id, key, at_once, rank) JOIN run r ON r.id = s.id
	WHERE r.xmin = pg_current_xact_id()::xid AND r.revision = 1
	RETURNING key
)
INSERT INTO run_limit_changed (key) SELECT DISTINCT key FROM put`

// freeSQL removes the limits of those of the runs that have ended. It depends only on stored rows.
const freeSQL = `
WITH gone AS (
	DELETE FROM run_limit l USING run r WHERE l.run = ANY($1::int8[]) AND r.k = l.run AND r.phase > 5 RETURNING l.key, l.state
)
INSERT INTO run_limit_changed (key) SELECT DISTINCT key FROM gone WHERE state > 0`

// ChangeLimit implements runs.Dialect.
func (d *dialect) ChangeLimit(ctx context.Context, key string, change db.Statement) error {
	err := d.db.Apply(ctx, db.Change{List: []db.Statement{
		change,
		{SQL: `INSERT INTO run_limit_changed (key) VALUES ($1)`, Args: []any{key}},
		{SQL: `SELECT pg_notify($1, '')`, Args: []any{postgres.RunChannel}},
	}})
	if err == nil {
		d.db.Waker.Notify("")
	}
	return err
}
