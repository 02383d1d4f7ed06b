package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"time"
)

// DialTimeout is how long connecting and the TLS handshake may take each.
const DialTimeout = 10 * time.Second

const idleFor = 30 * time.Second

// ClientOptions are those of one client. The zero value follows no redirect.
type ClientOptions struct {
	TLS       *tls.Config // nil: the defaults of crypto/tls
	Redirects int         // how many are followed; the answer of the next one is returned as it is
	Sensitive []string    // headers that are removed when a redirect leads to another origin, beside Referer
	// Conn wraps each connection. nil: it is used as it is.
	Conn func(net.Conn) net.Conn
	// Idle is how many idle connections to a host are kept, for half a minute. The client is for one URL then:
	// a connection that one URL may use must not serve another URL. 0: none is kept.
	Idle int
}

// Client returns a client that reaches what the policy allows; a refusal is AddressRefused.
func (p *Policy) Client(o ClientOptions) *http.Client {
	open := &net.Dialer{Timeout: DialTimeout}
	guarded := &net.Dialer{Timeout: DialTimeout, ControlContext: p.control}
	transport := func(d *net.Dialer) *http.Transport {
		return &http.Transport{
			Proxy:                  nil, // a proxy would resolve the names, and the policy could not check them
			DialContext:            o.dial(d),
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    DialTimeout,
			DisableKeepAlives:      o.Idle == 0,
			MaxIdleConnsPerHost:    o.Idle,
			IdleConnTimeout:        idleFor,
			MaxResponseHeaderBytes: 256 << 10,
		}
	}
	return &http.Client{
		Transport: &splitTransport{policy: p, open: transport(open), guarded: transport(guarded)},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > o.Redirects {
				return http.ErrUseLastResponse
			}
			for _, redirect := range append(via[1:len(via):len(via)], next) {
				if !sameOrigin(redirect.URL, via[0].URL) {
					for _, name := range append(slices.Clone(o.Sensitive), "Referer") {
						next.Header.Del(name)
					}
				}
			}
			return nil
		},
	}
}

func (o ClientOptions) dial(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.Conn == nil {
		return d.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return o.Conn(c), nil
	}
}

// splitTransport sends each request, redirects included, with the transport that its URL may use.
type splitTransport struct {
	policy        *Policy
	open, guarded *http.Transport
}

// CloseIdleConnections closes what Client.CloseIdleConnections is to close.
func (s *splitTransport) CloseIdleConnections() {
	s.open.CloseIdleConnections()
	s.guarded.CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper.
func (s *splitTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.policy.allowsURL(r.URL) {
		return s.open.RoundTrip(r)
	}
	return s.guarded.RoundTrip(r)
}
