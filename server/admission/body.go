package admission

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/pawl-dev/pawl/server/route"
)

const (
	anonymousBodyTime = 10 * time.Second // for the body of an unknown caller to arrive
	requestTimeout    = 30 * time.Second // for the next read after the body
)

// Admit reads the body of a request, then takes a slot for it. Health checks need no slot.
func (a *Admission) Admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route.CallOf(r.Context()).Route.Probe {
			next.ServeHTTP(w, r)
			return
		}
		free, err := a.admit(w, r)
		if err != nil {
			route.WriteProblem(w, r, err)
			return
		}
		defer free()
		next.ServeHTTP(w, r)
	})
}

func (a *Admission) admit(w http.ResponseWriter, r *http.Request) (free func(), err error) {
	c := route.CallOf(r.Context())
	if err := a.bufferBody(w, r, c); err != nil {
		return nil, err
	}
	switch {
	case c.Route.Late:
		return a.admitUnidentified(r, c)
	case c.Route.Stream:
		return take(a.streams)
	case c.Who.Role == route.Anyone:
		return a.anonymousSlots.take(clientAddress(r))
	default:
		return take(a.slots)
	}
}

// admitUnidentified admits a request whose route identifies the caller. route.Admit then takes its slot.
func (a *Admission) admitUnidentified(r *http.Request, c *route.Call) (free func(), err error) {
	leave, err := a.identifying.take(clientAddress(r))
	if err != nil {
		return nil, err
	}
	c.Admit = func() error {
		slot, err := take(a.slots)
		if err == nil {
			leave()
			leave, c.Admit = slot, nil
		}
		return err
	}
	return func() { leave() }, nil
}

// bufferBody reads the body of a request into memory, if its route reads one.
// Routes with a format of their own get a failed read as the error of their own read.
func (a *Admission) bufferBody(w http.ResponseWriter, r *http.Request, c *route.Call) error {
	if r.Body == nil || r.Body == http.NoBody || r.Method == http.MethodGet || r.Method == http.MethodHead || c.Who.Role == route.Anyone && !c.Route.Late {
		r.Body = http.NoBody
		return nil
	}
	limit := a.maxBody
	if c.Route.MaxBody > 0 {
		limit = min(limit, c.Route.MaxBody)
	}
	if r.ContentLength > limit && !c.Route.OwnFormat {
		return route.TooLarge.Errorf("the body has %d bytes, the limit is %d", r.ContentLength, limit)
	}
	body, err := a.readBody(w, r, c, limit)
	if err != nil && !c.Route.OwnFormat {
		return err
	}
	r.Body = &bufferedBody{Reader: bytes.NewReader(body), err: err}
	return nil
}

// readBody reads a body within the limits of its caller.
func (a *Admission) readBody(w http.ResponseWriter, r *http.Request, c *route.Call, limit int64) ([]byte, error) {
	conn := http.NewResponseController(w)
	cut := func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) } // not all writers have deadlines
	from, key := a.known, cmp.Or(c.Who.Account, c.Who.Name)
	if c.Who.Role == route.Anyone {
		from, key = a.anonymous, clientAddress(r)
		_ = conn.SetReadDeadline(time.Now().Add(anonymousBodyTime))
	}
	one := from.begin(key, cut)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	displaced := from.end(one)
	switch {
	case err == nil:
		_ = conn.SetReadDeadline(time.Now().Add(requestTimeout))
		return body, nil
	case displaced:
		return nil, route.Busy.Errorf("the body did not arrive, and %s has too many requests at once", key)
	default:
		return nil, bodyFault(err)
	}
}

// bodyFault is the fault of a body that could not be read.
func bodyFault(err error) error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return route.TooLarge.Errorf("the body has more than %d bytes", tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return route.TooSlow.Errorf("the body ended early: %w", err)
	}
	return route.Malformed.Errorf("the body ended early: %w", err)
}

// ReadBody reads the body of a request. REQUEST_TOO_LARGE, REQUEST_TOO_SLOW,
// REQUEST_MALFORMED, SERVER_BUSY.
func ReadBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	var mine *readError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &mine):
		return nil, mine.error
	default:
		return nil, bodyFault(err)
	}
}

// bufferedBody is a body in memory, or the error of reading it.
type bufferedBody struct {
	io.Reader
	err error
}

func (b *bufferedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, &readError{b.err}
	}
	return b.Reader.Read(p)
}

func (b *bufferedBody) Close() error { return nil }

// readError is the error of a body that bufferBody could not read.
type readError struct{ error }

func (l *readError) Unwrap() error { return l.error }
