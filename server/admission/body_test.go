package admission_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/admission"
	"github.com/pawl-dev/pawl/server/clusters"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
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
	body, err := admission.ReadBody(r)
	if err == nil {
		err = route.Admit(r.Context())
	}
	if err != nil {
		http.Error(w, err.Error(), route.StatusOf(fault.Of(err)))
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
		{"unknown nodes", clusters.HeartbeatPath, "no-such-token-no-such-token"},
		{"callers without a token", "/v1/runs", ""},
		{"callers of the console", "/", ""},
		{"an account", "/v1/clusters", "uma"},
	} {
		t.Run(c.what, func(t *testing.T) {
			m := servertest.NewClusters(t, func(o *server.Options) {
				o.Mount = map[string]http.Handler{mounted: http.HandlerFunc(mountedHandler)}
			})
			var header []string
			if c.token != "" {
				header = []string{"Authorization", "Bearer " + cmp.Or(m.Token[c.token], c.token)}
			}
			waiting := 0
			for range many {
				if slowBody(t, m.URL, "127.0.0.1", c.path, header...).status == http.StatusContinue {
					waiting++
				}
			}
			if c.path == mounted && waiting != many {
				t.Errorf("%d of %d were waited for", waiting, many)
			}
			for what, got := range map[string]servertest.Reply{
				"a neighbour who reads":                    m.As("op", "GET", "/v1/runs", nil),
				"a neighbour who starts a run":             m.As("op", "POST", "/v1/runs", map[string]any{"flow": "Quick", "subject": "demo/default/c1"}),
				"another account":                          m.As("eve", "GET", "/v1/me", nil),
				"the same account":                         m.As("uma", "POST", "/v1/clusters", map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 2}),
				"an unknown caller of the mounted handler": m.Do("POST", mounted, "hello", "Content-Type", "application/x-www-form-urlencoded"),
				"a caller of the document":                 m.Do("GET", "/v1/openapi.yaml", nil, "Authorization", "Bearer "+servertest.Secret),
				"a node, whose token is not good":          m.Do("POST", clusters.HeartbeatPath, `{"cluster":"x","node":"n"}`, "Authorization", "Bearer none-of-ours-none-of-ours"),
			} {
				if want := map[bool]int{true: 401, false: got.Status}[strings.HasPrefix(what, "a node")]; got.Status >= 500 || got.Status >= 300 && want != 401 || got.Status == 408 {
					t.Errorf("%s: %d %s", what, got.Status, got.Body)
				}
			}
		})
	}
}

// A sender of many slow bodies displaces only its own. Those of another address arrive.
func TestFinding6AddressesDoNotDisplaceEachOther(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		o.Mount = map[string]http.Handler{mounted: http.HandlerFunc(mountedHandler)}
	})
	patient := slowBody(t, h.URL, "127.0.0.2", mounted)
	first := slowBody(t, h.URL, "127.0.0.1", mounted)
	for range 299 {
		slowBody(t, h.URL, "127.0.0.1", mounted)
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
	h := servertest.New(t, func(o *server.Options) {
		o.MaxFlight = 32
		o.Tokens = servertest.Tokens(t, servertest.Secret)
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-leave
		})
	})
	done := make(chan servertest.Reply)
	const each = 4
	for range each {
		go func() { done <- h.Do("GET", "/file", nil) }()
		<-entered
	}
	if got := h.Do("GET", "/file", nil); got.Status != http.StatusServiceUnavailable || got.Problem(t).Code != route.Busy.Code {
		t.Errorf("one more of that address: %d %s", got.Status, got.Body)
	}
	if got := h.Do("GET", "/v1/me", nil, "Authorization", "Bearer "+servertest.Secret); got.Status != 200 {
		t.Errorf("a neighbour: %d %s", got.Status, got.Body)
	}
	close(leave)
	for range each {
		if got := <-done; got.Status != 200 {
			t.Errorf("a file: %d %s", got.Status, got.Body)
		}
	}
}
