package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// idleClaimSQL is the whole of most claims: the worker's lease lasts for more than half
// its time, no other worker is dead, no limit has changed, and no run is due. It writes nothing.
const idleClaimSQL = `
SELECT w.k,
	w.until > pawl_now() + $2::int8 / 2
	AND NOT EXISTS (SELECT FROM worker o WHERE (o.lost OR o.until <= pawl_now() AND o.k <> w.k) AND EXISTS (SELECT FROM run r WHERE r.owner = o.k))
	AND NOT EXISTS (SELECT FROM run_limit_changed)
	AND NOT ($3::int8 > 0 AND EXISTS (SELECT FROM run WHERE due_at <= pawl_now() AND phase < 6 AND flow <> ALL($4::text[]))),
	(` + nextSQL + `)
FROM worker w WHERE w.name = $1 AND NOT w.lost`

// claimSQL takes due runs, the earliest first, and raises their epochs in the same
// write. A worker that was declared dead takes nothing.
const claimSQL = `
UPDATE run r SET owner = w.k, epoch = epoch + 1, due_at = NULL
FROM worker w, (
	SELECT k FROM run WHERE due_at <= pawl_now() AND phase < 6 AND flow <> ALL($2::text[])
	ORDER BY due_at, k LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
) c
WHERE r.k = c.k AND w.name = $1 AND NOT w.lost`

// claimedSQL reads the runs that this transaction has claimed.
const claimedSQL = `SELECT ` + fullColumns + ` FROM run r JOIN worker v ON v.k = r.owner
WHERE v.name = $1 AND NOT v.lost AND r.xmin = pg_current_xact_id()::xid ORDER BY r.next_at, r.k`

// nextSQL returns when to claim again: at the earliest future due time, or at the end of
// another worker's lease; soon if a limited run that may start could not be read.
const nextSQL = `
SELECT coalesce(least(
	(SELECT min(due_at) FROM run WHERE due_at > pawl_now()),
	(SELECT CASE WHEN EXISTS (SELECT FROM run_limit_changed) THEN pawl_now() + 20000000 END),
	(SELECT min(until) FROM worker o WHERE NOT lost AND name <> $1 AND EXISTS (SELECT FROM run r WHERE r.owner = o.k))), 0)`

// unreadableFor is how long an unreadable run is left alone. Then any worker tries
// again; it may run a newer program.
const unreadableFor = time.Minute

// Claim implements runstore.Claimer. It is one round trip, without a write if nothing is
// due. A run that cannot be read is left alone for unreadableFor.
func (d *dialect) Claim(ctx context.Context, c runstore.Claim) (runstore.Claimed, error) {
	lease := int64(leaseOf(c.Lease))
	full := c.FullFlows
	if full == nil {
		full = []string{}
	}
	var k, next int64
	var idle bool
	err := d.db.Pool.QueryRow(ctx, idleClaimSQL, c.Worker, lease, c.Limit, full).Scan(&k, &idle, &next)
	switch {
	case err == nil && idle:
		d.leases.Store(c.Worker, k)
		return runstore.Claimed{Next: db.Instant(next)}, nil
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return runstore.Claimed{}, postgres.Fault(err)
	}
	var out runstore.Claimed
	var unreadable []int64
	var b pgx.Batch // one pipeline, so one transaction
	b.Queue(`SELECT pawl_start_limited()`)
	b.Queue(`SELECT pawl_bury($1)`, c.Worker)
	b.Queue(`SELECT pawl_worker($1, $2)`, c.Worker, lease).QueryRow(func(row pgx.Row) error { return row.Scan(&k) })
	if c.Limit > 0 {
		b.Queue(claimSQL, c.Worker, full, c.Limit)
		b.Queue(claimedSQL, c.Worker).Query(func(rows pgx.Rows) error {
			return postgres.Each(rows, func(r db.Row) error {
				loaded, err := d.runs.ReadFull(r)
				if err != nil {
					unreadable = append(unreadable, r.Int(0))
					return nil //nolint:nilerr // it is left alone
				}
				out.Runs = append(out.Runs, loaded)
				return nil
			})
		})
	}
	b.Queue(nextSQL, c.Worker).QueryRow(func(row pgx.Row) error { return row.Scan(&next) })
	d.db.Count(b.Len(), 0)
	if err := d.db.Pool.SendBatch(ctx, &b).Close(); err != nil {
		return runstore.Claimed{}, postgres.Fault(err)
	}
	d.leases.Store(c.Worker, k)
	out.Next = db.Instant(next)
	if len(unreadable) > 0 {
		_, err := d.db.Pool.Exec(ctx, `UPDATE run SET owner = NULL, due_at = pawl_now() + $3 WHERE k = ANY($1) AND owner = $2`, unreadable, k, int64(unreadableFor))
		if err != nil && len(out.Runs) == 0 {
			return out, postgres.Fault(err)
		}
	}
	return out, nil
}

