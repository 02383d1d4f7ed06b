package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Claim claims due runs, the earliest first. It writes nothing:
// the claim table holds the owner, and the first save stores it.
func (d *dialect) Claim(ctx context.Context, c runstore.Claim) (out runstore.Claimed, err error) {
	if err := d.db.NotOwner(); err != nil {
		return out, err
	}
	h := &d.claims
	h.claimMu.Lock()
	defer h.claimMu.Unlock()
	now := time.Now()
	early := h.beginClaim(c.Worker, c.Lease, now)
	defer h.endClaim()

	var found []runstore.Loaded
	err = d.db.Read(ctx, func(x db.Session) error {
		rows, next, err := d.due(x, c, early, now)
		if err != nil {
			return err
		}
		out.Next = next
		for _, row := range rows {
			l, err := d.runs.LoadKey(x, row)
			switch {
			case errors.Is(err, runstore.ErrNotFound):
			case errors.Is(err, runstore.StoreCorrupt):
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
		return runstore.Claimed{}, err
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
func (d *dialect) due(x db.Session, c runstore.Claim, early []int64, now time.Time) (rows []int64, next time.Time, err error) {
	h := &d.claims
	for i, row := range early {
		if len(rows) == c.Limit {
			h.requeueOrphans(early[i:])
			break
		}
		flow := ""
		err := x.Query("SELECT flow FROM run WHERE row = ? AND ended IS NULL AND (due = 0 OR ?)", []any{row, h.isOrphan(row)}, func(r db.Row) error {
			flow = r.Text(0)
			return nil
		})
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
		err := x.Query("SELECT flow FROM run WHERE due > 0 AND flow > ? ORDER BY flow LIMIT 1", []any{flow}, func(r db.Row) error {
			flow, found = r.Text(0), true
			return nil
		})
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
		err = x.Query("SELECT row, due FROM run WHERE flow = ? AND due > 0 ORDER BY due", []any{flow}, func(r db.Row) error {
			at := candidate{r.Int(0), r.Int(1)}
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
		})
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

// ClaimRun claims one run.
func (d *dialect) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (runstore.Loaded, error) {
	if err := d.db.NotOwner(); err != nil {
		return runstore.Loaded{}, err
	}
	h := &d.claims
	h.claimMu.Lock()
	defer h.claimMu.Unlock()
	for {
		early := h.beginClaim(worker, lease, time.Now())
		h.requeueOrphans(early)
		var l runstore.Loaded
		err := d.db.Read(ctx, func(x db.Session) (err error) {
			l, err = d.runs.LoadID(x, id)
			return err
		})
		if err != nil {
			h.endClaim()
			return runstore.Loaded{}, err
		}
		answer := h.assignOne(worker, l.Run)
		h.endClaim()
		switch answer {
		case assignStale:
			continue
		case assignOwned:
			return runstore.Loaded{}, runstore.ErrOwned
		}
		return l, nil
	}
}

// ReleaseRun releases one run unchanged. It writes only if the
// run's row names an owner.
func (d *dialect) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	handle, ok := d.runs.Of(r)
	if !ok {
		return nil
	}
	h := &d.claims
	held, epoch, saved := h.claimOf(handle.Key, worker)
	if !held {
		return nil
	}
	if saved || h.parkedFull() {
		var wakeNow bool
		return d.db.Do(sqlite.Func{
			Run: func(w *sqlite.Writer) error {
				old, err := byRow(w, handle.Key)
				if err != nil {
					return err
				}
				var due any
				if wakeNow = r.Mail < old.mail || r.Revision != old.revision; wakeNow { // there was mail or a promotion in between
					due = time.Now().UnixNano()
				} else if !next.IsZero() {
					due = dueAt(next)
				}
				return w.Exec("UPDATE run SET owner = NULL, epoch = max(epoch, ?), due = ? WHERE row = ? AND ended IS NULL", epoch, due, handle.Key)
			},
			After: func() {
				h.forget(handle.Key)
				if wakeNow {
					d.db.Waker.Notify(r.ID)
				}
			},
		}, true)
	}
	var mail, due, revision int64
	err := d.db.Read(ctx, func(x db.Session) error {
		return x.Query("SELECT mail, due, revision FROM run WHERE row = ?", []any{handle.Key}, func(r db.Row) error {
			mail, due, revision = r.Int(0), r.Int(1), r.Int(2)
			return nil
		})
	})
	if err != nil {
		return err
	}
	if mail > r.Mail || revision != r.Revision { // a signal or a promotion has made it due already
		h.forget(handle.Key)
		d.db.Waker.Notify(r.ID)
		return nil
	}
	h.park(handle.Key, epoch, due, next)
	return nil
}

// Renew extends a worker's lease. It writes nothing.
func (d *dialect) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.db.NotOwner(); err != nil {
		return err
	}
	return d.claims.renew(worker, lease, time.Now())
}

// Release releases a worker and its runs.
func (d *dialect) Release(ctx context.Context, worker string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.db.NotOwner(); err != nil {
		return err
	}
	held := d.claims.heldBy(worker)
	if len(held) > 0 {
		err := d.db.Do(sqlite.Func{
			Run: func(w *sqlite.Writer) error {
				for _, one := range held {
					if err := releaseRun(w, one); err != nil {
						return err
					}
				}
				return nil
			},
			After: func() {
				for _, one := range held {
					d.claims.forget(one.row)
					d.db.Waker.Notify(one.id)
				}
			},
		}, true)
		if err != nil {
			return err
		}
	}
	d.claims.removeWorker(worker)
	return nil
}

// releaseRun stores that a run has no owner. A waiting run keeps its due time. A run
// that was executing or has mail is due at once.
func releaseRun(w *sqlite.Writer, one heldRun) error {
	var due any
	var body []byte
	phase, at := runtype.Phase(""), int64(-1)
	err := sqlite.Query(w.Conn, "SELECT phase, due, body FROM run WHERE row = ? AND ended IS NULL", func(row *driver.Stmt) error {
		phase, body = codec.PhaseOf(row.ColumnInt64(0)), sqlite.Column(row, 2)
		if !row.ColumnIsNull(1) {
			at = row.ColumnInt64(1)
		}
		return nil
	}, one.row)
	if err != nil || phase == "" {
		return err
	}
	if at == 0 {
		var r runtype.Run
		if _, _, rest, err := runs.ReadPointers(body); err == nil {
			_, _ = codec.ReadBody(rest, &r) // a damaged body is reported when the run is claimed
		}
		at = -1
		if !r.NextAt.IsZero() {
			at = dueAt(r.NextAt)
		}
	}
	unread, err := sqlite.Text(w.Conn, "SELECT 1 FROM signal WHERE run = ? AND data IS NOT NULL LIMIT 1", one.row)
	if err != nil {
		return err
	}
	if unread != "" || phase == runtype.Running || phase == runtype.Cancelling { // an attempt may be open, whatever the run waits for
		at = time.Now().UnixNano()
	}
	if at > 0 {
		due = at
	}
	return w.Exec("UPDATE run SET owner = NULL, epoch = max(epoch, ?), due = ? WHERE row = ?", one.epoch, due, one.row)
}

// Wake implements runstore.Claimer. See DB.Waker.
func (d *dialect) Wake() <-chan string { return d.db.Waker.C }

// Claimed adds a claim that no save has stored yet.
func (d *dialect) Claimed(r *runtype.Run) { d.claims.applyTo(r) }

// Workers implements runstore.Workers. Only the owner of the file knows them.
func (d *dialect) Workers(ctx context.Context) ([]runstore.Worker, error) {
	if err := cmp.Or(ctx.Err(), d.db.NotOwner()); err != nil {
		return nil, err
	}
	return d.claims.list(time.Now()), nil
}
