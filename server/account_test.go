package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
)

const secret = "0123456789abcdef0123456789abcdef"

func tokens(t *testing.T, all ...string) *Tokens {
	t.Helper()
	created, err := NewTokens(all...)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// tokenTable is a TokenReviewer in memory.
type tokenTable map[TokenHash]Principal

func (b tokenTable) ByToken(_ context.Context, hash TokenHash) (Principal, bool, error) {
	who, found := b[hash]
	return who, found, nil
}
func (b tokenTable) Any(context.Context) (bool, error) { return len(b) > 0, nil }

// Each caller gets exactly the routes of its role, with and without credentials.
func TestWhoMayAsk(t *testing.T) {
	user, admin := strings.Repeat("u", 32), strings.Repeat("d", 32)
	accounts := tokenTable{HashToken(user): {Name: "uma", Role: User, Account: "1"}, HashToken(admin): {Name: "dan", Role: DomainAdmin, Account: "2"}}
	type ask struct {
		path, authorization string
		status              int
	}
	for _, c := range []struct {
		name   string
		change func(*Options)
		asks   []ask
	}{
		{"loopback without token", nil, []ask{
			{"/v1/runs", "", 200}, {"/v1/me", "", 200}, {"/metrics", "", 200}, {"/healthz", "", 200}, {"/readyz", "", 200}, {"/v1/openapi.json", "", 200},
			{"/v1/runs", "Bearer " + secret, 401}, {"/v1/runs", "Basic eDp5", 401},
		}},
		{"loopback with token", func(o *Options) { o.Tokens = tokens(t, "another-token-of-20-characters", secret) }, []ask{
			{"/v1/runs", "", 401}, {"/v1/me", "", 401}, {"/v1/openapi.json", "", 401}, {"/metrics", "", 200}, {"/healthz", "", 200},
			{"/v1/runs", "Bearer " + secret, 200}, {"/v1/runs", "bearer " + secret, 200}, {"/v1/runs", "Bearer " + secret[1:], 401},
			{"/v1/runs", "Bearer", 401}, {"/v1/runs", "Bearer " + secret + "x", 401}, {"/v1/nothing", "", 401}, {"/v1/nothing", "Bearer " + secret, 404},
		}},
		{"elsewhere", func(o *Options) { o.Listen, o.Tokens = "0.0.0.0:7295", tokens(t, secret) }, []ask{
			{"/v1/runs", "", 401}, {"/metrics", "", 401}, {"/healthz", "", 200}, {"/readyz", "", 200},
			{"/v1/runs", "Bearer " + secret, 200}, {"/metrics", "Bearer " + secret, 200},
		}},
		{"loopback with accounts", func(o *Options) { o.Reviewer = accounts }, []ask{
			{"/v1/runs", "", 401}, {"/v1/me", "Bearer " + user, 200}, {"/v1/faults", "Bearer " + user, 200},
			{"/v1/runs", "Bearer " + user, 403}, {"/v1/objects", "Bearer " + admin, 403}, {"/v1/flows", "Bearer " + user, 403}, {"/v1/events?type=nonsense", "Bearer " + admin, 422},
		}},
		{"elsewhere with accounts", func(o *Options) { o.Listen, o.Reviewer, o.Tokens = ":7295", accounts, tokens(t, secret) }, []ask{
			{"/metrics", "Bearer " + user, 403}, {"/metrics", "Bearer " + secret, 200}, {"/v1/runs", "Bearer " + secret, 200}, {"/v1/me", "Bearer " + admin, 200},
		}},
	} {
		h := newFixture(t, func(o *Options) {
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
			got := h.do("GET", a.path, nil, header...)
			if got.status != a.status {
				t.Errorf("%s: GET %s with %q: %d, want %d: %s", c.name, a.path, a.authorization, got.status, a.status, got.body)
			}
			switch got.status {
			case 401:
				if p := got.problem(t); p.Code != Unauthenticated.Code || got.header.Get("WWW-Authenticate") == "" || p.Remedy == "" {
					t.Errorf("%s: %s: %s", c.name, a.path, got.body)
				}
			case 403:
				if p := got.problem(t); p.Code != Forbidden.Code {
					t.Errorf("%s: %s: %s", c.name, a.path, got.body)
				}
			}
			if strings.Contains(string(got.body), secret) {
				t.Errorf("%s: the answer tells the token: %s", c.name, got.body)
			}
		}
		if strings.Contains(h.log.String(), secret) {
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
		{"DNS rebinding", "evil.example:7295", nil, true, nil, HostRefused},
		{"a name that begins like loopback", "127.0.0.1.evil.example", nil, true, nil, HostRefused},
		{"no host", "", nil, true, nil, HostRefused},
		{"behind a proxy", "pawl.example.com", nil, true, []string{"pawl.example.com"}, nil},
		{"elsewhere any name", "pawl.example.com", nil, false, nil, nil},
		{"own page", here, map[string]string{"Origin": "http://" + here, "Sec-Fetch-Site": "same-origin"}, true, nil, nil},
		{"foreign page", here, map[string]string{"Origin": "https://evil.example"}, true, nil, OriginRefused},
		{"foreign page on loopback", here, map[string]string{"Origin": "http://127.0.0.1:8080"}, true, nil, OriginRefused},
		{"foreign page elsewhere", "pawl.example.com", map[string]string{"Origin": "https://evil.example"}, false, nil, OriginRefused},
		{"sandboxed page", here, map[string]string{"Origin": "null"}, true, nil, OriginRefused},
		{"foreign image", here, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, true, nil, OriginRefused},
		{"page of a sibling site", here, map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, true, nil, OriginRefused},
		{"a link to the console", here, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, true, nil, nil},
		{"a frame around the console", here, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, true, nil, OriginRefused},
		{"typed into the address bar", here, map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, true, nil, nil},
	} {
		h := http.Header{}
		for name, value := range c.header {
			h.Set(name, value)
		}
		if got := fault.Of(checkOrigin(c.host, h, c.loopback, c.known)); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	f := newFixture(t, nil)
	for _, header := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}} {
		if got := f.do("GET", "/v1/runs", nil, header...); got.status != 403 || got.problem(t).Remedy == "" {
			t.Errorf("%v: %d %s", header, got.status, got.body)
		}
		if got := f.do("GET", "/healthz", nil, header...); got.status != 200 {
			t.Errorf("health with %v: %d", header, got.status)
		}
	}
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for text, want := range map[string]int{
		"# the operator's\n\n" + secret + "\n  another-token-of-20-characters \n": 2,
		"short\n":                     -1,
		"has a space in its middle\n": -1,
		"# nothing\n":                 -1,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadTokens(path)
		if want < 0 {
			if fault.Of(err) != TokenInvalid || strings.Contains(fmt.Sprint(err), "middle") {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if err != nil || len(got.hashes) != want {
			t.Errorf("%q: %d tokens, %v", text, len(got.hashes), err)
		}
	}
	if _, err := ReadTokens(path + ".none"); fault.Of(err) != TokenInvalid {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTokenFileOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o644: false, 0o640: false, 0o604: false, 0o620: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadTokens(path)
		if good != (err == nil) || !good && (fault.Of(err) != TokenInvalid || !strings.Contains(err.Error(), "may be read by others")) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

func TestRoleText(t *testing.T) {
	for _, role := range []Role{Anyone, User, DomainAdmin, Operator} {
		text, _ := role.MarshalText()
		var back Role
		if err := back.UnmarshalText(text); err != nil || back != role {
			t.Errorf("%s became %s, %v", role, back, err)
		}
	}
	var r Role
	if err := r.UnmarshalText([]byte("root")); err == nil {
		t.Error("root is a role")
	}
}