func leaseOf(d time.Duration) time.Duration {
	if d <= 0 {
		return firstLease
	}
	return d
}

const workerSQL = `SELECT pawl_worker($1, $2)`

// lease returns the number of a worker's lease. It registers a worker that this process
// does not know.
func (d *dialect) lease(ctx context.Context, worker string, lease time.Duration) (int64, error) {
	if k, known := d.leases.Load(worker); known {
		return k.(int64), nil
	}
	var k int64
	if err := d.db.Pool.QueryRow(ctx, workerSQL, worker, int64(lease)).Scan(&k); err != nil {
		return 0, postgres.Fault(err)
	}
	d.leases.Store(worker, k)
	return k, nil
}

// ClaimRun implements runstore.Claimer.
func (d *dialect) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (runstore.Loaded, error) {
	var k int64
	var owner string
	var dead, final bool
	var loaded runstore.Loaded
	var damage error
	var b pgx.Batch // one pipeline, and so one transaction
	b.Queue(`SELECT pawl_start_limited()`)
	b.Queue(`SELECT pawl_worker($1, $2)`, worker, int64(leaseOf(lease))).QueryRow(func(row pgx.Row) error { return row.Scan(&k) })
	b.Queue(takenSQL, id).QueryRow(func(row pgx.Row) error { return row.Scan(&owner, &dead, &final) })
	b.Queue(takeRunSQL, worker, id)
	b.Queue(`SELECT `+fullColumns+` FROM run r WHERE r.id = $1`, id).Query(func(rows pgx.Rows) error {
		return postgres.Each(rows, func(r db.Row) error { loaded, damage = d.runs.ReadFull(r); return nil })
	})
	d.db.Count(2, len(id)+len(worker)+8)
	err := d.db.Pool.SendBatch(ctx, &b).Close()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return runstore.Loaded{}, runstore.ErrNotFound
	case err != nil:
		return runstore.Loaded{}, postgres.Fault(err)
	case !final && !dead && owner != worker:
		return runstore.Loaded{}, runstore.ErrOwned
	}
	d.leases.Store(worker, k)
	return loaded, damage
}

// takenSQL locks a run and returns its owner.
const takenSQL = `
SELECT coalesce(w.name, ''), coalesce(w.lost OR w.until <= pawl_now(), true), r.phase > 5
FROM run r LEFT JOIN worker w ON w.k = r.owner WHERE r.id = $1 FOR NO KEY UPDATE OF r`

// takeRunSQL claims a run that has no living owner.
const takeRunSQL = `
UPDATE run r SET owner = w.k, epoch = epoch + 1, due_at = NULL FROM worker w
WHERE w.name = $1 AND NOT w.lost AND r.id = $2 AND r.phase < 6
	AND NOT EXISTS (SELECT FROM worker o WHERE o.k = r.owner AND NOT o.lost AND o.until > pawl_now())`

// ReleaseRun implements runstore.Claimer.
func (d *dialect) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	var wakeNow bool // there was mail or a promotion in between
	d.db.Count(1, len(r.ID)+len(worker)+24)
	err := d.db.Pool.QueryRow(ctx, `
		UPDATE run SET owner = NULL,
			next_at = CASE WHEN mail > $3 OR revision <> $5 THEN pawl_now() ELSE $4 END,
			due_at = CASE WHEN mail > $3 OR revision <> $5 THEN pawl_now() WHEN $4 <> 0 THEN $4 END
		WHERE id = $1 AND phase < 6 AND owner IN (SELECT k FROM worker WHERE name = $2 AND NOT lost)
		RETURNING mail > $3 OR revision <> $5`, r.ID, worker, r.Mail, db.Nanos(next), r.Revision).Scan(&wakeNow)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil && wakeNow {
		d.db.Waker.Notify(r.ID)
	}
	return postgres.Fault(err)
}

