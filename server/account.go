package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/secretfile"
)

// Role is what an account may do; each role includes the previous ones.
type Role int

// The roles.
const (
	Anyone      Role = iota
	User             // its own clusters
	DomainAdmin      // also those of its domain
	Operator         // also flows, runs, objects and all clusters
)

// String returns anyone, user, domain-admin or operator.
func (r Role) String() string {
	return [...]string{"anyone", "user", "domain-admin", "operator"}[min(max(r, Anyone), Operator)]
}

// MarshalText encodes the role as its name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText decodes the name of a role.
func (r *Role) UnmarshalText(text []byte) error {
	for _, role := range []Role{Anyone, User, DomainAdmin, Operator} {
		if role.String() == string(text) {
			*r = role
			return nil
		}
	}
	return Malformed.Errorf("role %q is not user, domain-admin or operator", text)
}

// Principal is the authenticated caller of a request.
type Principal struct {
	Name    string // as history shows it
	Role    Role
	Account string // id; empty for the operator's own tokens
	Domain  string
}

// TokenReviewer finds the owner of a token. It gets only hashes of tokens.
type TokenReviewer interface {
	// ByToken finds the owner of the token with this hash.
	ByToken(ctx context.Context, hash TokenHash) (who Principal, found bool, err error)
	// Any reports whether any account exists. If so, loopback needs credentials too.
	Any(ctx context.Context) (bool, error)
}

// TokenHash is the SHA-256 of a token. Tokens are random, so they need no salt and no slow hash.
type TokenHash [sha256.Size]byte

// HashToken returns the only form in which a token is stored.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Tokens are the operator's own tokens. It is a TokenReviewer; the zero value has none.
type Tokens struct{ hashes []TokenHash }

// NewTokens stores the hashes of tokens. TOKEN_INVALID if one is shorter than 20 characters or contains a space.
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

// ReadTokens reads a token file: one token per line. It skips empty lines and lines
// that begin with #. TOKEN_INVALID if secretfile.Read refuses the file.
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

// ByToken implements TokenReviewer. It compares with every token in constant time.
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

// authenticated identifies the caller, and refuses callers whose role does not suffice for the path.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		need := requiredRole(r.URL.Path, s.loopback)
		if need == Anyone {
			next.ServeHTTP(w, r)
			return
		}
		who, err := s.identifyLimited(r)
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

// identifyLimited identifies the caller. It limits the concurrent requests of an address.
func (s *Server) identifyLimited(r *http.Request) (Principal, error) {
	free, err := s.admission.identifying.take(clientAddress(r))
	if err != nil {
		return Principal{}, err
	}
	defer free()
	return s.identify(r)
}

// requiredRole returns the lowest role that a path needs before it is routed. Routes
// of /v1 may need a higher one.
func requiredRole(path string, loopback bool) Role {
	switch {
	case path == heartbeatPath: // nodes authenticate with their own tokens
		return Anyone
	case path == "/v1" || strings.HasPrefix(path, "/v1/"):
		return User
	case path == "/metrics" && !loopback:
		return Operator
	default:
		return Anyone
	}
}

// identify returns the caller of a request. Without credentials the caller is the
// operator, but only on loopback and while there is neither token nor account. An
// invalid cookie, or one whose token was revoked, counts as no cookie.
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
	case given: // a token wins over a cookie
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
		c.session = nil // its token was revoked
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
	if !s.loopback {
		return Principal{}, Unauthenticated.Errorf("the request carries no token")
	}
	return Principal{Name: "operator", Role: Operator}, nil
}

// bearer returns the token of the Authorization header. given is false without the header.
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

// allow refuses callers whose role is lower than least. FORBIDDEN.
func allow(ctx context.Context, least Role) error {
	if who := callOf(ctx).who; who.Role < least {
		return Forbidden.Errorf("%s is %s, this is for %s", who.Name, who.Role, least)
	}
	return nil
}
