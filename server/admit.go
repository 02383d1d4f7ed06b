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

// A request passes four places before it is carried out:
//
//	who asks ─▶ its body arrives ─▶ mounted faces and nodes say who asks ─▶ a slot ─▶ it is carried out
//
// Only the third and the last of these wait for nothing but this server, so only
// they are limited by a number that refuses others. A body arrives as slowly as
// its sender likes: whoever sends many at once displaces his own oldest.
const (
	strangerBody = 10 * time.Second // what the body of an unknown caller gets to arrive
	requestTime  = 30 * time.Second // what a request gets to arrive
	maxHeartbeat = 256 << 10        // bytes of a node's heartbeat
)

// admission is who may be where.
type admission struct {
	known     *arrivals // bodies of callers that are known, by account
	strangers *arrivals // bodies of all others, by address
	asking    *places   // requests whose caller is being found out, by address
	pages     *places   // requests of unknown callers that are carried out, by address
	slots     chan struct{}
	streams   chan struct{}
}

// newAdmission divides what a server takes at once. An address without an
// account may have a quarter of the bodies on their way, and an eighth of what
// is carried out for nobody in particular, such as the console's files.
func newAdmission(flight, streams int) *admission {
	quarter, eighth, ask := max(flight/4, 4), max(flight/8, 4), max(flight, 16)
	return &admission{
		known: newArrivals(max(flight, 4), max(flight, 4)), strangers: newArrivals(quarter, 4*quarter),
		asking: newPlaces(ask, 2*ask), pages: newPlaces(eighth, 4*eighth),
		slots: make(chan struct{}, flight), streams: make(chan struct{}, streams),
	}
}

// take takes a slot. SERVER_BUSY.
func take(slots chan struct{}) (free func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, Busy.Errorf("%d requests of this kind are under way", cap(slots))
	}
}

// places counts what is under way by key and in all.
type places struct {
	each, total int
	mu          sync.Mutex
	held        map[string]int
	all         int
}

func newPlaces(each, total int) *places {
	return &places{each: each, total: total, held: map[string]int{}}
}

// take takes a place of a key. SERVER_BUSY.
func (p *places) take(key string) (free func(), err error) {
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

// arrivals are bodies on their way. One more than a key may have displaces the
// oldest of that key, one more than there may be in all the oldest of the key
// that has most: a body that is there at once is never displaced.
type arrivals struct {
	each, total int
	mu          sync.Mutex
	by          map[string][]*arrival // oldest first
	all         int
}

// arrival is a body on its way.
type arrival struct {
	key       string
	cut       func() // ends the reading
	displaced bool
}

func newArrivals(each, total int) *arrivals {
	return &arrivals{each: each, total: total, by: map[string][]*arrival{}}
}

func (a *arrivals) enter(key string, cut func()) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := key
	if a.all >= a.total && len(a.by[key]) < a.each {
		from = slices.MaxFunc(slices.Collect(maps.Keys(a.by)), func(x, y string) int { return len(a.by[x]) - len(a.by[y]) })
	}
	if a.all >= a.total || len(a.by[key]) >= a.each {
		oldest := a.by[from][0]
		oldest.displaced = true
		a.remove(oldest)
		oldest.cut() // under the lock: none is cut once it has left
	}
	one := &arrival{key: key, cut: cut}
	a.by[key] = append(a.by[key], one)
	a.all++
	return one
}

// leave says that the body is there, or that it is not coming.
func (a *arrivals) leave(one *arrival) (displaced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !one.displaced {
		a.remove(one)
	}
	return one.displaced
}

func (a *arrivals) remove(one *arrival) {
	rest := slices.DeleteFunc(a.by[one.key], func(other *arrival) bool { return other == one })
	if a.by[one.key] = rest; len(rest) == 0 {
		delete(a.by, one.key)
	}
	a.all--
}

// admitted reads the body of a request, then gives it a slot. Health is always answered.
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
	if err := s.receive(w, r); err != nil {
		return nil, err
	}
	switch {
	case s.late(r.URL.Path):
		return s.admitLate(r, c)
	case isStream(r.URL.Path):
		return take(s.admission.streams)
	case c.who.Role == Anyone:
		return s.admission.pages.take(address(r))
	default:
		return take(s.admission.slots)
	}
}

// late reports paths whose caller is known from the body only.
func (s *Server) late(path string) bool { return path == heartbeatPath || s.options.Mount[path] != nil }

// admitLate lets a request find out who asks. Admit then takes its slot.
func (s *Server) admitLate(r *http.Request, c *call) (free func(), err error) {
	leave, err := s.admission.asking.take(address(r))
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

// Admit takes a slot for a request of a mounted handler. The handler calls it
// once it knows who asks, and before it does anything for the caller. SERVER_BUSY.
func Admit(ctx context.Context) error {
	if c := callOf(ctx); c.admit != nil {
		return c.admit()
	}
	return nil
}

// receive reads the body of a request into memory, if anybody will look at it.
// Mounted handlers meet the error themselves: they answer in their own form.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) error {
	c, late := callOf(r.Context()), s.late(r.URL.Path)
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
	body, err := s.arrive(w, r, c, limit)
	if err != nil && !own {
		return err
	}
	r.Body = &received{Reader: bytes.NewReader(body), err: err}
	return nil
}

// arrive waits for a body.
func (s *Server) arrive(w http.ResponseWriter, r *http.Request, c *call, limit int64) ([]byte, error) {
	conn := http.NewResponseController(w)
	cut := func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) } // not all writers have deadlines
	from, key := s.admission.known, cmp.Or(c.who.Account, c.who.Name)
	if c.who.Role == Anyone {
		from, key = s.admission.strangers, address(r)
		_ = conn.SetReadDeadline(time.Now().Add(strangerBody))
	}
	one := from.enter(key, cut)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	displaced := from.leave(one)
	switch {
	case err == nil:
		_ = conn.SetReadDeadline(time.Now().Add(requestTime))
		return body, nil
	case displaced:
		return nil, Busy.Errorf("the body did not arrive, and %s sends more requests than it may at once", key)
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
	var mine *lost
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &mine):
		return nil, mine.error
	default:
		return nil, bodyFault(err)
	}
}

// received is a body that has arrived, or as much of it as there is.
type received struct {
	io.Reader
	err error
}

func (b *received) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, &lost{b.err}
	}
	return b.Reader.Read(p)
}

func (b *received) Close() error { return nil }

// lost is the fault of a body that was read before its reader came.
type lost struct{ error }

func (l *lost) Unwrap() error { return l.error }

// address is where a request comes from, as callers without an account are
// counted: a network of IPv6 is one, since whoever has an address has all of it.
func address(r *http.Request) string {
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