// Renew implements runstore.Claimer.
func (d *dialect) Renew(ctx context.Context, worker string, lease time.Duration) error {
	var k int64
	d.db.Count(1, len(worker)+8)
	c, release, err := d.db.AcquireWithin(ctx, leaseOf(lease)/10)
	if err != nil {
		return postgres.Fault(err)
	}
	defer release()
	err = c.QueryRow(ctx, `UPDATE worker SET until = greatest(until, pawl_now() + $2), lease = $2 WHERE name = $1 AND NOT lost RETURNING k`,
		worker, int64(leaseOf(lease))).Scan(&k)
	if errors.Is(err, pgx.ErrNoRows) {
		var lost bool
		if err := c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM worker WHERE name = $1)`, worker).Scan(&lost); err != nil {
			return postgres.Fault(err)
		}
		d.leases.Delete(worker)
		if lost {
			return runstore.ErrFenced
		}
		err = c.QueryRow(ctx, workerSQL, worker, int64(leaseOf(lease))).Scan(&k)
	}
	if err != nil {
		return postgres.Fault(err)
	}
	d.leases.Store(worker, k)
	return nil
}

// Release implements runstore.Claimer. A waiting run keeps its due time. A run that was
// executing or has mail is due at once.
func (d *dialect) Release(ctx context.Context, worker string) error {
	d.db.Count(3, len(worker))
	var b pgx.Batch // one pipeline, and so one transaction
	b.Queue(`
		UPDATE run r SET owner = NULL, next_at = v.next, due_at = nullif(v.next, 0)
		FROM (
			SELECT o.k, CASE WHEN o.phase IN (2, 5) OR EXISTS (SELECT FROM signal g WHERE g.run = o.k AND NOT g.taken)
				THEN pawl_now() ELSE o.next_at END AS next
			FROM run o WHERE o.owner IN (SELECT k FROM worker WHERE name = $1 AND NOT lost)
		) v
		WHERE r.k = v.k`, worker)
	b.Queue(`DELETE FROM worker WHERE name = $1 AND NOT lost`, worker)
	b.Queue(`SELECT pg_notify($1, '')`, postgres.RunChannel)
	err := d.db.Pool.SendBatch(ctx, &b).Close()
	d.leases.Delete(worker)
	return postgres.Fault(err)
}

// Wake implements runstore.Claimer.
func (d *dialect) Wake() <-chan string { return d.db.Waker.C }

// workersSQL returns a row for each id of a worker's oldest runs, and at least one for each worker.
var workersSQL = fmt.Sprintf(`
SELECT w.name, w.start, w.until, w.lease, (w.until <= pawl_now())::int, (SELECT count(*) FROM run r WHERE r.owner = w.k), o.id
FROM worker w LEFT JOIN LATERAL (SELECT r.k, r.id FROM run r WHERE r.owner = w.k ORDER BY r.k LIMIT %d) o ON true
WHERE NOT w.lost ORDER BY w.name, o.k`, runstore.MaxOwned)

// Workers implements runstore.Workers.
func (d *dialect) Workers(ctx context.Context) (list []runstore.Worker, err error) {
	err = d.db.Read(ctx, func(x db.Session) error {
		list = nil
		return x.Query(workersSQL, nil, func(r db.Row) error {
			if n := len(list); n == 0 || list[n-1].Name != r.Text(0) {
				list = append(list, runstore.Worker{Name: r.Text(0), Since: db.Instant(r.Int(1)), Until: db.Instant(r.Int(2)), Lease: time.Duration(r.Int(3)), Expired: r.Int(4) == 1, Count: int(r.Int(5))})
			}
			if id := r.Text(6); id != "" {
				one := &list[len(list)-1]
				one.Runs = append(one.Runs, id)
			}
			return nil
		})
	})
	return list, err
}
