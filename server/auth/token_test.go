package auth_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
)

// Each caller gets exactly the routes of its role, with and without credentials.
func TestWhoMayAsk(t *testing.T) {
	user, admin := strings.Repeat("u", 32), strings.Repeat("d", 32)
	accounts := servertest.TokenTable{auth.HashToken(user): {Name: "uma", Role: route.User, Account: "1"}, auth.HashToken(admin): {Name: "dan", Role: route.DomainAdmin, Account: "2"}}
	type ask struct {
		path, authorization string
		status              int
	}
	for _, c := range []struct {
		name   string
		change func(*server.Options)
		asks   []ask
	}{
		{"loopback without token", nil, []ask{
			{"/v1/runs", "", 200}, {"/v1/me", "", 200}, {"/metrics", "", 200}, {"/healthz", "", 200}, {"/readyz", "", 200}, {"/v1/openapi.json", "", 200},
			{"/v1/runs", "Bearer " + servertest.Secret, 401}, {"/v1/runs", "Basic eDp5", 401},
		}},
		{"loopback with token", func(o *server.Options) {
			o.Tokens = servertest.Tokens(t, "another-token-of-20-characters", servertest.Secret)
		}, []ask{
			{"/v1/runs", "", 401}, {"/v1/me", "", 401}, {"/v1/openapi.json", "", 401}, {"/metrics", "", 200}, {"/healthz", "", 200},
			{"/v1/runs", "Bearer " + servertest.Secret, 200}, {"/v1/runs", "bearer " + servertest.Secret, 200}, {"/v1/runs", "Bearer " + servertest.Secret[1:], 401},
			{"/v1/runs", "Bearer", 401}, {"/v1/runs", "Bearer " + servertest.Secret + "x", 401}, {"/v1/nothing", "", 401}, {"/v1/nothing", "Bearer " + servertest.Secret, 404},
		}},
		{"elsewhere", func(o *server.Options) { o.Listen, o.Tokens = "0.0.0.0:7295", servertest.Tokens(t, servertest.Secret) }, []ask{
			{"/v1/runs", "", 401}, {"/metrics", "", 401}, {"/healthz", "", 200}, {"/readyz", "", 200},
			{"/v1/runs", "Bearer " + servertest.Secret, 200}, {"/metrics", "Bearer " + servertest.Secret, 200},
		}},
		{"loopback with accounts", func(o *server.Options) { o.Reviewer = accounts }, []ask{
			{"/v1/runs", "", 401}, {"/v1/me", "Bearer " + user, 200}, {"/v1/faults", "Bearer " + user, 200},
			{"/v1/runs", "Bearer " + user, 403}, {"/v1/objects", "Bearer " + admin, 403}, {"/v1/flows", "Bearer " + user, 403}, {"/v1/events?type=nonsense", "Bearer " + admin, 422},
		}},
		{"elsewhere with accounts", func(o *server.Options) {
			o.Listen, o.Reviewer, o.Tokens = ":7295", accounts, servertest.Tokens(t, servertest.Secret)
		}, []ask{
			{"/metrics", "Bearer " + user, 403}, {"/metrics", "Bearer " + servertest.Secret, 200}, {"/v1/runs", "Bearer " + servertest.Secret, 200}, {"/v1/me", "Bearer " + admin, 200},
		}},
	} {
		h := servertest.New(t, func(o *server.Options) {
			o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "pawl_x 1") })
			if c.change != nil {
				c.change(o)
			}
		})
		for _, a := range c.asks {
			var header []string
			if a.authorization != "" {
				header = []string{"Authorization", a.authorization}
			}
			got := h.Do("GET", a.path, nil, header...)
			if got.Status != a.status {
				t.Errorf("%s: GET %s with %q: %d, want %d: %s", c.name, a.path, a.authorization, got.Status, a.status, got.Body)
			}
			switch got.Status {
			case 401:
				if p := got.Problem(t); p.Code != route.Unauthenticated.Code || got.Header.Get("WWW-Authenticate") == "" || p.Remedy == "" {
					t.Errorf("%s: %s: %s", c.name, a.path, got.Body)
				}
			case 403:
				if p := got.Problem(t); p.Code != route.Forbidden.Code {
					t.Errorf("%s: %s: %s", c.name, a.path, got.Body)
				}
			}
			if strings.Contains(string(got.Body), servertest.Secret) {
				t.Errorf("%s: the answer tells the token: %s", c.name, got.Body)
			}
		}
		if strings.Contains(h.Log.String(), servertest.Secret) {
			t.Errorf("%s: the log tells the token", c.name)
		}
	}
}

