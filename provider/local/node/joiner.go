package node

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// joinTarget is the control node that a node must join, and whether the node must leave.
type joinTarget struct {
	control, caHash string
	drain           bool
}

// controlClient is the client of a control node. A *caller is one.
type controlClient interface {
	join(ctx context.Context, token string, m Member) (joinAnswer, error)
	leave(ctx context.Context, token string, m Member) error
	close()
}

// joiner keeps a node a member of its control node.
type joiner struct {
	times     Times
	self      Member
	lease     string                                    // of the current control node
	tokens    func() []string                           // tokens for joining, the best first
	target    func() joinTarget                         // the current target
	dial      func(p joinTarget) (controlClient, error) // returns a client of the target
	saveLease func(lease string) error                  // stores the lease for the next start
	setReady  func(ready bool, reason string)
	onAnswer  func(joinAnswer) // may be nil
	wake      <-chan struct{}  // the target has changed
	now       func() time.Time
	log       *slog.Logger
}

// leaveTimeout is how long leaving may take when the node ends.
const leaveTimeout = time.Second

// Reasons why a node is not ready.
const (
	waitsForControl = "WaitsForControl"
	notJoined       = "NotJoined"
	draining        = "Draining"
	upgrading       = "Upgrading"  // of a control node
	waitsForCA      = "WaitsForCA" // likewise
)

// run joins, renews, and joins again after silence, after a change of the target or after
// a cancelled drain. It leaves when it ends.
func (j *joiner) run(ctx context.Context) {
	var (
		at     joinTarget
		to     controlClient
		joined time.Time // time of the newest renewal; zero: not a member
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
			j.log.Warn("could not leave", "error", err)
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

// enter joins with the lease, or with the tokens if the lease is invalid.
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
