package action

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/workflow"
)

// guard decides which addresses http may reach. It refuses loopback, link-local and metadata
// addresses when the connection is made, after name resolution. So a name cannot change its address
// after the check.
type guard struct {
	networks []netip.Prefix
	hosts    []string // host or host:port, lower case
	urls     []*url.URL
}

// newGuard parses the allowed targets: an address, a CIDR, host[:port] or a URL prefix.
func newGuard(allow []string) (*guard, error) {
	g := &guard{}
	for _, entry := range allow {
		if network, err := netip.ParsePrefix(entry); err == nil {
			g.networks = append(g.networks, network.Masked())
			continue
		}
		if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
			g.networks = append(g.networks, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		if strings.Contains(entry, "://") {
			u, err := url.Parse(entry)
			if err != nil || checkURL(entry) != nil || u.RawQuery != "" || u.Fragment != "" {
				return nil, fmt.Errorf("http-allow %q is not a URL prefix: write it like http://host:8080/path", entry)
			}
			g.urls = append(g.urls, u)
			continue
		}
		u, err := url.Parse("//" + entry)
		if err != nil || u.Host != entry || u.Hostname() == "" {
			return nil, fmt.Errorf("http-allow %q is not an address, CIDR, host[:port] or URL", entry)
		}
		g.hosts = append(g.hosts, strings.ToLower(entry))
	}
	return g, nil
}

// allowsURL reports whether the target of a URL may have any address.
func (g *guard) allowsURL(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	for _, allowed := range g.hosts {
		if allowed == host || allowed == net.JoinHostPort(host, port(u)) || strings.EqualFold(allowed, u.Host) {
			return true
		}
	}
	for _, allowed := range g.urls {
		if sameOrigin(allowed, u) && below(allowed.Path, u.Path) {
			return true
		}
	}
	return false
}

// below reports whether a path is a folder or under it. It normalises the path.
func below(folder, p string) bool {
	folder, p = path.Clean("/"+folder), path.Clean("/"+p)
	return folder == "/" || p == folder || strings.HasPrefix(p, folder+"/")
}

// metadata addresses of clouds that are neither loopback nor link-local.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS: metadata, and credentials of pods
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
	netip.MustParsePrefix("0.0.0.0/8"),          // this host
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// allowsAddr decides on a resolved address.
func (g *guard) allowsAddr(addr netip.Addr) bool {
	addr = plain(addr)
	for _, network := range g.networks {
		if network.Contains(addr) {
			return true
		}
	}
	if addr.IsUnspecified() || addr.IsLoopback() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || addr.IsInterfaceLocalMulticast() {
		return false
	}
	for _, network := range metadata {
		if network.Contains(addr) {
			return false
		}
	}
	return true
}

// plain returns the address that packets will reach: without a zone, and as IPv4 if IPv6 only
// embeds it.
func plain(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if b := addr.As16(); addr.Is6() && (nat64.Contains(addr) || [12]byte(b[:12]) == [12]byte{} && b[12] != 0) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// control checks the address immediately before a socket connects.
func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return HTTPAddressRefused.Errorf("%s is not an address: %w", address, err)
	}
	if !g.allowsAddr(target.Addr()) {
		return HTTPAddressRefused.Errorf("%s is refused", target.Addr()).With("address", target.Addr().String())
	}
	return nil
}

// newClient returns the client of one attempt. It keeps no connections: a connection that one URL
// may use must not serve another URL.
func newClient(g *guard, l leaseDialer, trust *tls.Config, redirects int, sensitive []string) *http.Client {
	open := &net.Dialer{Timeout: httpDial}
	guarded := &net.Dialer{Timeout: httpDial, ControlContext: g.control}
	transport := func(d *net.Dialer) *http.Transport {
		return &http.Transport{
			Proxy:                  nil, // a proxy would resolve the names, and the guard could not check them
			DialContext:            l.dial(d),
			TLSClientConfig:        trust,
			TLSHandshakeTimeout:    httpDial,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 256 << 10,
		}
	}
	return &http.Client{
		Transport: &splitTransport{guard: g, open: transport(open), guarded: transport(guarded)},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > redirects {
				return http.ErrUseLastResponse
			}
			for _, redirect := range append(via[1:len(via):len(via)], next) {
				if !sameOrigin(redirect.URL, via[0].URL) {
					for _, name := range append(sensitive, "Referer") {
						next.Header.Del(name)
					}
				}
			}
			return nil
		},
	}
}

// leaseDialer makes connections that write only while the worker's lease is valid, because the
// process may have been suspended since the request was created.
type leaseDialer struct{ task *workflow.Task }

func (l leaseDialer) dial(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if _, shared := l.task.Lease(); err != nil || !shared {
			return c, err
		}
		return leasedConn{c, l.task}, nil
	}
}

type leasedConn struct {
	net.Conn
	task *workflow.Task
}

// Write implements net.Conn.
func (c leasedConn) Write(p []byte) (int, error) {
	if left, _ := c.task.Lease(); left <= 0 {
		return 0, workflow.ErrLeaseLost
	}
	return c.Conn.Write(p)
}

// splitTransport sends each request, redirects included, with the transport that its URL may use.
type splitTransport struct {
	guard         *guard
	open, guarded http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *splitTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.guard.allowsURL(r.URL) {
		return s.open.RoundTrip(r)
	}
	return s.guarded.RoundTrip(r)
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
