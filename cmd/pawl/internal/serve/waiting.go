package serve

import (
	"context"
	"net"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

const (
	waitFirst = 250 * time.Millisecond // between two tries to reach the database; it doubles
	waitMost  = 5 * time.Second
)

// waiting is a server whose database is away.
type waiting struct {
	options Options
	server  *server.WaitingServer // nil: it does not listen now
	delay   time.Duration         // before the next try
	since   time.Time
	done    bool // the server was created
}

// retryHelps reports whether a later try may succeed. It does not cover errors of a
// server that already serves.
func (w *waiting) retryHelps(err error) bool {
	return !w.done && w.options.Store.Shared() && fault.Of(err) == runstore.StoreUnavailable
}

// pending reports that there was no server yet.
func (w *waiting) pending() bool { return !w.done && !w.since.IsZero() }

// pause says why the server is not ready, until it is time for another try.
func (w *waiting) pause(ctx context.Context, cause error) error {
	o := &w.options
	if w.server == nil {
		face, err := server.NewWaitingServer(server.Options{Listen: o.Listen, CertFile: o.CertFile, KeyFile: o.KeyFile, Version: o.Version, Logger: o.Logger}, cause)
		if err != nil {
			return err
		}
		w.server = face
		if host, port, err := net.SplitHostPort(o.Listen); err == nil && port == "0" { // the port stays
			_, port, _ = net.SplitHostPort(face.Addr().String())
			o.Listen = net.JoinHostPort(host, port)
		}
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	w.server.SetCause(cause)
	w.delay = min(max(2*w.delay, waitFirst), waitMost)
	o.Logger.Warn("the server waits for its database", "error", cause, "since", w.since.UTC().Format(time.RFC3339), "again", w.delay, "listen", o.Listen)
	select {
	case <-ctx.Done():
	case <-time.After(w.delay):
	}
	return nil
}

// end frees the port.
func (w *waiting) end() {
	if w.server != nil {
		w.server.Close()
		w.server = nil
	}
}
