package sqlite

import (
	"context"
	"time"

	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// blockedSQL finds a key of a run of which it is not the first, or that is reached.
const blockedSQL = `SELECT 1 FROM run_limit AS l WHERE l.run = ? AND (
	(SELECT count(*) FROM run_limit AS h WHERE h.key = l.key AND h.state = 2)
		>= coalesce((SELECT v.at_once FROM run_limit_value AS v WHERE v.key = l.key), l.at_once)
	OR EXISTS (SELECT 1 FROM run_limit AS o WHERE o.key = l.key AND o.state = 1 AND (o.rank, o.run) < (l.rank, l.run))) LIMIT 1`

// putLimits stores the limits of a new run. A run that is not behind another one acquires its limits, or waits for them.
func putLimits(w *sqlite.Writer, row int64, r *runtype.Run) (waits bool, err error) {
	state := int64(runs.LimitWaiting)
	if r.Queue > 0 {
		state = runs.LimitBehind
	}
	for _, l := range r.Limits {
		if err := w.Exec(runs.PutLimitSQL, row, l.Key, int64(l.AtOnce), r.Rank(), state); err != nil {
			return false, err
		}
	}
	if r.Queue > 0 {
		return false, nil
	}
	return acquireLimits(w, row)
}

// acquireLimits gives a waiting run its limits if it may have them.
func acquireLimits(w *sqlite.Writer, row int64) (waits bool, err error) {
	blocked, err := sqlite.Text(w.Conn, blockedSQL, row)
	if err != nil || blocked != "" {
		return true, err
	}
	return false, w.Exec("UPDATE run_limit SET state = 2 WHERE run = ?", row)
}

// releaseLimits removes the limits of a run that has ended and starts the runs that may start now.
func releaseLimits(w *sqlite.Writer, row int64, now time.Time, toWake *[]string) error {
	keys, err := limitKeys(w, "SELECT key FROM run_limit WHERE run = ? AND state > 0", row)
	if err != nil {
		return err
	}
	if err := w.Exec("DELETE FROM run_limit WHERE run = ?", row); err != nil {
		return err
	}
	return startWaiting(w, keys, now, toWake)
}

// startWaiting starts the runs that wait for the keys and may start.
func startWaiting(w *sqlite.Writer, keys []string, now time.Time, toWake *[]string) error {
	for len(keys) > 0 {
		var first int64
		var id string
		err := sqlite.Query(w.Conn, `SELECT l.run, r.id FROM run_limit AS l CROSS JOIN run AS r ON r.row = l.run
			WHERE l.key = ? AND l.state = 1 ORDER BY l.rank, l.run LIMIT 1`, func(row *driver.Stmt) error {
			first, id = row.ColumnInt64(0), row.ColumnText(1)
			return nil
		}, keys[0])
		if err != nil {
			return err
		}
		waits := true
		if first != 0 {
			if waits, err = acquireLimits(w, first); err != nil {
				return err
			}
		}
		if waits {
			keys = keys[1:]
			continue
		}
		err = w.Exec(`UPDATE run SET phase = ?, revision = revision + 1, due = CASE WHEN owner IS NULL THEN ? ELSE due END WHERE row = ?`,
			codec.PhaseNumber(runtype.Running), now.UnixNano(), first)
		if err != nil {
			return err
		}
		*toWake = append(*toWake, id)
		others, err := limitKeys(w, "SELECT key FROM run_limit WHERE run = ? AND key <> ?", first, keys[0])
		if err != nil {
			return err
		}
		keys = append(keys, others...) // another run is the first of these keys now
	}
	return nil
}

// standBehind moves the run that holds the slot of a subject and waits for its limits to the front of the queue. A child
// run passes it then.
func standBehind(w *sqlite.Writer, subject string, now time.Time, toWake *[]string) (passed bool, err error) {
	var active int64
	err = sqlite.Query(w.Conn, "SELECT row FROM run WHERE subject = ? AND slot = 1 AND phase = ?", func(row *driver.Stmt) error {
		active = row.ColumnInt64(0)
		return nil
	}, subject, codec.PhaseNumber(runtype.Queued))
	if err != nil || active == 0 {
		return false, err
	}
	err = w.Exec(`UPDATE run SET slot = NULL, revision = revision + 1,
		queue_no = coalesce((SELECT min(q.queue_no) FROM run AS q WHERE q.subject = run.subject AND q.queue_no > 0), 1) WHERE row = ?`, active)
	if err != nil {
		return false, err
	}
	if err := w.Exec("UPDATE run_limit SET state = 0 WHERE run = ?", active); err != nil {
		return false, err
	}
	keys, err := limitKeys(w, "SELECT key FROM run_limit WHERE run = ?", active)
	if err != nil {
		return false, err
	}
	return true, startWaiting(w, keys, now, toWake) // another run is the first of its keys now
}

func limitKeys(w *sqlite.Writer, sql string, params ...any) (keys []string, err error) {
	err = sqlite.Query(w.Conn, sql, func(row *driver.Stmt) error {
		keys = append(keys, row.ColumnText(0))
		return nil
	}, params...)
	return keys, err
}

// ChangeLimit implements runs.Dialect.
func (d *dialect) ChangeLimit(_ context.Context, key string, change db.Statement) error {
	return d.start(func(w *sqlite.Writer) ([]string, error) {
		return []string{key}, w.Exec(change.SQL, change.Args...)
	})
}

// startAll starts every run that may start. After a restore from another database some may.
func (d *dialect) startAll() error {
	return d.start(func(w *sqlite.Writer) ([]string, error) {
		return limitKeys(w, "SELECT DISTINCT key FROM run_limit WHERE state = 1")
	})
}

// start starts the runs that wait for the keys that change returns, and may start.
func (d *dialect) start(change func(*sqlite.Writer) ([]string, error)) error {
	var toWake []string
	err := d.db.Do(sqlite.Func{
		Run: func(w *sqlite.Writer) error {
			toWake = toWake[:0]
			keys, err := change(w)
			if err != nil {
				return err
			}
			return startWaiting(w, keys, time.Now(), &toWake)
		},
		After: func() {
			for _, id := range toWake {
				d.db.Waker.Notify(id)
			}
		},
	}, true)
	if err == nil {
		d.db.WakeOwner(toWake...)
	}
	return err
}
