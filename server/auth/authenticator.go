// Package auth says who calls: by a bearer token, by the cookie of a session made from
// one, or on loopback without either. It refuses callers whose role does not suffice and
// requests into which a browser was tricked.
package auth

import (
	"context"
	"crypto/hmac"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/server/route"
)

// Options of an Authenticator.
type Options struct {
	Listen    string   // address of the server
	TLS       bool     // the server itself speaks TLS
	Hosts     []string // further host names that requests may name on loopback
	Tokens    *Tokens
	Reviewer  TokenReviewer // nil: none
	Sessions  [][]byte      // keys of sessions; the first signs; none: a random one
	SignedOut SignedOut     // nil: in the memory of this process
	Version   string        // of the program
	Parts     []string      // what the server has besides runs

	// Limit limits the requests of an address that are identified at once.
	Limit func(*http.Request) (free func(), err error)
}

// Authenticator identifies callers, by tokens and by sessions, and refuses those whose
// role does not suffice for the route.
type Authenticator struct {
	options  Options
	loopback bool
	sessions *sessions
}

// New returns an Authenticator.
func New(o Options) *Authenticator {
	return &Authenticator{options: o, loopback: IsLoopback(o.Listen), sessions: newSessions(o.Sessions, o.SignedOut)}
}

// credentials are what identified the caller.
type credentials struct {
	token   *TokenHash // of the Authorization header; nil: none
	session *session   // of the cookie; nil: none
}

type credentialsKey struct{}

func credentialsOf(ctx context.Context) credentials {
	c, _ := ctx.Value(credentialsKey{}).(credentials)
	return c
}

// Authenticate identifies the caller, and refuses callers whose role does not suffice for the route.
func (a *Authenticator) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := route.CallOf(r.Context())
		least := c.Route.EntryRole()
		if least == route.Anyone {
			next.ServeHTTP(w, r)
			return
		}
		who, credentials, err := a.identifyLimited(r)
		if err == nil {
			c.Who = who
			err = route.Allow(r.Context(), least)
		}
		if err != nil {
			route.WriteProblem(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), credentialsKey{}, credentials)))
	})
}

func (a *Authenticator) identifyLimited(r *http.Request) (route.Principal, credentials, error) {
	free, err := a.options.Limit(r)
	if err != nil {
		return route.Principal{}, credentials{}, err
	}
	defer free()
	return a.identify(r)
}

// Identify returns the caller of a request.
func (a *Authenticator) Identify(r *http.Request) (route.Principal, error) {
	who, _, err := a.identify(r)
	return who, err
}

// identify returns the caller of a request and its credentials. Without credentials the caller is the
// operator, but only on loopback and while there is neither token nor account. An
// invalid cookie, or one whose token was revoked, counts as no cookie.
func (a *Authenticator) identify(r *http.Request) (who route.Principal, c credentials, err error) {
	sources := []TokenReviewer{a.options.Tokens}
	if a.options.Reviewer != nil {
		sources = append(sources, a.options.Reviewer)
	}
	token, given, err := Bearer(r.Header)
	if err != nil {
		return who, c, err
	}
	var hash TokenHash
	switch n, found, refused := a.session(r); {
	case given: // a token wins over a cookie
		hash = HashToken(token)
		c.token = &hash
	case refused != nil:
		return who, c, refused
	case found:
		hash, given = n.token, true
		c.session = &n
	}
	if given {
		for _, source := range sources {
			who, found, err := source.ByToken(r.Context(), hash)
			if err != nil {
				return who, c, err
			}
			if found {
				return who, c, nil
			}
		}
		if c.session == nil {
			return who, c, route.Unauthenticated.Errorf("the token is unknown")
		}
		c.session = nil // its token was revoked
	}
	for _, source := range sources {
		any, err := source.Any(r.Context())
		if err != nil {
			return who, c, err
		}
		if any {
			return who, c, route.Unauthenticated.Errorf("the request carries no token")
		}
	}
	if !a.loopback {
		return who, c, route.Unauthenticated.Errorf("the request carries no token")
	}
	return route.Principal{Name: "operator", Role: route.Operator}, c, nil
}

// Bearer returns the token of the Authorization header. given is false without the header.
func Bearer(h http.Header) (token string, given bool, err error) {
	values := h.Values("Authorization")
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		scheme, token, _ := strings.Cut(values[0], " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
			return token, true, nil
		}
	}
	return "", false, route.Unauthenticated.Errorf("the Authorization header is not one Bearer token")
}

// session returns the session of a request, and refuses changes without its second
// token. An invalid cookie counts as none: the console then asks for a token.
func (a *Authenticator) session(r *http.Request) (n session, found bool, err error) {
	for _, name := range []string{secureCookie, SessionCookie} {
		for _, c := range r.CookiesNamed(name) {
			if n, found, err = a.sessions.read(r.Context(), c.Value, time.Now()); found || err != nil {
				break
			}
		}
		if found || err != nil {
			break
		}
	}
	if err != nil || !found || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return n, found, err
	}
	if !hmac.Equal([]byte(r.Header.Get(CSRFHeader)), []byte(n.csrf())) {
		return n, true, route.SessionRefused.Errorf("the header %s is absent or not that of the session", CSRFHeader)
	}
	return n, true, nil
}
