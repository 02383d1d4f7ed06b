package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// A request passes four stages before it is executed:
//
//	identify ─▶ read the body ─▶ identify by the body (mounted handlers, nodes) ─▶ take a slot ─▶ execute
//
// Stages that wait only for this server have a fixed limit and refuse the requests
// above it. A body arrives as slowly as its sender likes, so reading has no such
// limit: a sender with too many bodies under way displaces its own oldest.
const (
	anonymousBodyTime = 10 * time.Second // for the body of an unknown caller to arrive
	requestTimeout    = 30 * time.Second // for the next read after the body
	maxHeartbeat      = 256 << 10        // bytes
)

// admission limits the requests in each stage.
type admission struct {
	known          *bodyReads // bodies of known callers, by account
	anonymous      *bodyReads // bodies of all others, by address
	identifying    *keyLimit  // requests whose caller is being identified, by address
	anonymousSlots *keyLimit  // running requests of unknown callers, by address
	slots          chan struct{}
	streams        chan struct{}
}

// newAdmission returns the limits of a server. An address without an account may
// send a quarter of flight bodies at once, and run an eighth of flight requests that
// need no account, such as for files of the console.
func newAdmission(flight, streams int) *admission {
	quarter, eighth, identify := max(flight/4, 4), max(flight/8, 4), max(flight, 16)
	return &admission{
		known: newBodyReads(max(flight, 4), max(flight, 4)), anonymous: newBodyReads(quarter, 4*quarter),
		identifying: newKeyLimit(identify, 2*identify), anonymousSlots: newKeyLimit(eighth, 4*eighth),
		slots: make(chan struct{}, flight), streams: make(chan struct{}, streams),
	}
}

// take takes a slot; free returns it. SERVER_BUSY if none is left.
func take(slots chan struct{}) (free func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, Busy.Errorf("%d requests of this kind are under way", cap(slots))
	}
}

// keyLimit limits concurrent requests, by key and in total.
type keyLimit struct {
	each, total int
	mu          sync.Mutex
	held        map[string]int
	all         int
}

func newKeyLimit(each, total int) *keyLimit {
	return &keyLimit{each: each, total: total, held: map[string]int{}}
}

// take takes a slot for a key; free returns it. SERVER_BUSY.
func (p *keyLimit) take(key string) (free func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[key] >= p.each {
		return nil, Busy.Errorf("%d requests of %s are under way", p.each, key)
	}
	if p.all >= p.total {
		return nil, Busy.Errorf("%d requests without an account are under way", p.total)
	}
	p.held[key]++
	p.all++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.held[key]--; p.held[key] == 0 {
			delete(p.held, key)
		}
	}, nil
}

// bodyReads are the bodies that are being read. If a key has too many, a new one
// displaces the oldest of that key; if there are too many in total, it displaces the
// oldest of the key with the most. A body that arrives at once is never displaced.
type bodyReads struct {
	each, total int
	mu          sync.Mutex
	byKey       map[string][]*bodyRead // oldest first
	all         int
}

// bodyRead is a body that is being read.
type bodyRead struct {
	key       string
	abort     func() // aborts the read
	displaced bool
}

func newBodyReads(each, total int) *bodyReads {
	return &bodyReads{each: each, total: total, byKey: map[string][]*bodyRead{}}
}

func (a *bodyReads) begin(key string, cut func()) *bodyRead {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := key
	if a.all >= a.total && len(a.byKey[key]) < a.each {
		from = slices.MaxFunc(slices.Collect(maps.Keys(a.byKey)), func(x, y string) int { return len(a.byKey[x]) - len(a.byKey[y]) })
	}
	if a.all >= a.total || len(a.byKey[key]) >= a.each {
		oldest := a.byKey[from][0]
		oldest.displaced = true
		a.remove(oldest)
		oldest.abort() // under the lock: a read that has ended is never aborted
	}
	one := &bodyRead{key: key, abort: cut}
	a.byKey[key] = append(a.byKey[key], one)
	a.all++
	return one
}

// end removes a read that has ended, and reports whether it was displaced.
func (a *bodyReads) end(one *bodyRead) (displaced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !one.displaced {
		a.remove(one)
	}
	return one.displaced
}

