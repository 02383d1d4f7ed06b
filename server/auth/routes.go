package auth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/server/route"
)

// Routes are the routes of the caller and its session.
func (a *Authenticator) Routes() route.Table {
	const session = "/v1/session"
	return route.Table{Tag: "server", Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/me", ID: "me", Role: route.User, Handle: route.Do(a.getMe),
			Summary: "Return the caller and the version of the server"},
		{Method: http.MethodGet, Path: session, ID: "getSession", Role: route.User, Handle: route.Do(a.getSession),
			Summary: "Read the session", More: "Returns the caller, and the token that changes need besides the cookie."},
		{Method: http.MethodPost, Path: session, ID: "openSession", Role: route.User, Idempotent: true, Handle: route.Do(a.openSession),
			Summary: "Exchange a token for a cookie", More: "The request carries the token as usual. The cookie is HttpOnly and SameSite=Strict, and valid for 12 h or until the token is revoked."},
		{Method: http.MethodDelete, Path: session, ID: "endSession", Role: route.User, Handle: route.Do(a.endSession),
			Summary: "Sign out", More: "The cookie is not valid any more."},
	}}
}

// Me describes the caller.
type Me struct {
	Name    string     `json:"name"`
	Role    route.Role `json:"role" enum:"user,domain-admin,operator"`
	Account string     `json:"account,omitempty"`
	Domain  string     `json:"domain,omitempty"`
	Version string     `json:"version,omitempty" doc:"of the server"`
	Parts   []string   `json:"parts,omitempty" enum:"accounts,bulks,clusters,foundationdb,machines,objects,rollouts,schedules,workers" doc:"what the server has besides runs"`
}

func (a *Authenticator) me(ctx context.Context) Me {
	who := route.CallOf(ctx).Who
	return Me{Name: who.Name, Role: who.Role, Account: who.Account, Domain: who.Domain, Version: a.options.Version, Parts: a.options.Parts}
}

func (a *Authenticator) getMe(ctx context.Context, _ *struct{}) (*route.One[Me], error) {
	return route.OneOf(a.me(ctx), nil)
}

// Session describes the caller, with the token that the console needs besides its cookie.
type Session struct {
	Me
	CSRF    string    `json:"csrf,omitempty" doc:"value of the header X-Pawl-Csrf of all methods but GET; absent: the request has no session and needs no such header"`
	Expires time.Time `json:"expires,omitzero" doc:"of the session"`
}

type sessionAnswer struct {
	SetCookie []http.Cookie `header:"Set-Cookie"`
	Body      Session
}

// describe returns the answer about a session; nil: the caller has none.
func (a *Authenticator) describe(ctx context.Context, n *session) Session {
	out := Session{Me: a.me(ctx)}
	if n != nil {
		out.CSRF, out.Expires = n.csrf(), n.expires.UTC()
	}
	return out
}

func (a *Authenticator) getSession(ctx context.Context, _ *struct{}) (*sessionAnswer, error) {
	return &sessionAnswer{Body: a.describe(ctx, credentialsOf(ctx).session)}, nil
}

type originHeader struct {
	Origin string `header:"Origin" hidden:"true"`
}

func (a *Authenticator) openSession(ctx context.Context, in *originHeader) (*sessionAnswer, error) {
	token := credentialsOf(ctx).token
	if token == nil {
		return nil, route.Unauthenticated.Errorf("a session needs a token, and the request carries none")
	}
	n := a.sessions.newSession(*token, time.Now().UTC())
	return &sessionAnswer{SetCookie: []http.Cookie{a.newCookie(n.cookie(), int(sessionLength.Seconds()), in.Origin)}, Body: a.describe(ctx, &n)}, nil
}

type signedOutAnswer = struct {
	SetCookie []http.Cookie `header:"Set-Cookie"`
	Body      struct{}
}

func (a *Authenticator) endSession(ctx context.Context, in *originHeader) (*signedOutAnswer, error) {
	if n := credentialsOf(ctx).session; n != nil {
		if err := a.sessions.signedOut.SignOut(ctx, n.id()); err != nil {
			return nil, err
		}
	}
	return &signedOutAnswer{SetCookie: []http.Cookie{a.newCookie("", -1, in.Origin)}}, nil
}

// newCookie returns a cookie. It is Secure if the browser uses TLS, to this server or to
// a proxy before it: the checked Origin shows which.
func (a *Authenticator) newCookie(value string, age int, origin string) http.Cookie {
	c := http.Cookie{Name: SessionCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if a.options.TLS || strings.HasPrefix(origin, "https://") {
		c.Name, c.Secure = secureCookie, true
	}
	return c
}
