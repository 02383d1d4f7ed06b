package serve

import (
	"context"
	"net"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/workflow"
)

const (
	waitFirst = 250 * time.Millisecond // between two tries to reach the database; it doubles
	waitMost  = 5 * time.Second
)

// waiting is a server whose database is away.
type waiting struct {
	options Options
	face    *server.WaitingServer // nil: it does not listen now
	pause   time.Duration
	since   time.Time
	done    bool // the server was created
}

// helps reports whether a later try may succeed. It does not cover errors of a
// server that already serves.
func (w *waiting) helps(err error) bool {
	return !w.done && w.options.Store.Shared() && fault.Of(err) == workflow.StoreUnavailable
}

// waits reports that there was no server yet.
func (w *waiting) waits() bool { return !w.done && !w.since.IsZero() }

// rest says why the server is not ready, until it is time for another try.
func (w *waiting) rest(ctx context.Context, cause error) error {
	o := &w.options
	if w.face == nil {
		face, err := server.NewWaitingServer(server.Options{Listen: o.Listen, CertFile: o.CertFile, KeyFile: o.KeyFile, Version: o.Version, Logger: o.Logger}, cause)
		if err != nil {
			return err
		}
		w.face = face
		if host, port, err := net.SplitHostPort(o.Listen); err == nil && port == "0" { // the port stays
			_, port, _ = net.SplitHostPort(face.Addr().String())
			o.Listen = net.JoinHostPort(host, port)
		}
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	w.face.SetCause(cause)
	w.pause = min(max(2*w.pause, waitFirst), waitMost)
	o.Logger.Warn("the server waits for its database", "error", cause, "since", w.since.UTC().Format(time.RFC3339), "again", w.pause, "listen", o.Listen)
	select {
	case <-ctx.Done():
	case <-time.After(w.pause):
	}
	return nil
}

// end frees the port.
func (w *waiting) end() {
	if w.face != nil {
		w.face.Close()
		w.face = nil
	}
}
