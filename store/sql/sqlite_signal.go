package sql

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/workflow"
)

// Send stores a signal for a run. See workflow.Store.
func (s *SQLite) Send(ctx context.Context, id string, signal workflow.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var toWake []string
	err := s.writer.do(&sqWrite{
		run: func(w *sqWriter) error {
			toWake = toWake[:0]
			known, err := w.find(id)
			if err != nil {
				return err
			}
			return w.accept(known, id, signal, time.Now(), true, &toWake)
		},
		after: func() {
			for _, id := range toWake {
				s.wake.Notify(id)
			}
		},
	})
	if err == nil {
		s.wakeOwner(toWake)
	}
	return err
}

// accept stores a signal once. It does not limit mail of other runs: without it a parent
// would wait for ever.
func (w *sqWriter) accept(to sqRow, id string, s workflow.Signal, now time.Time, bounded bool, toWake *[]string) error {
	seen, err := text(w.conn, "SELECT 1 FROM signal WHERE run = ? AND id = ?", to.row, s.ID)
	switch {
	case err != nil || seen != "":
		return err
	case to.phase.Final():
		return workflow.ErrFinal
	}
	if bounded && to.mail >= workflow.MaxUnread {
		full, err := text(w.conn, "SELECT 1 WHERE (SELECT count(*) FROM signal WHERE run = ? AND data IS NOT NULL) >= ?", to.row, workflow.MaxUnread)
		if err != nil {
			return err
		}
		if full != "" {
			return workflow.QueueFull.Errorf("run %s has %d unread signals", id, workflow.MaxUnread)
		}
	}
	if err := w.exec("INSERT INTO signal (run, id, data) VALUES (?, ?, ?)", to.row, s.ID, codec.AppendSignal(nil, &s)); err != nil {
		return err
	}
	if to.owned {
		err = w.exec("UPDATE run SET mail = mail + 1 WHERE row = ?", to.row)
	} else {
		err = w.exec("UPDATE run SET mail = mail + 1, due = ? WHERE row = ?", now.UnixNano(), to.row)
	}
	if err != nil {
		return err
	}
	to.mail++
	*toWake = append(*toWake, id)
	if to.mail > workflow.MaxSignalIDs && to.mail%64 == 0 {
		return w.exec(`DELETE FROM signal WHERE run = ?1 AND data IS NULL AND row <
			(SELECT row FROM signal WHERE run = ?1 ORDER BY row DESC LIMIT 1 OFFSET CAST(?2 AS INTEGER))`, to.row, workflow.MaxSignalIDs-1)
	}
	return nil
}
