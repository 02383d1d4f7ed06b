package notification

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// worker is what a sender keeps of a notification between passes, so that a pass without work reads
// the history alone. One goroutine uses it at a time.
type worker struct {
	busy   bool
	object control.Object // the newest that is known
	target *Target        // of the object's spec; nil: not parsed yet
	parsed int64          // generation that target is of
	status Status
	broken error // why status cannot be read

	saved, read                 string // cursors: of the status, and how far the history was read without finding anything to send
	pages                       int    // events between the two
	savedClusters, readClusters string // the same of the container clusters

	recheck time.Time // when secrets that could not be used are read again

	client *http.Client
	url    string // that client is for
}

// see takes a state of the object, unless a newer one is known.
func (w *worker) see(o control.Object) {
	if o.Revision <= w.object.Revision {
		return
	}
	w.object = o
	w.status, w.broken = StatusOf(o)
}

// statusNow is a copy that may be changed.
func (w *worker) statusNow() Status {
	s := w.status
	s.Waiting, s.Dead = slices.Clone(s.Waiting), slices.Clone(s.Dead)
	if s.Objects != nil {
		s.Objects = &Objects{Interrupted: maps.Clone(s.Objects.Interrupted)}
	}
	return s
}

// moved reports whether a status says that more was read than the stored one.
func (w *worker) moved(s Status) bool {
	return s.Cursor != w.status.Cursor || s.Clusters != w.status.Clusters || (s.Objects == nil) != (w.status.Objects == nil) ||
		s.Objects != nil && !maps.EqualFunc(s.Objects.Interrupted, w.status.Objects.Interrupted, func(a, b Interruption) bool { return a.Since.Equal(b.Since) })
}

// spec returns the parsed spec of the object.
func (w *worker) spec() (*Target, error) {
	if w.target == nil || w.parsed != w.object.Generation {
		t, err := Parse(w.object.Spec)
		if err != nil {
			return nil, Invalid.Errorf("spec: %w", err)
		}
		w.target, w.parsed = t, w.object.Generation
	}
	return w.target, nil
}

// clientOf returns the client of a URL. A connection of one URL serves no other.
func (w *worker) clientOf(url string, create func() *http.Client) *http.Client {
	if w.client == nil || w.url != url {
		w.close()
		w.client, w.url = create(), url
	}
	return w.client
}

func (w *worker) close() {
	if w.client != nil {
		w.client.CloseIdleConnections()
	}
}
