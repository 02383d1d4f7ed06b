package sql

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow"
)

// NotOwner is the fault of a client of a SQLite file that tries to work on runs.
var NotOwner = fault.Declare(fault.Kind{
	Code: "STORE_OWNED", Class: fault.Blocked,
	Title:  "another process owns the database file",
	Remedy: "Send the request to the process that owns the file, or stop that process first.",
})

func (s *SQLite) notOwner() error {
	return NotOwner.Errorf("another process works on the runs of %s", s.path)
}

// Claim claims due runs, the earliest first. See workflow.Claimer. It writes nothing:
// the claim table holds the owner, and the first save stores it.
func (s *SQLite) Claim(ctx context.Context, c workflow.Claim) (out workflow.Claimed, err error) {
	if !s.owner {
		return out, s.notOwner()
	}
	h := &s.claims
	h.claimMu.Lock()
	defer h.claimMu.Unlock()
	now := time.Now()
	early := h.beginClaim(c.Worker, c.Lease, now)
	defer h.endClaim()

	var found []workflow.Loaded
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		rows, next, err := s.due(conn, c, early, now)
		if err != nil {
			return err
		}
		out.Next = next
		for _, row := range rows {
			l, err := s.loadBy(conn, "WHERE run.row = ?", row)
			switch {
			case errors.Is(err, workflow.ErrNotFound):
			case errors.Is(err, workflow.StoreCorrupt) && !fatal(err):
				h.markUnreadable(row)
			case err != nil:
				return err
			default:
				found = append(found, l)
			}
		}
		return nil
	})
	if err != nil {
		h.requeueOrphans(early)
		return workflow.Claimed{}, err
	}
	for _, l := range found {
		if h.tryAssign(c.Worker, l.Run) {
			out.Runs = append(out.Runs, l)
		}
	}
	if lease := h.nextLeaseEnd(c.Worker); !lease.IsZero() && (out.Next.IsZero() || lease.Before(out.Next)) {
		out.Next = lease
	}
	return out, nil
}

// due returns the rows of runs to claim: first the runs of dead owners, then all flows
// by due time. next is the earliest due time after now.
func (s *SQLite) due(conn *sqlite.Conn, c workflow.Claim, early []int64, now time.Time) (rows []int64, next time.Time, err error) {
	h := &s.claims
	for i, row := range early {
		if len(rows) == c.Limit {
			h.requeueOrphans(early[i:])
			break
		}
		flow, err := text(conn, "SELECT flow FROM run WHERE row = ? AND ended IS NULL AND (due = 0 OR ?)", row, h.isOrphan(row))
		switch {
		case err != nil:
			return nil, next, err
		case flow == "":
		case slices.Contains(c.FullFlows, flow):
			h.requeueOrphans([]int64{row})
		default:
			rows = append(rows, row)
		}
	}
	type candidate struct{ row, due int64 }
	var list []candidate
	for flow := ""; ; {
		found := false
		err := query(conn, "SELECT flow FROM run WHERE due > 0 AND flow > ? ORDER BY flow LIMIT 1", func(row *sqlite.Stmt) error {
			flow, found = row.ColumnText(0), true
			return nil
		}, flow)
		if err != nil {
			return nil, next, err
		}
		if !found {
			break
		}
		if slices.Contains(c.FullFlows, flow) {
			continue
		}
		n := 0
		err = query(conn, "SELECT row, due FROM run WHERE flow = ? AND due > 0 ORDER BY due", func(row *sqlite.Stmt) error {
			at := candidate{row.ColumnInt64(0), row.ColumnInt64(1)}
			switch {
			case at.due > now.UnixNano():
				if t := db.Instant(at.due); next.IsZero() || t.Before(next) {
					next = t
				}
				return errEnough
			case n == c.Limit:
				return errEnough
			case h.isClaimable(at.row, at.due, now):
				list = append(list, at)
				n++
			}
			return nil
		}, flow)
		if err != nil && !errors.Is(err, errEnough) {
			return nil, next, err
		}
	}
	rested, soonest := h.dueParked(now)
	for _, row := range rested {
		list = append(list, candidate{row, now.UnixNano()})
	}
	if !soonest.IsZero() && (next.IsZero() || soonest.Before(next)) {
		next = soonest
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.row, b.row)) })
	for _, at := range list {
		if len(rows) < c.Limit && !slices.Contains(rows, at.row) {
			rows = append(rows, at.row)
		}
	}
	return rows, next, nil
}

var errEnough = errors.New("enough")

