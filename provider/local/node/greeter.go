package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// greeter says hello at home for as long as the node lives.
type greeter struct {
	times      Times
	token      string // of the user data: pays for the first hello
	credential string // pays for those that follow; empty until home gives it
	say        func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error)
	hello      func() cluster.Hello
	heard      func(cluster.HelloAnswer)
	keep       func(credential string) error
	bell       <-chan struct{} // something changed that home should know
	log        *slog.Logger
}

// The time between hellos is home's to say, within reason.
const (
	leastEvery = 50 * time.Millisecond
	mostEvery  = time.Minute
)

// run goes on when home is silent or refuses: the server may have been
// restarted, and its books brought back.
func (g *greeter) run(ctx context.Context) {
	tries, last := 0, "none yet"
	byToken := g.credential == ""
	for ctx.Err() == nil {
		token := g.credential
		if byToken {
			token = g.token
		}
		a, err := g.say(ctx, token, g.hello())
		if err == nil && a.Credential != "" {
			if err = g.keep(a.Credential); err == nil {
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
			g.heard(a)
			pause = g.times.Hello
			if a.Every > 0 {
				pause = min(max(a.Every, leastEvery), mostEvery)
			}
		default:
			tries++
			pause = g.times.pause(tries)
			if errors.Is(err, errRefused) && g.credential != "" && g.token != "" {
				byToken = !byToken
			}
		}
		last = note(g.log, "home", last, err)
		if !await(ctx, pause, g.bell) {
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
func await(ctx context.Context, d time.Duration, bell <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-bell:
	}
	return true
}
