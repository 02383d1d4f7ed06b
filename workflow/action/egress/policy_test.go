package egress

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/pawl-dev/pawl/fault"
)

func TestPolicyAddresses(t *testing.T) {
	p := &Policy{}
	for addr, want := range map[string]bool{
		"93.184.216.34": true, "10.1.2.3": true, "192.168.0.1": true, "2606:2800:220:1::1": true, "64:ff9b::5db8:d822": true,
		"127.0.0.1": false, "127.9.9.9": false, "0.0.0.0": false, "0.1.2.3": false, "::1": false, "::": false, "169.254.1.1": false,
		"fe80::1": false, "fe80::1%eth0": false, "::ffff:127.0.0.1": false, "::7f00:1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false,
		"224.0.0.1": false, "ff02::1": false, "100.100.100.200": false, "168.63.129.16": false, "fd00:ec2::254": false, "fd00:ec2::23": false, "192.0.0.192": false,
	} {
		if got := p.allowsAddr(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
}

func TestNewPolicyRefusesNonsense(t *testing.T) {
	for _, entry := range []string{"", "http://", "ftp://x", "a b", "x/y", "http://h/?q=1", "http://u:p@h/", "10.0.0.0/99"} {
		if _, err := NewPolicy([]string{entry}); err == nil {
			t.Errorf("%q was taken", entry)
		}
	}
	for _, entry := range []string{"10.0.0.0/8", "::1", "[::1]", "example.org", "example.org:8080", "https://example.org/a/"} {
		if _, err := NewPolicy([]string{entry}); err != nil {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

func TestPolicyURLs(t *testing.T) {
	p, err := NewPolicy([]string{"Hooks.example.org", "api.example.org:8443", "https://x.example.org/a/b/"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"http://hooks.example.org/x": true, "https://HOOKS.example.org": true, "http://hooks.example.org:99": true, "http://a.hooks.example.org": false,
		"https://api.example.org:8443/x": true, "https://api.example.org/x": false,
		"https://x.example.org/a/b": true, "https://x.example.org:443/a/b/c": true, "https://x.example.org/a/bc": false, "http://x.example.org/a/b": false,
		"https://x.example.org/a/b/../../c": false, "https://x.example.org/a/b/%2e%2e/%2e%2e/c": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.allowsURL(u); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// The zero options follow no redirect, refuse what is not public, and wrap no connection.
func TestClient(t *testing.T) {
	reached := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached++
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/end", http.StatusFound)
		}
	}))
	defer s.Close()
	get := func(p *Policy, o ClientOptions, path string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := p.Client(o).Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	if _, err := get(&Policy{}, ClientOptions{}, "/"); fault.Of(err) != AddressRefused || reached != 0 {
		t.Errorf("a loopback address: %v, reached %d times", err, reached)
	}
	open, err := NewPolicy([]string{s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := get(open, ClientOptions{}, "/away"); err != nil || status != http.StatusFound {
		t.Errorf("a redirect that is not followed: %d, %v", status, err)
	}
	wrapped := 0
	o := ClientOptions{Redirects: 1, Conn: func(c net.Conn) net.Conn { wrapped++; return c }}
	if status, err := get(open, o, "/away"); err != nil || status != http.StatusOK || wrapped != 2 {
		t.Errorf("a redirect that is followed: %d, %v, %d connections wrapped", status, err, wrapped)
	}
}
