package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql/db"
)

const pruneBatch = 500 // rows of one write

// Prune implements cluster.Store. It works in small writes: after an error, earlier
// removals stay.
func (c *Store) Prune(ctx context.Context, now time.Time, keep cluster.Retention) (removed int, err error) {
	keep = keep.OrDefault()
	defer c.lists.changed(true)
	n, err := c.pruneClusters(ctx, now.Add(-keep.Clusters).UnixNano())
	if err != nil {
		return n, err
	}
	jobs, err := c.pruneRows(ctx, "job", "number", "status <> 0 AND completed <> 0 AND completed <= ?", now.Add(-keep.Jobs).UnixNano())
	if err != nil {
		return n + jobs, err
	}
	events, err := c.pruneRows(ctx, "cluster_event", "seq", "at <> 0 AND at <= ?", now.Add(-keep.Events).UnixNano())
	return n + jobs + events, err
}

// pruneRows removes the old rows of a table, the oldest first.
func (c *Store) pruneRows(ctx context.Context, table, key, old string, before int64) (removed int, err error) {
	sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s LIMIT %d", key, table, old, pruneBatch)
	for {
		found, err := c.firstColumn(ctx, strings.ReplaceAll(sql, "?", "$1"), before)
		if err != nil || len(found) == 0 { // nothing to remove: no write
			return removed, err
		}
		var w db.Where
		w.And(old, before)
		w.Conditions = append(w.Conditions, db.In(&w, key, found))
		n := 0
		prune := db.Change{Lock: "prune/" + table, Begin: func() { n = 0 }}
		if table == "cluster_event" {
			prune.List = append(prune.List, db.Statement{SQL: `UPDATE cluster_feed SET floor = $1 WHERE floor < $1`, Args: []any{slices.Max(found)}})
		}
		prune.List = append(prune.List, db.Statement{SQL: "DELETE FROM " + table + w.String() + " RETURNING 1", Args: w.Args, Each: func(db.Row) error { n++; return nil }})
		if err := c.m.Apply(ctx, prune); err != nil {
			return removed, err
		}
		if removed += n; len(found) < pruneBatch {
			return removed, nil
		}
	}
}

// firstColumn returns the numbers in the first column of a result.
func (c *Store) firstColumn(ctx context.Context, sql string, args ...any) (found []int64, err error) {
	err = c.m.Read(ctx, func(s db.Session) error {
		found = nil
		return s.Query(sql, args, func(r db.Row) error { found = append(found, r.Int(0)); return nil })
	})
	return found, err
}

// pruneClusters removes the rows of destroyed clusters. Journal rows whose resource may
// still exist stay, and their cluster stays too, because it names their owner.
func (c *Store) pruneClusters(ctx context.Context, before int64) (removed int, err error) {
	for after := int64(0); ; {
		list, err := c.firstColumn(ctx, `SELECT id FROM container_cluster WHERE state = 'Destroyed' AND removed <= $1 AND id > $2
			AND (NOT EXISTS (SELECT 1 FROM container_cluster_resource r WHERE r.cluster_id = container_cluster.id AND r.phase NOT IN ('gone', 'never_created') AND r.origin <> 'given')
				OR EXISTS (SELECT 1 FROM container_cluster_resource r WHERE r.cluster_id = container_cluster.id AND (r.phase IN ('gone', 'never_created') OR r.origin = 'given'))
				OR EXISTS (SELECT 1 FROM container_cluster_vm_map n WHERE n.cluster_id = container_cluster.id)
				OR EXISTS (SELECT 1 FROM container_cluster_details d WHERE d.cluster_id = container_cluster.id))
			ORDER BY id LIMIT 500`, before, after)
		if err != nil || len(list) == 0 {
			return removed, err
		}
		for _, id := range list {
			n := 0
			prune := db.Change{Lock: clusterLock(id), Begin: func() { n = 0 }, List: []db.Statement{
				{SQL: `SELECT id FROM container_cluster WHERE id = $1 AND state = 'Destroyed' AND removed <= $2`, Args: []any{id, before}, Must: db.ErrStale},
			}}
			for _, sql := range []string{
				`DELETE FROM container_cluster_resource WHERE cluster_id = $1 AND (phase IN ('gone', 'never_created') OR origin = 'given') RETURNING 1`,
				`DELETE FROM container_cluster_vm_map WHERE cluster_id = $1 RETURNING 1`,
				`DELETE FROM container_cluster_details WHERE cluster_id = $1 RETURNING 1`,
				`DELETE FROM container_cluster WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM container_cluster_resource r WHERE r.cluster_id = $1) RETURNING 1`,
			} {
				prune.List = append(prune.List, db.Statement{SQL: sql, Args: []any{id}, Each: func(db.Row) error { n++; return nil }})
			}
			switch err := c.m.Apply(ctx, prune); {
			case errors.Is(err, db.ErrStale): // another process removed it first
			case err != nil:
				return removed, err
			default:
				removed += n
			}
		}
		after = list[len(list)-1]
	}
}

// Feed implements cluster.Store.
func (c *Store) Feed(ctx context.Context) (floor, newest int64, err error) {
	err = c.m.Read(ctx, func(s db.Session) error {
		return s.Query(`SELECT floor, newest FROM cluster_feed`, nil, func(r db.Row) error { floor, newest = r.Int(0), r.Int(1); return nil })
	})
	return floor, newest, err
}
