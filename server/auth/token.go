package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/pawl-dev/pawl/secretfile"
	"github.com/pawl-dev/pawl/server/route"
)

// TokenReviewer finds the owner of a token. It gets only hashes of tokens.
type TokenReviewer interface {
	// ByToken finds the owner of the token with this hash.
	ByToken(ctx context.Context, hash TokenHash) (who route.Principal, found bool, err error)
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
			return nil, route.TokenInvalid.Errorf("a token has %d characters or contains a space", len(token))
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
		return nil, route.TokenInvalid.Errorf("token file: %w", err)
	}
	var tokens []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			tokens = append(tokens, line)
		}
	}
	if len(tokens) == 0 {
		return nil, route.TokenInvalid.Errorf("token file %s holds no token", path)
	}
	return NewTokens(tokens...)
}

// ByToken implements TokenReviewer. It compares with every token in constant time.
func (t *Tokens) ByToken(_ context.Context, hash TokenHash) (route.Principal, bool, error) {
	found := 0
	if t != nil {
		for i := range t.hashes {
			found |= subtle.ConstantTimeCompare(t.hashes[i][:], hash[:])
		}
	}
	return route.Principal{Name: "operator", Role: route.Operator}, found == 1, nil
}

// Any reports whether there is a token.
func (t *Tokens) Any(context.Context) (bool, error) { return t != nil && len(t.hashes) > 0, nil }
