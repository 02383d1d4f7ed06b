package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"strings"
	"time"
)

// Secret is a text that is never shown: it prints as stars, also in logs and JSON.
type Secret string

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String returns stars, or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "*****"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String: encoding a secret never shows it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Credential holds the common fields of tokens and keys. Times are zero where they
// do not apply.
type Credential struct {
	ID        string    `json:"id"` // of a key: the public key id that requests carry
	AccountID string    `json:"account"`
	Name      string    `json:"name,omitempty"` // what its owner uses it for
	Created   time.Time `json:"created,omitzero"`
	Expires   time.Time `json:"expires,omitzero"`
	LastUse   time.Time `json:"lastUse,omitzero"` // written at most every LastUseInterval
	Revoked   time.Time `json:"revoked,omitzero"`
}

// Active reports whether the credential may be used now.
func (c Credential) Active(now time.Time) bool {
	return c.Revoked.IsZero() && (c.Expires.IsZero() || now.Before(c.Expires))
}

// LastUseInterval is the shortest time between two writes of LastUse.
const LastUseInterval = time.Minute

// Token is a bearer token of /v1. The token itself is shown once and not stored.
type Token struct {
	Credential
	Hash [sha256.Size]byte `json:"-"`
}

// Key signs requests of /client/api. The server needs its secret to check
// signatures.
type Key struct {
	Credential
	Secret Secret `json:"-"`
}

// HashToken returns the only form in which a token is stored. Tokens are random, so
// no salt or slow hash is needed.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// newID returns a random uuid.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// newSecret returns 384 random bits as characters that URLs need not escape.
func newSecret() string {
	var b [48]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
