package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// signIn exchanges a token for a cookie and a CSRF token.
func (h *fixture) signIn(token string, header ...string) (cookie *http.Cookie, csrf string) {
	h.t.Helper()
	got := h.do("POST", "/v1/session", nil, append([]string{"Authorization", "Bearer " + token}, header...)...)
	cookies := (&http.Response{Header: got.header}).Cookies()
	var reported Session
	got.into(h.t, &reported)
	if got.status != 200 || len(cookies) != 1 || reported.CSRF == "" || reported.Expires.IsZero() {
		h.t.Fatalf("%d %s, cookies %v", got.status, got.body, cookies)
	}
	return cookies[0], reported.CSRF
}

func TestSession(t *testing.T) {
	h := newFixture(t, func(o *Options) { o.Tokens = tokens(t, secret) })
	cookie, csrf := h.signIn(secret)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure || cookie.MaxAge != 12*3600 || cookie.Domain != "" {
		t.Errorf("the cookie is %+v", cookie)
	}
	if strings.Contains(cookie.Value, secret) || strings.Contains(csrf, cookie.Value) {
		t.Error("the cookie tells the token, or the CSRF token the cookie")
	}
	with := cookie.Name + "=" + cookie.Value
	start := map[string]any{"flow": "Quick", "subject": "demo/default/c1"}
	for _, c := range []struct {
		name, method, path string
		header             []string
		status             int
	}{
		{"nothing", "GET", "/v1/me", nil, 401},
		{"reading needs the cookie only", "GET", "/v1/me", []string{"Cookie", with}, 200},
		{"changing needs the second token", "POST", "/v1/runs", []string{"Cookie", with}, 403},
		{"and not another", "POST", "/v1/runs", []string{"Cookie", with, "X-Pawl-Csrf", csrf[1:]}, 403},
		{"with both", "POST", "/v1/runs", []string{"Cookie", with, "X-Pawl-Csrf", csrf}, 202},
		{"the second token alone", "POST", "/v1/runs", []string{"X-Pawl-Csrf", csrf}, 401},
		{"a bearer token needs no second one", "POST", "/v1/runs", []string{"Cookie", with, "Authorization", "Bearer " + secret}, 202},
		{"a wrong bearer token is not saved by a cookie", "GET", "/v1/me", []string{"Cookie", with, "Authorization", "Bearer " + secret[1:]}, 401},
		{"another's page", "POST", "/v1/runs", []string{"Cookie", with, "X-Pawl-Csrf", csrf, "Origin", "http://evil.example"}, 403},
		{"a cookie cut short", "GET", "/v1/me", []string{"Cookie", with[:len(with)-2]}, 401},
		{"a cookie changed", "GET", "/v1/me", []string{"Cookie", cookie.Name + "=B" + cookie.Value[1:]}, 401},
		{"no session without a token", "POST", "/v1/session", nil, 401},
		{"nor from a session", "POST", "/v1/session", []string{"Cookie", with, "X-Pawl-Csrf", csrf}, 401},
	} {
		if got := h.do(c.method, c.path, start, c.header...); c.path != "/v1/session" && got.status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, got.status, c.status, got.body)
		}
	}
	if got := h.do("POST", "/v1/session", nil, "Cookie", with, "X-Pawl-Csrf", csrf); got.status != 401 {
		t.Errorf("a session is made from a session: %d", got.status)
	}
	if got := h.do("POST", "/v1/runs", start, "Cookie", with); got.problem(t).Code != SessionRefused.Code {
		t.Errorf("code %s", got.body)
	}

	// A reload of the page gets the second token again.
	var reported Session
	h.do("GET", "/v1/session", nil, "Cookie", with).into(t, &reported)
	if reported.CSRF != csrf || reported.Role != Operator {
		t.Errorf("got %+v", reported)
	}

	// Signing out ends this session and no other.
	other, _ := h.signIn(secret)
	if got := h.do("DELETE", "/v1/session", nil, "Cookie", with); got.status != 403 {
		t.Errorf("another's page can sign out: %d", got.status)
	}
	out := h.do("DELETE", "/v1/session", nil, "Cookie", with, "X-Pawl-Csrf", csrf)
	if left := (&http.Response{Header: out.header}).Cookies(); out.status != 200 || len(left) != 1 || left[0].MaxAge >= 0 || left[0].Value != "" {
		t.Errorf("%d, cookies %v", out.status, left)
	}
	if got := h.do("GET", "/v1/me", nil, "Cookie", with); got.status != 401 {
		t.Errorf("a session that has ended is still good: %d", got.status)
	}
	if got := h.do("GET", "/v1/me", nil, "Cookie", other.Name+"="+other.Value); got.status != 200 {
		t.Errorf("another session ended too: %d", got.status)
	}
}

