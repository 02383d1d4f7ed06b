package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/secretfile"
)

// Role says what an account may do; each includes those before it.
type Role int

// The roles.
const (
	Anyone      Role = iota
	User             // sees and changes its own clusters
	DomainAdmin      // and those of its domain
	Operator         // and flows, runs, objects and all clusters
)

// String gives anyone, user, domain-admin or operator.
func (r Role) String() string {
	return [...]string{"anyone", "user", "domain-admin", "operator"}[min(max(r, Anyone), Operator)]
}

// MarshalText encodes the role as its name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a role.
func (r *Role) UnmarshalText(text []byte) error {
	for _, role := range []Role{Anyone, User, DomainAdmin, Operator} {
		if role.String() == string(text) {
			*r = role
			return nil
		}
	}
	return Malformed.Errorf("role %q is none of user, domain-admin, operator", text)
}

// Principal is who asks.
type Principal struct {
	Name    string // as history tells it
	Role    Role
	Account string // id; empty for the operator's own tokens
	Domain  string
}

// TokenReviewer knows whose a token is. Only hashes of tokens reach it.
type TokenReviewer interface {
	// ByToken finds whose token has this hash.
	ByToken(ctx context.Context, hash TokenHash) (who Principal, found bool, err error)
	// Any reports whether there is any account: from then on loopback needs credentials too.
	Any(ctx context.Context) (bool, error)
}

// TokenHash is the SHA-256 of a token. Tokens are random, so no salt or slow hash is needed.
type TokenHash [sha256.Size]byte

// HashToken is the only form in which a token is kept.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Tokens are the operator's own tokens. It is an Accounts; the zero value has none.
type Tokens struct{ hashes []TokenHash }

// NewTokens keeps the hashes of tokens. TOKEN_INVALID if one is too short to be a secret.
func NewTokens(tokens ...string) (*Tokens, error) {
	t := &Tokens{}
	for _, token := range tokens {
		if len(token) < 20 || strings.ContainsAny(token, " \t\r\n") {
			return nil, TokenInvalid.Errorf("a token has %d characters or contains a space", len(token))
		}
		t.hashes = append(t.hashes, HashToken(token))
	}
	return t, nil
}

// ReadTokens reads a token file: a token a line; empty lines and those that
// begin with # are left out. What secretfile.Read refuses is TOKEN_INVALID.
func ReadTokens(path string) (*Tokens, error) {
	text, err := secretfile.Read(path)
	if err != nil {
		return nil, TokenInvalid.Errorf("token file: %w", err)
	}
	var tokens []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			tokens = append(tokens, line)
		}
	}
	if len(tokens) == 0 {
		return nil, TokenInvalid.Errorf("token file %s holds no token", path)
	}
	return NewTokens(tokens...)
}

// ByToken compares with every token in constant time.
func (t *Tokens) ByToken(_ context.Context, hash TokenHash) (Principal, bool, error) {
	found := 0
	if t != nil {
		for i := range t.hashes {
			found |= subtle.ConstantTimeCompare(t.hashes[i][:], hash[:])
		}
	}
	return Principal{Name: "operator", Role: Operator}, found == 1, nil
}

// Any reports whether there is a token.
func (t *Tokens) Any(context.Context) (bool, error) { return t != nil && len(t.hashes) > 0, nil }

// authenticated finds out who asks, and refuses who must say so and does not.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		need := needs(r.URL.Path, s.loop)
		if need == Anyone {
			next.ServeHTTP(w, r)
			return
		}
		who, err := s.asking(r)
		if err == nil && who.Role < need {
			err = Forbidden.Errorf("%s is %s, %s is for %s", who.Name, who.Role, r.URL.Path, need)
		}
		if err != nil {
			writeProblem(w, r, err)
			return
		}
		callOf(r.Context()).who = who
		next.ServeHTTP(w, r)
	})
}

// asking finds out who asks, for so many requests of an address at once as are carried out in all.
func (s *Server) asking(r *http.Request) (Principal, error) {
	free, err := s.admission.asking.take(address(r))
	if err != nil {
		return Principal{}, err
	}
	defer free()
	return s.identify(r)
}

// needs is the least role that a path asks for before it is routed. Routes of
// /v1 may ask for more.
func needs(path string, loopback bool) Role {
	switch {
	case path == heartbeatPath: // nodes pay with their own tokens
		return Anyone
	case path == "/v1" || strings.HasPrefix(path, "/v1/"):
		return User
	case path == "/metrics" && !loopback:
		return Operator
	default:
		return Anyone
	}
}

// identify says who asks. Without credentials it is the operator, on loopback
// and as long as there is neither token nor account.
// A cookie that is not good, or whose token was revoked, is none.
func (s *Server) identify(r *http.Request) (Principal, error) {
	sources := []TokenReviewer{s.options.Tokens}
	if s.options.Reviewer != nil {
		sources = append(sources, s.options.Reviewer)
	}
	token, given, err := bearer(r.Header)
	if err != nil {
		return Principal{}, err
	}
	var hash TokenHash
	c := callOf(r.Context())
	switch n, found, refused := s.session(r); {
	case given: // a token says more than a cookie
		hash = HashToken(token)
		c.token = &hash
	case refused != nil:
		return Principal{}, refused
	case found:
		hash, given = n.token, true
		c.session = &n
	}
	if given {
		for _, source := range sources {
			who, found, err := source.ByToken(r.Context(), hash)
			if err != nil {
				return Principal{}, err
			}
			if found {
				return who, nil
			}
		}
		if c.session == nil {
			return Principal{}, Unauthenticated.Errorf("the token is unknown")
		}
		c.session = nil // its token was revoked: it is none
	}
	for _, source := range sources {
		any, err := source.Any(r.Context())
		if err != nil {
			return Principal{}, err
		}
		if any {
			return Principal{}, Unauthenticated.Errorf("the request carries no token")
		}
	}
	if !s.loop {
		return Principal{}, Unauthenticated.Errorf("the request carries no token")
	}
	return Principal{Name: "operator", Role: Operator}, nil
}

// bearer reads the Authorization header.
func bearer(h http.Header) (token string, given bool, err error) {
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
	return "", false, Unauthenticated.Errorf("the Authorization header is not one Bearer token")
}

// allow refuses a route to those below a role.
func allow(ctx context.Context, least Role) error {
	if who := callOf(ctx).who; who.Role < least {
		return Forbidden.Errorf("%s is %s, this is for %s", who.Name, who.Role, least)
	}
	return nil
}
