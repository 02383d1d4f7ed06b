package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// repair corrects small deviations of a running engine.
func (a *Agent) repair(ctx context.Context, r record, s engineState) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var err error
	if s.Recovery {
		err = a.repairFollower(ctx, r, s)
	} else {
		err = a.repairWriter(ctx, r)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("correcting the engine", "err", err)
	}
}

// repairWriter sets the password of this cluster if the data came from elsewhere or if the
// password was replaced, and drops the slots of instances that left.
func (a *Agent) repairWriter(ctx context.Context, r record) error {
	a.archive.prepare(r.Archive)
	if err := a.archive.observe(ctx, r.Archive); err != nil {
		return err
	}
	if password := a.secret.present(); r.Password != short(password) {
		if err := a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "ALTER ROLE "+superuser+" PASSWORD "+literal(password))
			return err
		}); err != nil {
			return err
		}
		if err := a.change(func(r *record) { r.Password = short(password) }); err != nil {
			return err
		}
	}
	a.mu.Lock()
	drop := slices.Clone(a.live.drop)
	a.mu.Unlock()
	if len(drop) == 0 {
		return nil
	}
	var left int
	if err := a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if err := forget(ctx, c, drop...); err != nil {
			return err
		}
		return c.QueryRow(ctx, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = ANY(string_to_array("+literal(strings.Join(drop, ","))+", ','))").Scan(&left)
	}); err != nil || left > 0 {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live.drop = slices.DeleteFunc(a.live.drop, func(slot string) bool { return slices.Contains(drop, slot) })
	return nil
}

// notReceivingAfter is how long a follower may not receive before the agent asks the upstream why.
const notReceivingAfter = time.Second

// repairFollower records that a follower receives, and finds out why if it does not.
func (a *Agent) repairFollower(ctx context.Context, r record, s engineState) error {
	if r.Upstream == nil || r.Hold || r.Promote > 0 {
		return nil
	}
	if a.srv.password() != a.secret.present() { // the next connection to the upstream may need the new password
		if c, err := a.reach(ctx, *r.Upstream); err == nil {
			_ = c.Close(ctx) // it was opened to see which password is valid
		}
	}
	if s.Streaming && s.Source == r.Upstream.address() {
		a.mu.Lock()
		a.live.still = time.Time{}
		a.mu.Unlock()
		if !r.Ahead {
			return nil
		}
		// Its upstream continues where it ended. The slots from the time when it wrote would keep
		// log forever.
		if err := a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error { return forget(ctx, c) }); err != nil {
			return err
		}
		return a.change(func(r *record) { r.Ahead = false })
	}
	a.mu.Lock()
	first := a.live.still.IsZero()
	if first {
		a.live.still = time.Now()
	}
	due := time.Since(a.live.still) >= notReceivingAfter
	if due {
		a.live.still = time.Now()
	}
	a.mu.Unlock()
	if !due {
		return nil
	}
	return a.checkUpstream(ctx, r, s)
}

// checkUpstream asks the upstream why the follower receives nothing: the slot is missing, the
// needed log is gone, or the upstream is on a timeline that these data do not fit.
func (a *Agent) checkUpstream(ctx context.Context, r record, s engineState) error {
	c, err := a.reach(ctx, *r.Upstream)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if err := reserve(ctx, c, slotName(a.name)); err != nil {
		return err
	}
	if said := a.srv.tail(a.srv.logSize() - 600); strings.Contains(said, "requested WAL segment") && strings.Contains(said, "has already been removed") {
		a.log.Warn("the log that is needed is gone: the data are copied again", "upstream", r.Upstream.Name)
		return a.change(func(r *record) { r.Broken = true })
	}
	their, err := queryLineage(ctx, c)
	if err != nil || their.Recovery {
		return err
	}
	if diverged(s.Timeline, max(s.Position, s.Received), their.Timeline, their.Forks) {
		a.log.Warn("the data do not fit the upstream: they are rewound", "upstream", r.Upstream.Name, "timeline", s.Timeline, "theirs", their.Timeline)
		a.mu.Lock()
		a.live.diverged = true
		a.mu.Unlock()
		a.wake()
	}
	return nil
}

var errNotYet = errors.New("it does not write yet")

// rewind makes data that may have diverged fit the upstream.
func (a *Agent) rewind(ctx context.Context, up Upstream) error {
	data, err := a.srv.control(ctx)
	if err != nil {
		return err
	}
	their, err := a.upstreamLineage(ctx, up)
	if err != nil {
		return err
	}
	fits := func(r *record) { r.Ahead, r.Broken = false, false }
	a.mu.Lock()
	twice := a.rec.Ahead && max(data.Timeline, a.rec.Timeline) == their.Timeline // both were promoted to it, and pg_rewind sees no difference
	a.mu.Unlock()
	if data.Clean() && !twice && !diverged(data.Timeline, data.Position, their.Timeline, their.Forks) {
		a.log.Info("the data fit the upstream", "upstream", up.Name)
		return errors.Join(a.change(fits), a.clearDiverged())
	}
	if err := a.change(func(r *record) { r.Broken = true }); err != nil {
		return err
	}
	if twice {
		a.log.Warn("upstream and data were promoted to the same timeline: the data are copied again", "timeline", their.Timeline)
		return a.copyFrom(ctx, up)
	}
	began := time.Now()
	if err := a.srv.rewind(ctx, up); err != nil {
		if ctx.Err() != nil {
			return err
		}
		a.log.Warn("the data cannot be rewound: they are copied again", "err", err)
		return a.copyFrom(ctx, up)
	}
	a.log.Info("the data were rewound", "upstream", up.Name, "took", time.Since(began).Round(time.Millisecond))
	if err := a.srv.setStandby(true); err != nil {
		return err
	}
	return errors.Join(a.change(fits), a.clearDiverged())
}

// clearDiverged records that the data fit again.
func (a *Agent) clearDiverged() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live.diverged = false
	return nil
}

// upstreamLineage reads the timelines of a writing upstream. A checkpoint there makes sure that
// pg_rewind reads current control data.
func (a *Agent) upstreamLineage(ctx context.Context, up Upstream) (lineage, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := a.reach(ctx, up)
	if err != nil {
		return lineage{}, err
	}
	defer c.Close(ctx)
	l, err := queryLineage(ctx, c)
	if err == nil && l.Recovery {
		err = errNotYet
	}
	if err == nil {
		_, err = c.Exec(ctx, "CHECKPOINT")
	}
	return l, err
}

// copyFrom replaces the data by a new copy.
func (a *Agent) copyFrom(ctx context.Context, up Upstream) error {
	if err := a.reserve(ctx, up); err != nil {
		return err
	}
	if err := a.srv.backup(ctx, up); err != nil {
		return err
	}
	return errors.Join(a.change(func(r *record) { r.Ahead, r.Broken, r.Fresh = false, false, false }), a.clearDiverged())
}
