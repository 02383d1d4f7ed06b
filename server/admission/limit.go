// Package admission limits what one server does at once. A request passes four stages
// before it is executed:
//
//	identify ─▶ read the body ─▶ identify by the body (mounted handlers, nodes) ─▶ take a slot ─▶ execute
//
// Stages that wait only for this server have a fixed limit and refuse the requests
// above it. A body arrives as slowly as its sender likes, so reading has no such
// limit: a sender with too many bodies under way displaces its own oldest.
package admission

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/server/route"
)

// Admission limits the requests in each stage.
type Admission struct {
	maxBody        int64
	known          *bodyReads // bodies of known callers, by account
	anonymous      *bodyReads // bodies of all others, by address
	identifying    *keyLimit  // requests whose caller is being identified, by address
	anonymousSlots *keyLimit  // running requests of unknown callers, by address
	slots          chan struct{}
	streams        chan struct{}
}

// New returns the limits of a server: bytes of a body, requests and event streams. An address without an account may
// send a quarter of flight bodies at once, and run an eighth of flight requests that
// need no account, such as for files of the console.
func New(maxBody int64, flight, streams int) *Admission {
	quarter, eighth, identify := max(flight/4, 4), max(flight/8, 4), max(flight, 16)
	return &Admission{
		maxBody: maxBody,
		known:   newBodyReads(max(flight, 4), max(flight, 4)), anonymous: newBodyReads(quarter, 4*quarter),
		identifying: newKeyLimit(identify, 2*identify), anonymousSlots: newKeyLimit(eighth, 4*eighth),
		slots: make(chan struct{}, flight), streams: make(chan struct{}, streams),
	}
}

// Identify limits the requests of an address whose caller is being identified. SERVER_BUSY.
func (a *Admission) Identify(r *http.Request) (free func(), err error) {
	return a.identifying.take(clientAddress(r))
}

// Streams returns the number of open event streams.
func (a *Admission) Streams() int { return len(a.streams) }

// take takes a slot; free returns it. SERVER_BUSY if none is left.
func take(slots chan struct{}) (free func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, route.Busy.Errorf("%d requests of this kind are under way", cap(slots))
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
		return nil, route.Busy.Errorf("%d requests of %s are under way", p.each, key)
	}
	if p.all >= p.total {
		return nil, route.Busy.Errorf("%d requests without an account are under way", p.total)
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
