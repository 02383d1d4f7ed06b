package auth_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// signIn exchanges a token for a cookie and a CSRF token.
func signIn(h *servertest.Fixture, token string, header ...string) (cookie *http.Cookie, csrf string) {
	h.T.Helper()
	got := h.Do("POST", "/v1/session", nil, append([]string{"Authorization", "Bearer " + token}, header...)...)
	cookies := (&http.Response{Header: got.Header}).Cookies()
	var reported auth.Session
	got.Into(h.T, &reported)
	if got.Status != 200 || len(cookies) != 1 || reported.CSRF == "" || reported.Expires.IsZero() {
		h.T.Fatalf("%d %s, cookies %v", got.Status, got.Body, cookies)
	}
	return cookies[0], reported.CSRF
}

func TestSession(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) { o.Tokens = servertest.Tokens(t, servertest.Secret) })
	cookie, csrf := signIn(h, servertest.Secret)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure || cookie.MaxAge != 12*3600 || cookie.Domain != "" {
		t.Errorf("the cookie is %+v", cookie)
	}
	if strings.Contains(cookie.Value, servertest.Secret) || strings.Contains(csrf, cookie.Value) {
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
		{"a bearer token needs no second one", "POST", "/v1/runs", []string{"Cookie", with, "Authorization", "Bearer " + servertest.Secret}, 202},
		{"a wrong bearer token is not saved by a cookie", "GET", "/v1/me", []string{"Cookie", with, "Authorization", "Bearer " + servertest.Secret[1:]}, 401},
		{"another's page", "POST", "/v1/runs", []string{"Cookie", with, "X-Pawl-Csrf", csrf, "Origin", "http://evil.example"}, 403},
		{"a cookie cut short", "GET", "/v1/me", []string{"Cookie", with[:len(with)-2]}, 401},
		{"a cookie changed", "GET", "/v1/me", []string{"Cookie", cookie.Name + "=B" + cookie.Value[1:]}, 401},
		{"no session without a token", "POST", "/v1/session", nil, 401},
		{"nor from a session", "POST", "/v1/session", []string{"Cookie", with, "X-Pawl-Csrf", csrf}, 401},
	} {
		if got := h.Do(c.method, c.path, start, c.header...); c.path != "/v1/session" && got.Status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, got.Status, c.status, got.Body)
		}
	}
	if got := h.Do("POST", "/v1/session", nil, "Cookie", with, "X-Pawl-Csrf", csrf); got.Status != 401 {
		t.Errorf("a session is made from a session: %d", got.Status)
	}
	if got := h.Do("POST", "/v1/runs", start, "Cookie", with); got.Problem(t).Code != route.SessionRefused.Code {
		t.Errorf("code %s", got.Body)
	}

	// A reload of the page gets the second token again.
	var reported auth.Session
	h.Do("GET", "/v1/session", nil, "Cookie", with).Into(t, &reported)
	if reported.CSRF != csrf || reported.Role != route.Operator {
		t.Errorf("got %+v", reported)
	}

	// Signing out ends this session and no other.
	other, _ := signIn(h, servertest.Secret)
	if got := h.Do("DELETE", "/v1/session", nil, "Cookie", with); got.Status != 403 {
		t.Errorf("another's page can sign out: %d", got.Status)
	}
	out := h.Do("DELETE", "/v1/session", nil, "Cookie", with, "X-Pawl-Csrf", csrf)
	if left := (&http.Response{Header: out.Header}).Cookies(); out.Status != 200 || len(left) != 1 || left[0].MaxAge >= 0 || left[0].Value != "" {
		t.Errorf("%d, cookies %v", out.Status, left)
	}
	if got := h.Do("GET", "/v1/me", nil, "Cookie", with); got.Status != 401 {
		t.Errorf("a session that has ended is still good: %d", got.Status)
	}
	if got := h.Do("GET", "/v1/me", nil, "Cookie", other.Name+"="+other.Value); got.Status != 200 {
		t.Errorf("another session ended too: %d", got.Status)
	}
}

// Over TLS, also of a proxy, the cookie is Secure and only for this host.
func TestSessionOverTLS(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		o.Tokens, o.Hosts = servertest.Tokens(t, servertest.Secret), []string{"pawl.example"}
	})
	cookie, _ := signIn(h, servertest.Secret, "Host", "pawl.example", "Origin", "https://pawl.example")
	if !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-") {
		t.Errorf("the cookie is %+v", cookie)
	}
	if got := h.Do("GET", "/v1/me", nil, "Cookie", cookie.Name+"="+cookie.Value); got.Status != 200 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// An invalid cookie does not matter where no credentials are needed.