// Over TLS, also of a proxy, the cookie is Secure and only for this host.
func TestSessionOverTLS(t *testing.T) {
	h := newFixture(t, func(o *Options) { o.Tokens, o.Hosts = tokens(t, secret), []string{"pawl.example"} })
	cookie, _ := h.signIn(secret, "Host", "pawl.example", "Origin", "https://pawl.example")
	if !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-") {
		t.Errorf("the cookie is %+v", cookie)
	}
	if got := h.do("GET", "/v1/me", nil, "Cookie", cookie.Name+"="+cookie.Value); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// An invalid cookie does not matter where no credentials are needed.
func TestSessionWithoutTokens(t *testing.T) {
	h := newFixture(t, nil)
	var reported Session
	h.do("GET", "/v1/session", nil).into(t, &reported)
	if reported.Role != Operator || reported.CSRF != "" {
		t.Errorf("got %+v", reported)
	}
	key := newSessions(nil, nil)
	if got := h.do("POST", "/v1/runs", map[string]any{"flow": "Quick", "subject": "demo/default/c1"},
		"Cookie", sessionCookie+"="+key.newSession(HashToken(secret), now()).cookie()); got.status != 202 {
		t.Errorf("another server's cookie: %d %s", got.status, got.body)
	}
}

// Revoking a token ends its sessions. Servers with the same key share sessions.
func TestSessionFollowsItsToken(t *testing.T) {
	accounts := tokenTable{HashToken(secret): {Name: "uma", Role: User, Account: "1"}, HashToken(secret + "2"): {Name: "ole", Role: Operator}}
	share := func(o *Options) {
		o.Reviewer, o.Sessions = accounts, [][]byte{[]byte("a key of thirty-two bytes or more")}
	}
	h, second := newFixture(t, share), newFixture(t, share)
	cookie, _ := h.signIn(secret)
	with := cookie.Name + "=" + cookie.Value
	var me Me
	second.do("GET", "/v1/me", nil, "Cookie", with).into(t, &me)
	if me.Name != "uma" || me.Role != User {
		t.Errorf("the second server knows %+v", me)
	}
	if got := h.do("GET", "/v1/runs", nil, "Cookie", with); got.status != 403 {
		t.Errorf("a session may do more than its token: %d", got.status)
	}
	delete(accounts, HashToken(secret))
	if got := h.do("GET", "/v1/me", nil, "Cookie", with); got.status != 401 {
		t.Errorf("the session outlives its token: %d %s", got.status, got.body)
	}
}

