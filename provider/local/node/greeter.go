package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// greeter says hello at home for as long as the node lives.
type heartbeater struct {
	times          Times
	token          string // of the user data: pays for the first hello
	credential     string // pays for those that follow; empty until home gives it
	send           func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error)
	heartbeat      func() cluster.Hello
	onAnswer       func(cluster.HelloAnswer)
	saveCredential func(credential string) error
	wake           <-chan struct{} // something changed that home should know
	log            *slog.Logger
}

// The time between hellos is home's to say, within reason.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = time.Minute
)

// run goes on when home is silent or refuses: the server may have been
// restarted, and its books brought back.
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
		last = note(g.log, "home", last, err)
		if !await(ctx, pause, g.wake) {
			return
		}
	}
}

// note writes a line when what is said of another changes, and not each time it is said.
func note(log *slog.Logger, whom, last string, err error) string {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == last:
	case err != nil:
		log.Warn(whom+" does not answer as it should", "error", text)
	default:
		log.Info(whom + " answers")
	}
	return text
}

// await ends after a time or a bell; false: the context has ended.
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