func (a *bodyReads) remove(one *bodyRead) {
	rest := slices.DeleteFunc(a.byKey[one.key], func(other *bodyRead) bool { return other == one })
	if a.byKey[one.key] = rest; len(rest) == 0 {
		delete(a.byKey, one.key)
	}
	a.all--
}

// admitted reads the body of a request, then takes a slot for it. Health checks need no slot.
func (s *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isHealth(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		free, err := s.admit(w, r)
		if err != nil {
			writeProblem(w, r, err)
			return
		}
		defer free()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) admit(w http.ResponseWriter, r *http.Request) (free func(), err error) {
	c := callOf(r.Context())
	if err := s.bufferBody(w, r); err != nil {
		return nil, err
	}
	switch {
	case s.identifiesLate(r.URL.Path):
		return s.admitUnidentified(r, c)
	case isStream(r.URL.Path):
		return take(s.admission.streams)
	case c.who.Role == Anyone:
		return s.admission.anonymousSlots.take(clientAddress(r))
	default:
		return take(s.admission.slots)
	}
}

// identifiesLate reports paths whose caller only the body identifies.
func (s *Server) identifiesLate(path string) bool {
	return path == heartbeatPath || s.options.Mount[path] != nil
}

// admitUnidentified admits a request whose handler identifies the caller. Admit then takes its slot.
func (s *Server) admitUnidentified(r *http.Request, c *call) (free func(), err error) {
	leave, err := s.admission.identifying.take(clientAddress(r))
	if err != nil {
		return nil, err
	}
	c.admit = func() error {
		slot, err := take(s.admission.slots)
		if err == nil {
			leave()
			leave, c.admit = slot, nil
		}
		return err
	}
	return func() { leave() }, nil
}

// Admit takes a slot for a request of a mounted handler. The handler calls it after
// it has identified the caller and before it works for the caller. SERVER_BUSY.
func Admit(ctx context.Context) error {
	if c := callOf(ctx); c.admit != nil {
		return c.admit()
	}
	return nil
}

// bufferBody reads the body of a request into memory, if its route reads one.
// Mounted handlers get a failed read as the error of their own read: they answer in
// their own format.
func (s *Server) bufferBody(w http.ResponseWriter, r *http.Request) error {
	c, late := callOf(r.Context()), s.identifiesLate(r.URL.Path)
	if r.Body == nil || r.Body == http.NoBody || r.Method == http.MethodGet || r.Method == http.MethodHead || c.who.Role == Anyone && !late {
		r.Body = http.NoBody
		return nil
	}
	limit := s.options.MaxBody
	if r.URL.Path == heartbeatPath {
		limit = min(limit, maxHeartbeat)
	}
	own := s.options.Mount[r.URL.Path] != nil
	if r.ContentLength > limit && !own {
		return TooLarge.Errorf("the body has %d bytes, the limit is %d", r.ContentLength, limit)
	}
	body, err := s.readBody(w, r, c, limit)
	if err != nil && !own {
		return err
	}
	r.Body = &bufferedBody{Reader: bytes.NewReader(body), err: err}
	return nil
}

// readBody reads a body within the limits of its caller.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, c *call, limit int64) ([]byte, error) {
	conn := http.NewResponseController(w)
	cut := func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) } // not all writers have deadlines
	from, key := s.admission.known, cmp.Or(c.who.Account, c.who.Name)
	if c.who.Role == Anyone {
		from, key = s.admission.anonymous, clientAddress(r)
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
		return nil, Busy.Errorf("the body did not arrive, and %s has too many requests at once", key)
	default:
		return nil, bodyFault(err)
	}
}

// bodyFault is the fault of a body that could not be read.
func bodyFault(err error) error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return TooLarge.Errorf("the body has more than %d bytes", tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return TooSlow.Errorf("the body ended early: %w", err)
	}
	return Malformed.Errorf("the body ended early: %w", err)
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

// clientAddress returns the address of a request, by which callers without an
// account are counted. An IPv6 address counts as its /64 network, since its owner has
// all of it.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}
