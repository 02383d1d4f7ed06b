package node

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// place is where a worker is to join, and whether it is to leave.
type place struct {
	control, caHash string
	drain           bool
}

// link is the way to a control node. A *caller is one.
type link interface {
	join(ctx context.Context, token string, m Member) (joinAnswer, error)
	leave(ctx context.Context, token string, m Member) error
	close()
}

// joiner keeps a worker in the list of its control node.
type joiner struct {
	times  Times
	self   Member
	lease  string                      // of the present control node
	tokens func() []string             // what may pay for joining, best first
	place  func() place                // the newest
	dial   func(p place) (link, error) // a way to it
	keep   func(lease string) error    // for the next start
	state  func(ready bool, reason string)
	heard  func(joinAnswer) // nil: nobody listens
	bell   <-chan struct{}  // the place changed
	now    func() time.Time
	log    *slog.Logger
}

// farewell is how long leaving may take when the node ends.
const farewell = time.Second

// Why a worker is not ready.
const (
	waitsForControl = "WaitsForControl"
	notJoined       = "NotJoined"
	draining        = "Draining"
	upgrading       = "Upgrading"  // of a control node
	waitsForCA      = "WaitsForCA" // likewise
)

// run joins, renews, and joins again after silence, a new control node or a
// drain that was taken back. It leaves when it ends.
func (j *joiner) run(ctx context.Context) {
	var (
		at     place
		to     link
		joined time.Time // the newest renewal; zero: not in the list
		tries  int
		last   = "none yet"
	)
	leave := func(ctx context.Context) {
		if to == nil || joined.IsZero() {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, farewell)
		defer cancel()
		if err := to.leave(ctx, j.lease, j.self); err != nil {
			j.log.Warn("leaving without a word", "error", err)
		}
		joined = time.Time{}
	}
	defer func() {
		leave(context.WithoutCancel(ctx))
		if to != nil {
			to.close()
		}
	}()
	for ctx.Err() == nil {
		p := j.place()
		if p.control != at.control || p.caHash != at.caHash {
			if to != nil {
				to.close()
			}
			to, at, joined, tries = nil, p, time.Time{}, 0
		}
		pause := j.times.Renew
		switch {
		case p.drain:
			leave(ctx)
			j.state(false, draining)
		case p.control == "" || p.caHash == "":
			j.state(false, waitsForControl)
		default:
			var err error
			if to == nil {
				to, err = j.dial(p)
			}
			var a joinAnswer
			if err == nil {
				a, err = j.enter(ctx, to)
			}
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				joined, tries = j.now(), 0
				if j.state(true, ""); j.heard != nil {
					j.heard(a)
				}
				if a.Renew > 0 {
					pause = max(a.Renew, leastEvery)
				}
			} else {
				tries++
				pause = j.times.pause(tries)
				if errors.Is(err, errRefused) || j.now().Sub(joined) > j.times.Silence {
					joined = time.Time{}
					j.state(false, notJoined+": "+err.Error())
				}
			}
			last = note(j.log, "the control node", last, err)
		}
		if !await(ctx, pause, j.bell) {
			return
		}
	}
}

// enter brings the lease, and the tokens if that does not count.
func (j *joiner) enter(ctx context.Context, to link) (a joinAnswer, err error) {
	err = errRefused
	for i, token := range append([]string{j.lease}, j.tokens()...) {
		if token == "" {
			continue
		}
		if a, err = to.join(ctx, token, j.self); err == nil {
			if a.Lease != "" && a.Lease != j.lease {
				j.lease = a.Lease
				err = j.keep(a.Lease)
			}
			if i > 0 {
				j.log.Info("joined the cluster")
			}
			return a, err
		}
		if !errors.Is(err, errRefused) {
			return a, err
		}
	}
	return a, err
}
