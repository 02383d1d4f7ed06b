package server

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
)

// slow is a request whose body never arrives.
type slow struct {
	net.Conn
	in     *bufio.Reader
	status int // of the answer; 100: the server waits for the body
}

// slowBody sends a request with one byte of its body, from an address of loopback. It
// returns when the server waits for the body or has answered.
func slowBody(t *testing.T, url, from, path string, header ...string) slow {
	t.Helper()
	host := strings.TrimPrefix(url, "http://")
	dial := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dial.DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	kind := "application/json"
	if path == mounted {
		kind = "application/x-www-form-urlencoded"
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: 20\r\nExpect: 100-continue\r\n", path, host, kind)
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(conn, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprint(conn, "\r\n")
	c := slow{Conn: conn, in: bufio.NewReader(conn)}
	line, err := c.in.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscanf(line, "HTTP/1.1 %d", &c.status)
	}
	if err == nil && c.status == http.StatusContinue {
		_, err = c.in.ReadString('\n') // the empty line after it
	}
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	_, _ = io.WriteString(conn, "{") // fails if the request was answered
	return c
}

// answer reads the status and the body of the answer.
func (c slow) answer(t *testing.T) (int, string) {
	t.Helper()
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

const mounted = "/client/api"

// mountedHandler reads its body, as the query API does.
func mountedHandler(w http.ResponseWriter, r *http.Request) {
	body, err := ReadBody(r)
	if err == nil {
		err = Admit(r.Context())
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(fault.Of(err)))
		return
	}
	fmt.Fprint(w, string(body))
}

// 300 bodies that never arrive do not block other requests, with or without a token,
// even from the same address.
func TestFinding6SlowBodiesTakeNoSlot(t *testing.T) {
	const many = 300
	for _, c := range []struct{ what, path, token string }{
		{"unknown callers of a mounted handler", mounted, ""},
		{"unknown nodes", heartbeatPath, "no-such-token-no-such-token"},
		{"callers without a token", "/v1/runs", ""},
		{"callers of the console", "/", ""},
		{"an account", "/v1/clusters", "uma"},
	} {
		t.Run(c.what, func(t *testing.T) {
			m := newClustersFixture(t, func(o *Options) {
				o.Mount = map[string]http.Handler{mounted: http.HandlerFunc(mountedHandler)}
			})
			var header []string
			if c.token != "" {
				header = []string{"Authorization", "Bearer " + cmp.Or(m.token[c.token], c.token)}
			}
			waiting := 0
			for range many {
				if slowBody(t, m.url, "127.0.0.1", c.path, header...).status == http.StatusContinue {
					waiting++
				}
			}
			if c.path == mounted && waiting != many {
				t.Errorf("%d of %d were waited for", waiting, many)
			}
			for what, got := range map[string]reply{
				"a neighbour who reads":                    m.as("op", "GET", "/v1/runs", nil),
				"a neighbour who starts a run":             m.as("op", "POST", "/v1/runs", map[string]any{"flow": "Quick", "subject": "demo/default/c1"}),
				"another account":                          m.as("eve", "GET", "/v1/me", nil),
				"the same account":                         m.as("uma", "POST", "/v1/clusters", map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 2}),
				"an unknown caller of the mounted handler": m.do("POST", mounted, "hello", "Content-Type", "application/x-www-form-urlencoded"),
				"a caller of the document":                 m.do("GET", "/v1/openapi.yaml", nil, "Authorization", "Bearer "+secret),
				"a node, whose token is not good":          m.do("POST", heartbeatPath, `{"cluster":"x","node":"n"}`, "Authorization", "Bearer none-of-ours-none-of-ours"),
			} {
				if want := map[bool]int{true: 401, false: got.status}[strings.HasPrefix(what, "a node")]; got.status >= 500 || got.status >= 300 && want != 401 || got.status == 408 {
					t.Errorf("%s: %d %s", what, got.status, got.body)
				}
			}
		})
	}
}

// A sender of many slow bodies displaces only its own. Those of another address arrive.
func TestFinding6AddressesDoNotDisplaceEachOther(t *testing.T) {
	h := newFixture(t, func(o *Options) {
		o.Mount = map[string]http.Handler{mounted: http.HandlerFunc(mountedHandler)}
	})
	patient := slowBody(t, h.url, "127.0.0.2", mounted)
	first := slowBody(t, h.url, "127.0.0.1", mounted)
	for range 299 {
		slowBody(t, h.url, "127.0.0.1", mounted)
	}
	if status, body := first.answer(t); status != http.StatusServiceUnavailable || !strings.Contains(body, "127.0.0.1") {
		t.Errorf("the oldest of 300: %d %s", status, body)
	}
	fmt.Fprint(patient, strings.Repeat("x", 19))
	if status, body := patient.answer(t); status != 200 || body != "{"+strings.Repeat("x", 19) {
		t.Errorf("the body of another address: %d %s", status, body)
	}
}

// MaxFlight limits only the requests of known callers.
func TestFinding6AnonymousCallersHaveLimitsOfTheirOwn(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := newFixture(t, func(o *Options) {
		o.MaxFlight = 32
		o.Tokens = tokens(t, secret)
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-leave
		})
	})
	done := make(chan reply)
	const each = 4
	for range each {
		go func() { done <- h.do("GET", "/file", nil) }()
		<-entered
	}
	if got := h.do("GET", "/file", nil); got.status != http.StatusServiceUnavailable || got.problem(t).Code != Busy.Code {
		t.Errorf("one more of that address: %d %s", got.status, got.body)
	}
	if got := h.do("GET", "/v1/me", nil, "Authorization", "Bearer "+secret); got.status != 200 {
		t.Errorf("a neighbour: %d %s", got.status, got.body)
	}
	close(leave)
	for range each {
		if got := <-done; got.status != 200 {
			t.Errorf("a file: %d %s", got.status, got.body)
		}
	}
}

// For random sequences: no key and no total exceeds its limit, only the oldest read of a
// key at its limit or of the key with the most is displaced, and nothing remains at the
// end.
func TestBodyReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newBodyReads(3, 6)
		var there []*bodyRead
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(there) > 0 && rapid.Bool().Draw(t, "leaves") {
				i := rapid.IntRange(0, len(there)-1).Draw(t, "which")
				if a.end(there[i]) != there[i].displaced {
					t.Fatal("it does not know whether it was displaced")
				}
				there = slices.Delete(there, i, i+1)
				continue
			}
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			all, own, cuts := a.all, len(a.byKey[key]), 0
			one := a.begin(key, func() { cuts++ })
			one.abort = func() { cuts++ }
			there = append(there, one)
			if one.displaced || len(a.byKey[key]) > 3 || a.all > 6 {
				t.Fatalf("%d of %s, %d in all", len(a.byKey[key]), key, a.all)
			}
			if displaced := a.all == all; displaced != (own == 3 || all == 6) {
				t.Fatalf("displaced: %v, with %d of its own and %d in all", displaced, own, all)
			}
		}
		for _, one := range there {
			a.end(one)
		}
		if a.all != 0 || len(a.byKey) != 0 {
			t.Fatalf("%d are left: %v", a.all, a.byKey)
		}
	})
}

func TestClientAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[::1]:80": "::1", "[2001:db8::1]:80": "2001:db8::/64",
		"[2001:db8::ffff:1]:443": "2001:db8::/64", "[fe80::1%eth0]:80": "fe80::/64", "@": "@", "": "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = remote
		if got := clientAddress(r); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