func TestForeignRequests(t *testing.T) {
	const here = "127.0.0.1:7295"
	for _, c := range []struct {
		name, host string
		header     map[string]string
		loopback   bool
		known      []string
		want       *fault.Kind
	}{
		{"a program", here, nil, true, nil, nil},
		{"localhost", "localhost:7295", nil, true, nil, nil},
		{"localhost in capitals", "LocalHost", nil, true, nil, nil},
		{"IPv6", "[::1]:7295", nil, true, nil, nil},
		{"another address of loopback", "127.8.8.8:7295", nil, true, nil, nil},
		{"DNS rebinding", "evil.example:7295", nil, true, nil, route.HostRefused},
		{"a name that begins like loopback", "127.0.0.1.evil.example", nil, true, nil, route.HostRefused},
		{"no host", "", nil, true, nil, route.HostRefused},
		{"behind a proxy", "pawl.example.com", nil, true, []string{"pawl.example.com"}, nil},
		{"elsewhere any name", "pawl.example.com", nil, false, nil, nil},
		{"own page", here, map[string]string{"Origin": "http://" + here, "Sec-Fetch-Site": "same-origin"}, true, nil, nil},
		{"foreign page", here, map[string]string{"Origin": "https://evil.example"}, true, nil, route.OriginRefused},
		{"foreign page on loopback", here, map[string]string{"Origin": "http://127.0.0.1:8080"}, true, nil, route.OriginRefused},
		{"foreign page elsewhere", "pawl.example.com", map[string]string{"Origin": "https://evil.example"}, false, nil, route.OriginRefused},
		{"sandboxed page", here, map[string]string{"Origin": "null"}, true, nil, route.OriginRefused},
		{"foreign image", here, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, true, nil, route.OriginRefused},
		{"page of a sibling site", here, map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, true, nil, route.OriginRefused},
		{"a link to the console", here, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, true, nil, nil},
		{"a frame around the console", here, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, true, nil, route.OriginRefused},
		{"typed into the address bar", here, map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, true, nil, nil},
	} {
		h := http.Header{}
		for name, value := range c.header {
			h.Set(name, value)
		}
		if got := fault.Of(auth.CheckOrigin(c.host, h, c.loopback, c.known)); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	f := servertest.New(t, nil)
	for _, header := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}} {
		if got := f.Do("GET", "/v1/runs", nil, header...); got.Status != 403 || got.Problem(t).Remedy == "" {
			t.Errorf("%v: %d %s", header, got.Status, got.Body)
		}
		if got := f.Do("GET", "/healthz", nil, header...); got.Status != 200 {
			t.Errorf("health with %v: %d", header, got.Status)
		}
	}
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for text, want := range map[string]int{
		"# the operator's\n\n" + servertest.Secret + "\n  another-token-of-20-characters \n": 2,
		"short\n":                     -1,
		"has a space in its middle\n": -1,
		"# nothing\n":                 -1,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := auth.ReadTokens(path)
		if want < 0 {
			if fault.Of(err) != route.TokenInvalid || strings.Contains(fmt.Sprint(err), "middle") {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if err != nil || got.Count() != want {
			t.Errorf("%q: %d tokens, %v", text, got.Count(), err)
		}
	}
	if _, err := auth.ReadTokens(path + ".none"); fault.Of(err) != route.TokenInvalid {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTokenFileOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(servertest.Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o644: false, 0o640: false, 0o604: false, 0o620: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := auth.ReadTokens(path)
		if good != (err == nil) || !good && (fault.Of(err) != route.TokenInvalid || !strings.Contains(err.Error(), "may be read by others")) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}
