package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Trust is what a client knows of the servers of one cluster.
type Trust interface {
	// Roots returns the authorities of their certificates; nil: not known yet.
	Roots() *x509.CertPool
	// Required reports whether they must be called over TLS.
	Required() bool
	// Named reports whether each of them has its identity in its certificate, so that it must be verified.
	Named() bool
}

// Authorities is a Trust that does not change. The zero value knows nothing.
type Authorities struct {
	PEM  string
	From time.Time // since when TLS is required; zero: it is not

	NamedFrom time.Time // since when identities are verified; zero: they are not
}

// Roots implements Trust.
func (a Authorities) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(a.PEM)) {
		return nil
	}
	return roots
}

// Required implements Trust.
func (a Authorities) Required() bool { return begun(a.From) }

// Named implements Trust.
func (a Authorities) Named() bool { return begun(a.NamedFrom) }

func begun(from time.Time) bool { return !from.IsZero() && !time.Now().Before(from) }

const (
	handshakeLimit = 2 * time.Second
	// plainFor is how long a server that did not speak TLS is called plain without another try.
	plainFor = 10 * time.Second
)

// New returns a transport for one server of a cluster, by http URLs: it speaks TLS to it as the
// package documentation says.
func New(trust Trust, who port.Identity) *http.Transport {
	d := &dialer{trust: trust, who: who, plain: map[string]time.Time{}}
	return &http.Transport{DialContext: d.dial, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: 10 * time.Second}
}

type dialer struct {
	trust Trust
	who   port.Identity
	net   net.Dialer

	mu    sync.Mutex
	plain map[string]time.Time // by address: until when a server is called plain
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	roots := d.trust.Roots()
	if !d.trust.Required() && (roots == nil || d.isPlain(address)) {
		return &provisional{conn, d.trust.Required}, nil
	}
	if roots == nil {
		return nil, d.refused(conn, Required.Errorf("the authorities of %s are not known", address))
	}
	secure, err := handshake(ctx, conn, roots)
	if err == nil && !names(secure.ConnectionState().PeerCertificates[0], d.who) {
		if d.trust.Named() {
			return nil, d.refused(secure, &tls.CertificateVerificationError{UnverifiedCertificates: secure.ConnectionState().PeerCertificates, Err: otherServer(d.who, secure.ConnectionState().PeerCertificates[0])})
		}
		return &provisional{secure, d.trust.Named}, nil
	}
	var untrusted *tls.CertificateVerificationError
	switch {
	case err == nil:
		return secure, nil
	case errors.As(err, &untrusted), ctx.Err() != nil:
		return nil, d.refused(conn, err)
	case d.trust.Required() && isLost(err):
		return nil, d.refused(conn, err)
	case d.trust.Required():
		return nil, d.refused(conn, Required.Errorf("%s does not speak it: %w", address, err))
	}
	_ = conn.Close() // the handshake has ended it
	d.mu.Lock()
	d.plain[address] = time.Now().Add(plainFor)
	d.mu.Unlock()
	if conn, err = d.net.DialContext(ctx, network, address); err != nil {
		return nil, err
	}
	return &provisional{conn, d.trust.Required}, nil
}

// isLost reports a handshake that has failed because the connection did: the server ends, or is slow. It says nothing
// of whether the server speaks TLS.
func isLost(err error) bool {
	for _, lost := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, os.ErrDeadlineExceeded, context.DeadlineExceeded} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// refused returns the error of a connection on which nothing was sent, as that of a dial.
func (d *dialer) refused(conn net.Conn, err error) error {
	_ = conn.Close() // nothing was sent
	return &net.OpError{Op: "dial", Net: conn.RemoteAddr().Network(), Addr: conn.RemoteAddr(), Err: err}
}

func (d *dialer) isPlain(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, ok := d.plain[address]
	if ok && !time.Now().Before(until) {
		delete(d.plain, address)
		return false
	}
	return ok
}

