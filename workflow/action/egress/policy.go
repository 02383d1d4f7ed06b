// Package egress sends HTTP requests to targets that other people name, without letting them
// reach what only this process may reach: loopback, link-local and metadata addresses.
//
//	policy, err := egress.NewPolicy([]string{"10.0.0.0/8", "prometheus.monitoring:9090"})
//	answer, err := policy.Client(egress.ClientOptions{Redirects: 3}).Get(url)
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/fault"
)

// AddressRefused is the fault of a target that the policy refuses.
var AddressRefused = fault.Declare(fault.Kind{
	Code: "HTTP_ADDRESS_REFUSED", Class: fault.Blocked,
	Title:  "the URL leads to a loopback, link-local or metadata address",
	Remedy: "Correct the URL, or start the server with --http-allow and the address, host or URL, then resume.",
})

// Policy decides which addresses may be reached. It refuses loopback, link-local and metadata
// addresses when the connection is made, after name resolution. So a name cannot change its address
// after the check. The zero Policy allows all other addresses.
type Policy struct {
	networks []netip.Prefix
	refused  []netip.Prefix // beside those that are refused anyway
	hosts    []string       // host or host:port, lower case
	urls     []*url.URL
}

// NewPolicy parses targets that are allowed in addition: an address, a CIDR, host[:port] or a
// URL prefix.
func NewPolicy(allow []string) (*Policy, error) {
	p := &Policy{}
	for _, entry := range allow {
		if network, err := netip.ParsePrefix(entry); err == nil {
			p.networks = append(p.networks, network.Masked())
			continue
		}
		if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
			p.networks = append(p.networks, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		if strings.Contains(entry, "://") {
			u, err := url.Parse(entry)
			if err != nil || CheckURL(entry) != nil || u.RawQuery != "" || u.Fragment != "" {
				return nil, fmt.Errorf("http-allow %q is not a URL prefix: write it like http://host:8080/path", entry)
			}
			p.urls = append(p.urls, u)
			continue
		}
		u, err := url.Parse("//" + entry)
		if err != nil || u.Host != entry || u.Hostname() == "" {
			return nil, fmt.Errorf("http-allow %q is not an address, CIDR, host[:port] or URL", entry)
		}
		p.hosts = append(p.hosts, strings.ToLower(entry))
	}
	return p, nil
}

// Refusing returns a policy that also refuses the addresses that these hosts have now: addresses, or
// names that are resolved. What was allowed explicitly stays so.
func (p *Policy) Refusing(ctx context.Context, hosts ...string) *Policy {
	more := *p
	more.refused = slices.Clone(p.refused)
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			more.refused = append(more.refused, one(addr))
			continue
		}
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if host == "" || err != nil {
			continue
		}
		for _, addr := range all {
			more.refused = append(more.refused, one(addr))
		}
	}
	return &more
}

// Allowing returns a policy that also allows one address.
func (p *Policy) Allowing(addr netip.Addr) *Policy {
	more := *p
	more.networks = append(slices.Clone(p.networks), one(addr))
	return &more
}

func one(addr netip.Addr) netip.Prefix {
	addr = plain(addr)
	return netip.PrefixFrom(addr, addr.BitLen())
}

// allowsURL reports whether the target of a URL may have any address.
func (p *Policy) allowsURL(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	for _, allowed := range p.hosts {
		if allowed == host || allowed == net.JoinHostPort(host, port(u)) || strings.EqualFold(allowed, u.Host) {
			return true
		}
	}
	for _, allowed := range p.urls {
		if sameOrigin(allowed, u) && below(allowed.Path, u.Path) {
			return true
		}
	}
	return false
}

// below reports whether a path is a folder or under it. It normalises the path.
func below(folder, file string) bool {
	folder, file = path.Clean("/"+folder), path.Clean("/"+file)
	return folder == "/" || file == folder || strings.HasPrefix(file, folder+"/")
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
func (p *Policy) allowsAddr(addr netip.Addr) bool {
	addr = plain(addr)
	for _, network := range p.networks {
		if network.Contains(addr) {
			return true
		}
	}
	if addr.IsUnspecified() || addr.IsLoopback() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || addr.IsInterfaceLocalMulticast() {
		return false
	}
	for _, network := range slices.Concat(metadata, p.refused) {
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
func (p *Policy) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return AddressRefused.Errorf("%s is not an address: %w", address, err)
	}
	if !p.allowsAddr(target.Addr()) {
		return AddressRefused.Errorf("%s is refused", target.Addr()).With("address", target.Addr().String())
	}
	return nil
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

// CheckURL reports why a text is no URL that a request can be sent to.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("no URL: %w", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case u.Hostname() == "":
		return errors.New("names no host")
	case u.User != nil:
		return errors.New("holds a user: put credentials into headers, as secrets")
	}
	return nil
}
