package auth

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/server/route"
)

// Guard refuses requests into which a browser was tricked: those to a foreign name
// that resolves to loopback (DNS rebinding), and those of other sites' pages.
func (a *Authenticator) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !route.CallOf(r.Context()).Route.Probe {
			if err := checkOrigin(r.Host, r.Header, a.loopback, a.options.Hosts); err != nil {
				route.WriteProblem(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin checks the host and the origin of a request. Browsers always send Origin
// with requests that may change something, and Sec-Fetch-Site over trustworthy
// connections; other programs send neither. HOST_REFUSED, ORIGIN_REFUSED.
func checkOrigin(host string, h http.Header, loopback bool, known []string) error {
	if name := hostname(host); loopback && !isLoopbackName(name) && !slices.Contains(known, name) {
		return route.HostRefused.Errorf("the host %q is not this server's", host)
	}
	if origin := h.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, host) {
			return route.OriginRefused.Errorf("the origin %s is not this server's", origin)
		}
		return nil
	}
	if site := h.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		if h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document" {
			return nil // a person followed a link; a page that is opened reads nothing
		}
		return route.OriginRefused.Errorf("the request comes from another site (%s)", site)
	}
	return nil
}

// hostname returns a host without its port, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

func isLoopbackName(name string) bool {
	if name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// IsLoopback reports whether only the own machine reaches a listen address.
func IsLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && isLoopbackName(strings.ToLower(host))
}