// Sessions survive a restart and work on other servers with the same keys, and so does signing out.
func TestSessionOutlivesTheServer(t *testing.T) {
	old, fresh := []byte("the key that was the newest before"), []byte("the key that is the newest from now on")
	out := &memorySignedOut{until: map[string]time.Time{}} // stands for the store of both servers
	with := func(keys ...[]byte) *fixture {
		return newFixture(t, func(o *Options) { o.Tokens, o.Sessions, o.SignedOut = tokens(t, secret), keys, out })
	}
	before := with(old)
	cookie, csrf := before.signIn(secret)
	header := []string{"Cookie", cookie.Name + "=" + cookie.Value, "X-Pawl-Csrf", csrf}
	start := map[string]any{"flow": "Quick", "subject": "demo/default/c1"}
	for _, c := range []struct {
		name   string
		server *fixture
		status int
	}{
		{"restarted", with(old), 202},
		{"restarted with a newer key, and the old one behind it", with(fresh, old), 202},
		{"restarted without the old key", with(fresh), 401},
		{"restarted without any key", with(), 401},
	} {
		if got := c.server.do("POST", "/v1/runs", start, header...); got.status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, got.status, c.status, got.body)
		}
	}

	// The newest key signs: its cookies stay valid when the old key is removed.
	cookie, csrf = with(fresh, old).signIn(secret)
	header = []string{"Cookie", cookie.Name + "=" + cookie.Value, "X-Pawl-Csrf", csrf}
	after := with(fresh)
	if got := after.do("POST", "/v1/runs", start, header...); got.status != 202 {
		t.Errorf("a session of the new key: %d %s", got.status, got.body)
	}

	beside := with(fresh)
	if got := after.do("DELETE", "/v1/session", nil, header...); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := beside.do("GET", "/v1/me", nil, header...); got.status != 401 {
		t.Errorf("signed out at one server, and good at the other: %d", got.status)
	}
}

// A cookie is refused while the store cannot report whether it was signed out.
func TestSessionNeedsItsStore(t *testing.T) {
	h := newFixture(t, func(o *Options) { o.Tokens, o.SignedOut = tokens(t, secret), brokenSignedOut{} })
	cookie, csrf := h.signIn(secret)
	header := []string{"Cookie", cookie.Name + "=" + cookie.Value, "X-Pawl-Csrf", csrf}
	if got := h.do("GET", "/v1/me", nil, header...); got.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := h.do("GET", "/v1/me", nil, "Authorization", "Bearer "+secret); got.status != 200 {
		t.Errorf("a bearer token is no session: %d %s", got.status, got.body)
	}
}

type brokenSignedOut struct{}

func (brokenSignedOut) SignOut(context.Context, string) error {
	return workflow.StoreUnavailable.Errorf("out of order")
}

func (brokenSignedOut) SignedOut(context.Context, string) (bool, error) {
	return false, workflow.StoreUnavailable.Errorf("out of order")
}

func TestSessionEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &memorySignedOut{until: map[string]time.Time{}}
		s := newSessions(nil, out)
		n := s.newSession(HashToken(secret), time.Now())
		cookie := n.cookie()
		time.Sleep(12*time.Hour - 2*time.Second)
		if got, ok, err := s.read(t.Context(), cookie, time.Now()); !ok || err != nil || got.token != n.token {
			t.Error("it ended before its time")
		}
		time.Sleep(2 * time.Second)
		if _, ok, _ := s.read(t.Context(), cookie, time.Now()); ok {
			t.Error("it is good after 12 h")
		}
		for _, id := range []string{"one", "two"} {
			if err := out.SignOut(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(12 * time.Hour)
		}
		if len(out.until) != 1 {
			t.Errorf("%d ended sessions are remembered, one of them for ever", len(out.until))
		}
	})
}

// No forged cookie is a session or breaks the server.
func FuzzCookie(f *testing.F) {
	s := newSessions([][]byte{[]byte("key")}, nil)
	n := s.newSession(HashToken(secret), time.Unix(4e9, 0))
	clear(n.nonce[:]) // the same valid cookie in each fuzzing process
	good := n.cookie()
	f.Add(good)
	f.Add(good[:40])
	f.Add(good + "A")
	f.Fuzz(func(t *testing.T, cookie string) {
		if _, ok, _ := s.read(t.Context(), cookie, time.Unix(4e9, 0)); ok && cookie != good {
			t.Errorf("%q is a session", cookie)
		}
	})
}
