package node

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// place is where a worker is to join, and whether it is to leave.
type joinTarget struct {
	control, caHash string
	drain           bool
}

// link is the way to a control node. A *caller is one.
type controlClient interface {
	join(ctx context.Context, token string, m Member) (joinAnswer, error)
	leave(ctx context.Context, token string, m Member) error
	close()
}

// joiner keeps a worker in the list of its control node.
type joiner struct {
	times     Times
	self      Member
	lease     string                                    // of the present control node
	tokens    func() []string                           // what may pay for joining, best first
	target    func() joinTarget                         // the newest
	dial      func(p joinTarget) (controlClient, error) // a way to it
	saveLease func(lease string) error                  // for the next start
	setReady  func(ready bool, reason string)
	onAnswer  func(joinAnswer) // nil: nobody listens
	wake      <-chan struct{}  // the place changed
	now       func() time.Time
	log       *slog.Logger
}

// farewell is how long leaving may take when the node ends.
const leaveTimeout = time.Second

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
		at     joinTarget
		to     controlClient
		joined time.Time // the newest renewal; zero: not in the list
		tries  int
		last   = "none yet"
	)
	leave := func(ctx context.Context) {
		if to == nil || joined.IsZero() {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
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
		p := j.target()
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
			j.setReady(false, draining)
		case p.control == "" || p.caHash == "":
			j.setReady(false, waitsForControl)
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
				if j.setReady(true, ""); j.onAnswer != nil {
					j.onAnswer(a)
				}
				if a.Renew > 0 {
					pause = max(a.Renew, minInterval)
				}
			} else {
				tries++
				pause = j.times.pause(tries)
				if errors.Is(err, errRefused) || j.now().Sub(joined) > j.times.Silence {
					joined = time.Time{}
					j.setReady(false, notJoined+": "+err.Error())
				}
			}
			last = note(j.log, "the control node", last, err)
		}
		if !await(ctx, pause, j.wake) {
			return
		}
	}
}

// enter brings the lease, and the tokens if that does not count.
func (j *joiner) enter(ctx context.Context, to controlClient) (a joinAnswer, err error) {
	err = errRefused
	for i, token := range append([]string{j.lease}, j.tokens()...) {
		if token == "" {
			continue
		}
		if a, err = to.join(ctx, token, j.self); err == nil {
			if a.Lease != "" && a.Lease != j.lease {
				j.lease = a.Lease
				err = j.saveLease(a.Lease)
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