func TestSessionWithoutTokens(t *testing.T) {
	h := servertest.New(t, nil)
	var reported auth.Session
	h.Do("GET", "/v1/session", nil).Into(t, &reported)
	if reported.Role != route.Operator || reported.CSRF != "" {
		t.Errorf("got %+v", reported)
	}
	if got := h.Do("POST", "/v1/runs", map[string]any{"flow": "Quick", "subject": "demo/default/c1"},
		"Cookie", auth.SessionCookie+"="+auth.CookieOfAnotherServer(servertest.Secret)); got.Status != 202 {
		t.Errorf("another server's cookie: %d %s", got.Status, got.Body)
	}
}

// Revoking a token ends its sessions. Servers with the same key share sessions.
func TestSessionFollowsItsToken(t *testing.T) {
	accounts := servertest.TokenTable{auth.HashToken(servertest.Secret): {Name: "uma", Role: route.User, Account: "1"}, auth.HashToken(servertest.Secret + "2"): {Name: "ole", Role: route.Operator}}
	share := func(o *server.Options) {
		o.Reviewer, o.Sessions = accounts, [][]byte{[]byte("a key of thirty-two bytes or more")}
	}
	h, second := servertest.New(t, share), servertest.New(t, share)
	cookie, _ := signIn(h, servertest.Secret)
	with := cookie.Name + "=" + cookie.Value
	var me auth.Me
	second.Do("GET", "/v1/me", nil, "Cookie", with).Into(t, &me)
	if me.Name != "uma" || me.Role != route.User {
		t.Errorf("the second server knows %+v", me)
	}
	if got := h.Do("GET", "/v1/runs", nil, "Cookie", with); got.Status != 403 {
		t.Errorf("a session may do more than its token: %d", got.Status)
	}
	delete(accounts, auth.HashToken(servertest.Secret))
	if got := h.Do("GET", "/v1/me", nil, "Cookie", with); got.Status != 401 {
		t.Errorf("the session outlives its token: %d %s", got.Status, got.Body)
	}
}

// Sessions survive a restart and work on other servers with the same keys, and so does signing out.
func TestSessionOutlivesTheServer(t *testing.T) {
	old, fresh := []byte("the key that was the newest before"), []byte("the key that is the newest from now on")
	out := auth.NewMemorySignedOut() // stands for the store of both servers
	with := func(keys ...[]byte) *servertest.Fixture {
		return servertest.New(t, func(o *server.Options) {
			o.Tokens, o.Sessions, o.SignedOut = servertest.Tokens(t, servertest.Secret), keys, out
		})
	}
	before := with(old)
	cookie, csrf := signIn(before, servertest.Secret)
	header := []string{"Cookie", cookie.Name + "=" + cookie.Value, "X-Pawl-Csrf", csrf}
	start := map[string]any{"flow": "Quick", "subject": "demo/default/c1"}
	for _, c := range []struct {
		name   string
		server *servertest.Fixture
		status int
	}{
		{"restarted", with(old), 202},
		{"restarted with a newer key, and the old one behind it", with(fresh, old), 202},
		{"restarted without the old key", with(fresh), 401},
		{"restarted without any key", with(), 401},
	} {
		if got := c.server.Do("POST", "/v1/runs", start, header...); got.Status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, got.Status, c.status, got.Body)
		}
	}

	// The newest key signs: its cookies stay valid when the old key is removed.
	cookie, csrf = signIn(with(fresh, old), servertest.Secret)
	header = []string{"Cookie", cookie.Name + "=" + cookie.Value, "X-Pawl-Csrf", csrf}
	after := with(fresh)
	if got := after.Do("POST", "/v1/runs", start, header...); got.Status != 202 {
		t.Errorf("a session of the new key: %d %s", got.Status, got.Body)
	}

	beside := with(fresh)
	if got := after.Do("DELETE", "/v1/session", nil, header...); got.Status != 200 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if got := beside.Do("GET", "/v1/me", nil, header...); got.Status != 401 {
		t.Errorf("signed out at one server, and good at the other: %d", got.Status)
	}
}

// A cookie is refused while the store cannot report whether it was signed out.
func TestSessionNeedsItsStore(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		o.Tokens, o.SignedOut = servertest.Tokens(t, servertest.Secret), brokenSignedOut{}
	})
	cookie, csrf := signIn(h, servertest.Secret)
	header := []string{"Cookie", cookie.Name + "=" + cookie.Value, "X-Pawl-Csrf", csrf}
	if got := h.Do("GET", "/v1/me", nil, header...); got.Status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := h.Do("GET", "/v1/me", nil, "Authorization", "Bearer "+servertest.Secret); got.Status != 200 {
		t.Errorf("a bearer token is no session: %d %s", got.Status, got.Body)
	}
}

type brokenSignedOut struct{}

func (brokenSignedOut) SignOut(context.Context, string) error {
	return runstore.StoreUnavailable.Errorf("out of order")
}

func (brokenSignedOut) SignedOut(context.Context, string) (bool, error) {
	return false, runstore.StoreUnavailable.Errorf("out of order")
}