// handshake leaves half of the time for what follows it.
func handshake(ctx context.Context, conn net.Conn, roots *x509.CertPool) (*tls.Conn, error) {
	limit := handshakeLimit
	if until, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(until)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	secure := tls.Client(conn, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the authority, and dial the identity
		VerifyConnection:   func(s tls.ConnectionState) error { return verify(roots, s.PeerCertificates) },
	})
	err := secure.HandshakeContext(ctx)
	return secure, err
}

func verify(roots *x509.CertPool, peer []*x509.Certificate) error {
	between := x509.NewCertPool()
	for _, c := range peer[1:] { // a server always has one
		between.AddCert(c)
	}
	if _, err := peer[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: peer, Err: err}
	}
	return nil
}

// names reports whether a certificate has the identity.
func names(c *x509.Certificate, who port.Identity) bool {
	if who == (port.Identity{}) {
		return true
	}
	want := who.String()
	return slices.ContainsFunc(c.URIs, func(at *url.URL) bool { return at.String() == want })
}

// otherServer returns the error of a server that is not the one that was called.
func otherServer(who port.Identity, c *x509.Certificate) error {
	is := "somebody without an identity"
	if len(c.URIs) > 0 {
		is = c.URIs[0].String()
	}
	return fmt.Errorf("%s was called, and %s answers there", who, is)
}

// provisional is a connection without TLS or without a verified identity. Nothing is sent on it any more once that
// is required: a new one is opened then.
type provisional struct {
	net.Conn
	ended func() bool
}

func (p *provisional) Write(b []byte) (int, error) {
	if p.ended() {
		return 0, Required.Errorf("this connection was opened before")
	}
	return p.Conn.Write(b)
}

// Peers are the clients of the servers of one cluster. No connection is used for two servers.
type Peers struct {
	Trust Trust

	mu      sync.Mutex
	clients map[port.Identity]*http.Client
}

// maxPeers bounds the clients of servers that are gone.
const maxPeers = 64

// For returns the client of a server, without a time limit.
func (p *Peers) For(who port.Identity) *http.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if had := p.clients[who]; had != nil {
		return had
	}
	if len(p.clients) >= maxPeers {
		p.close()
	}
	if p.clients == nil {
		p.clients = map[port.Identity]*http.Client{}
	}
	p.clients[who] = &http.Client{Transport: New(p.Trust, who)}
	return p.clients[who]
}

// CloseIdleConnections closes the connections that nobody uses.
func (p *Peers) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
}

func (p *Peers) close() {
	for _, c := range p.clients {
		c.CloseIdleConnections()
	}
	clear(p.clients)
}

// Clients are the clients of the servers of many clusters. No connection is used for two servers. The zero
// value can be used.
type Clients struct {
	// Wrap wraps the transports; nil: they are not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper

	mu      sync.Mutex
	clients map[called]*client
}

// called is whom a client calls, and by what it verifies it.
type called struct {
	trust Authorities
	who   port.Identity
}

type client struct {
	http *http.Client
	used time.Time
}

// parsed is Authorities with their certificates read.
type parsed struct {
	Authorities
	roots *x509.CertPool
}

func (p parsed) Roots() *x509.CertPool { return p.roots }

const (
	callLimit   = 10 * time.Second
	unusedAfter = 10 * time.Minute
)

// For returns the client of a server, with a time limit of 10 s.
func (c *Clients) For(a Authorities, who port.Identity) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, at := time.Now(), called{a, who}
	if had := c.clients[at]; had != nil {
		had.used = now
		return had.http
	}
	for key, old := range c.clients { // of servers that are gone, and former certificates
		if now.Sub(old.used) > unusedAfter {
			old.http.CloseIdleConnections()
			delete(c.clients, key)
		}
	}
	var trip http.RoundTripper = New(parsed{a, a.Roots()}, who)
	if c.Wrap != nil {
		trip = c.Wrap(trip)
	}
	made := &client{http: &http.Client{Timeout: callLimit, Transport: trip}, used: now}
	if c.clients == nil {
		c.clients = map[called]*client{}
	}
	c.clients[at] = made
	return made.http
}