// ClaimRun claims one run. See workflow.Claimer.
func (s *SQLite) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (workflow.Loaded, error) {
	if !s.owner {
		return workflow.Loaded{}, s.notOwner()
	}
	h := &s.claims
	h.claimMu.Lock()
	defer h.claimMu.Unlock()
	for {
		early := h.beginClaim(worker, lease, time.Now())
		h.requeueOrphans(early)
		var l workflow.Loaded
		err := s.read(ctx, func(conn *sqlite.Conn) (err error) {
			l, err = s.loadBy(conn, "WHERE id = ?", id)
			return err
		})
		if err != nil {
			h.endClaim()
			return workflow.Loaded{}, err
		}
		answer := h.assignOne(worker, l.Run)
		h.endClaim()
		switch answer {
		case assignStale:
			continue
		case assignOwned:
			return workflow.Loaded{}, workflow.ErrOwned
		}
		return l, nil
	}
}

// ReleaseRun releases one run unchanged. See workflow.Claimer. It writes only if the
// run's row names an owner.
func (s *SQLite) ReleaseRun(ctx context.Context, worker string, r *workflow.Run, next time.Time) error {
	handle, ok := r.Handle.(*sqHandle)
	if !ok || handle.store != s {
		return nil
	}
	h := &s.claims
	held, epoch, saved := h.claimOf(handle.row, worker)
	if !held {
		return nil
	}
	if saved || h.parkedFull() {
		var wakeNow bool
		return s.writer.do(&sqWrite{
			run: func(w *sqWriter) error {
				old, err := w.run(handle.row)
				if err != nil {
					return err
				}
				var due any
				if wakeNow = r.Mail < old.mail || r.Revision != old.revision; wakeNow { // there was mail or a promotion in between
					due = time.Now().UnixNano()
				} else if !next.IsZero() {
					due = dueAt(next)
				}
				return w.exec("UPDATE run SET owner = NULL, epoch = max(epoch, ?), due = ? WHERE row = ? AND ended IS NULL", epoch, due, handle.row)
			},
			after: func() {
				h.forget(handle.row)
				if wakeNow {
					s.wake.Notify(r.ID)
				}
			},
		})
	}
	var mail, due, revision int64
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, "SELECT mail, due, revision FROM run WHERE row = ?", func(row *sqlite.Stmt) error {
			mail, due, revision = row.ColumnInt64(0), row.ColumnInt64(1), row.ColumnInt64(2)
			return nil
		}, handle.row)
	})
	if err != nil {
		return err
	}
	if mail > r.Mail || revision != r.Revision { // a signal or a promotion has made it due already
		h.forget(handle.row)
		s.wake.Notify(r.ID)
		return nil
	}
	h.park(handle.row, epoch, due, next)
	return nil
}

// Renew extends a worker's lease. See workflow.Claimer. It writes nothing.
func (s *SQLite) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.owner {
		return s.notOwner()
	}
	return s.claims.renew(worker, lease, time.Now())
}

// Release releases a worker and its runs. See workflow.Claimer.
func (s *SQLite) Release(ctx context.Context, worker string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.owner {
		return s.notOwner()
	}
	held := s.claims.heldBy(worker)
	if len(held) > 0 {
		err := s.writer.do(&sqWrite{
			run: func(w *sqWriter) error {
				for _, one := range held {
					if err := w.releaseRun(one); err != nil {
						return err
					}
				}
				return nil
			},
			after: func() {
				for _, one := range held {
					s.claims.forget(one.row)
					s.wake.Notify(one.id)
				}
			},
		})
		if err != nil {
			return err
		}
	}
	s.claims.removeWorker(worker)
	return nil
}

// releaseRun stores that a run has no owner. A waiting run keeps its due time. A run
// that was executing or has mail is due at once.
func (w *sqWriter) releaseRun(one heldRun) error {
	var due any
	var body []byte
	phase, at := workflow.Phase(""), int64(-1)
	err := query(w.conn, "SELECT phase, due, body FROM run WHERE row = ? AND ended IS NULL", func(row *sqlite.Stmt) error {
		phase, body = codec.PhaseOf(row.ColumnInt64(0)), column(row, 2)
		if !row.ColumnIsNull(1) {
			at = row.ColumnInt64(1)
		}
		return nil
	}, one.row)
	if err != nil || phase == "" {
		return err
	}
	if at == 0 {
		var r workflow.Run
		if _, _, rest, err := readRowPointers(body); err == nil {
			_, _ = codec.ReadBody(rest, &r) // a damaged body is reported when the run is claimed
		}
		at = -1
		if !r.NextAt.IsZero() {
			at = dueAt(r.NextAt)
		}
	}
	unread, err := text(w.conn, "SELECT 1 FROM signal WHERE run = ? AND data IS NOT NULL LIMIT 1", one.row)
	if err != nil {
		return err
	}
	if unread != "" || phase == workflow.Running || phase == workflow.Cancelling { // an attempt may be open, whatever the run waits for
		at = time.Now().UnixNano()
	}
	if at > 0 {
		due = at
	}
	return w.exec("UPDATE run SET owner = NULL, epoch = max(epoch, ?), due = ? WHERE row = ?", one.epoch, due, one.row)
}
