package runs

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// States of a row of run_limit. They are part of the format.
const (
	LimitBehind  = iota // behind another run of its subject
	LimitWaiting        // waits for a limit
	LimitHeld           // holds the limit
)

// PutLimitSQL stores one limit of a run: run, key, number, rank, state.
const PutLimitSQL = `INSERT INTO run_limit (run, key, at_once, rank, state) VALUES ($1, $2, $3, $4, $5)`

// LimitStatements store the limits of a run of an export.
func LimitStatements(key int64, r *runtype.Run) (list []db.Statement) {
	if r.Phase.Final() {
		return nil
	}
	state := int64(LimitHeld)
	switch {
	case r.Queue > 0:
		state = LimitBehind
	case r.Phase == runtype.Queued:
		state = LimitWaiting
	}
	for _, l := range r.Limits {
		list = append(list, db.Statement{SQL: PutLimitSQL, Args: []any{key, l.Key, int64(l.AtOnce), r.Rank(), state}})
	}
	return list
}

// SetRunLimit implements runstore.RunLimiter.
func (s *Store) SetRunLimit(ctx context.Context, key string, atOnce int) error {
	return s.changeLimit(ctx, key, &atOnce)
}

// ResetRunLimit implements runstore.RunLimiter.
func (s *Store) ResetRunLimit(ctx context.Context, key string) error {
	return s.changeLimit(ctx, key, nil)
}

func (s *Store) changeLimit(ctx context.Context, key string, atOnce *int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	change := db.Statement{SQL: `DELETE FROM run_limit_value WHERE key = $1`, Args: []any{key}}
	if atOnce != nil {
		change = db.Statement{SQL: `INSERT INTO run_limit_value (key, at_once) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET at_once = excluded.at_once`, Args: []any{key, int64(*atOnce)}}
	}
	return s.dialect.ChangeLimit(ctx, key, change)
}

const countLimitsSQL = `
	(SELECT count(*) FROM run_limit AS h WHERE h.key = l.key AND h.state = 2),
	(SELECT count(*) FROM run_limit AS w WHERE w.key = l.key AND w.state = 1),
	coalesce((SELECT v.at_once FROM run_limit_value AS v WHERE v.key = l.key), -1)`

func readLimit(x db.Row) runstore.KeyLimit {
	l := runstore.KeyLimit{Key: x.Text(0), AtOnce: int(x.Int(1)), Running: int(x.Int(2)), Waiting: int(x.Int(3))}
	if set := x.Int(4); set >= 0 {
		l.AtOnce, l.Set = int(set), true
	}
	return l
}

// RunLimits implements runstore.RunLimiter.
func (s *Store) RunLimits(ctx context.Context, after string, limit int) (list []runstore.KeyLimit, err error) {
	sql := fmt.Sprintf(`SELECT l.key, coalesce(
			(SELECT w.at_once FROM run_limit AS w WHERE w.key = l.key AND w.state = 1 ORDER BY w.rank, w.run LIMIT 1),
			(SELECT h.at_once FROM run_limit AS h WHERE h.key = l.key AND h.state = 2 ORDER BY h.run DESC LIMIT 1), 0),`+countLimitsSQL+`
		FROM (SELECT key FROM run_limit WHERE state > 0 AND key > $1 UNION SELECT key FROM run_limit_value WHERE key > $1) AS l ORDER BY l.key LIMIT %d`, cmp.Or(limit, 1000))
	err = s.db.Read(ctx, func(x db.Session) error {
		list = nil
		if known, err := x.HasTable("run_limit"); err != nil || !known {
			return err
		}
		return x.Query(sql, []any{after}, func(r db.Row) error {
			list = append(list, readLimit(r))
			return nil
		})
	})
	return list, err
}

// RunLimitsOf implements runstore.RunLimiter.
func (s *Store) RunLimitsOf(ctx context.Context, id string) (list []runstore.KeyLimit, err error) {
	ofRun := `SELECT l.key, l.at_once,` + countLimitsSQL + `,
			CASE WHEN l.state <> 1 THEN 0 ELSE
				(SELECT count(*) FROM run_limit AS o WHERE o.key = l.key AND o.state = 1 AND (o.rank < l.rank OR o.rank = l.rank AND o.run < l.run)) END
		FROM run AS r JOIN run_limit AS l ON l.run = ` + s.texts.Key + ` WHERE r.id = $1 AND l.state > 0 ORDER BY l.key`
	holders := fmt.Sprintf(`SELECT r.id FROM run_limit AS l JOIN run AS r ON `+s.texts.Key+` = l.run WHERE l.key = $1 AND l.state = 2 ORDER BY l.run LIMIT %d`, runstore.MaxHolders)
	err = s.db.Read(ctx, func(x db.Session) error {
		list = nil
		if known, err := x.HasTable("run_limit"); err != nil || !known {
			return err
		}
		err := x.Query(ofRun, []any{id}, func(r db.Row) error {
			l := readLimit(r)
			l.Before = int(r.Int(5))
			list = append(list, l)
			return nil
		})
		for i := 0; err == nil && i < len(list); i++ {
			err = x.Query(holders, []any{list[i].Key}, func(r db.Row) error {
				list[i].Holders = append(list[i].Holders, r.Text(0))
				return nil
			})
		}
		if err != nil || len(list) > 0 {
			return err
		}
		known := false
		err = x.Query(`SELECT id FROM run WHERE id = $1`, []any{id}, func(db.Row) error { known = true; return nil })
		if err == nil && !known {
			err = runstore.ErrNotFound
		}
		return err
	})
	return list, err
}
