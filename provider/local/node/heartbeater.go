package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// heartbeater sends heartbeats to the server for as long as the node runs.
type heartbeater struct {
	times          Times
	token          string // of the user data: for the first heartbeat
	credential     string // for later heartbeats; empty until the server sends it
	send           func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error)
	heartbeat      func() cluster.Heartbeat
	onAnswer       func(cluster.HeartbeatAnswer)
	saveCredential func(credential string) error
	wake           <-chan struct{} // triggers a heartbeat
	log            *slog.Logger
}

// Limits of the heartbeat interval that the server sets.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = time.Minute
)

// run continues when the server is silent or refuses: the server may have been restarted
// and its database restored.
func (g *heartbeater) run(ctx context.Context) {
	tries, last := 0, "none yet"
	byToken := g.credential == ""
	for ctx.Err() == nil {
		token := g.credential
		if byToken {
			token = g.token
		}
		a, err := g.send(ctx, token, g.heartbeat())
		if err == nil && a.Credential != "" {
			if err = g.saveCredential(a.Credential); err == nil {
				g.credential, byToken = a.Credential, false
			}
		}
		if ctx.Err() != nil {
			return
		}
		var pause time.Duration
		switch {
		case err == nil:
			tries = 0
			g.onAnswer(a)
			pause = g.times.Heartbeat
			if a.Every > 0 {
				pause = min(max(a.Every, minInterval), maxInterval)
			}
		default:
			tries++
			pause = g.times.pause(tries)
			if errors.Is(err, errRefused) && g.credential != "" && g.token != "" {
				byToken = !byToken
			}
		}
		last = note(g.log, "the server", last, err)
		if !await(ctx, pause, g.wake) {
			return
		}
	}
}

// note logs a change of the error, and not each repetition.
func note(log *slog.Logger, whom, last string, err error) string {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == last:
	case err != nil:
		log.Warn(whom+" does not answer correctly", "error", text)
	default:
		log.Info(whom + " answers")
	}
	return text
}

// await waits for a time or a wake-up; false: the context has ended.
func await(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}
