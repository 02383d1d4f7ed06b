package sqlite

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const insertSignalSQL = "INSERT INTO signal (run, id, data) VALUES (?, ?, ?)"

// Send implements runs.Dialect.
func (d *dialect) Send(_ context.Context, id string, signal runtype.Signal) error {
	var toWake []string
	err := d.db.Do(sqlite.Func{
		Run: func(w *sqlite.Writer) error {
			toWake = toWake[:0]
			known, err := find(w, id)
			if err != nil {
				return err
			}
			return accept(w, known, id, signal, time.Now(), true, &toWake)
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

// accept stores a signal once. It does not limit mail of other runs: without it a parent
// would wait for ever.
func accept(w *sqlite.Writer, to storedRun, id string, s runtype.Signal, now time.Time, bounded bool, toWake *[]string) error {
	seen, err := sqlite.Text(w.Conn, "SELECT 1 FROM signal WHERE run = ? AND id = ?", to.row, s.ID)
	switch {
	case err != nil || seen != "":
		return err
	case to.phase.Final():
		return runstore.ErrFinal
	}
	if bounded && to.mail >= runstore.MaxUnread {
		full, err := sqlite.Text(w.Conn, "SELECT 1 WHERE (SELECT count(*) FROM signal WHERE run = ? AND data IS NOT NULL) >= ?", to.row, runstore.MaxUnread)
		if err != nil {
			return err
		}
		if full != "" {
			return runstore.QueueFull.Errorf("run %s has %d unread signals", id, runstore.MaxUnread)
		}
	}
	if err := w.Exec(insertSignalSQL, to.row, s.ID, codec.AppendSignal(nil, &s)); err != nil {
		return err
	}
	if to.owned {
		err = w.Exec("UPDATE run SET mail = mail + 1 WHERE row = ?", to.row)
	} else {
		err = w.Exec("UPDATE run SET mail = mail + 1, due = ? WHERE row = ?", now.UnixNano(), to.row)
	}
	if err != nil {
		return err
	}
	to.mail++
	*toWake = append(*toWake, id)
	if to.mail > runstore.MaxSignalIDs && to.mail%64 == 0 {
		return w.Exec(`DELETE FROM signal WHERE run = ?1 AND data IS NULL AND row <
			(SELECT row FROM signal WHERE run = ?1 ORDER BY row DESC LIMIT 1 OFFSET CAST(?2 AS INTEGER))`, to.row, runstore.MaxSignalIDs-1)
	}
	return nil
}
