package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"
)

// A browser has a session instead of a token: a cookie that no script can read and that
// no other site's request carries, and a second token that the console's own script
// sends with requests that may change something. The cookie is signed, not stored:
// servers that share a key share sessions, and a cookie is valid until its key is
// removed. Only signing out is stored. Each request looks up the caller by the hash of
// the token that the session was created from: revoking a token ends its sessions.
const (
	SessionCookie = "pawl_session"        // of a session over plain HTTP
	secureCookie  = "__Host-pawl_session" // over TLS: no other host or path may set it
	CSRFHeader    = "X-Pawl-Csrf"         // holds the second token
	sessionLength = 12 * time.Hour
)

// session is the content of a cookie.
type session struct {
	token   TokenHash // of the token that it was created from
	nonce   [16]byte
	expires time.Time
	key     []byte // that signs it
}

const sessionBytes = 8 + 16 + sha256.Size

// SignedOut stores the ids of sessions that were signed out before they expired. Its
// methods use only plain types, so that a store need not import this package.
type SignedOut interface {
	// SignOut stores a session id for at least 12 h; then the session expires anyway.
	SignOut(ctx context.Context, id string) error
	SignedOut(ctx context.Context, id string) (bool, error)
}

// sessions creates and checks cookies.
type sessions struct {
	keys      [][]byte // the first signs
	signedOut SignedOut
}

// newSessions returns sessions with the keys that the servers of an installation share; none: a random key.
func newSessions(keys [][]byte, out SignedOut) *sessions {
	if len(keys) == 0 {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		keys = [][]byte{key}
	}
	if out == nil {
		out = &memorySignedOut{until: map[string]time.Time{}}
	}
	return &sessions{keys: keys, signedOut: out}
}

// memorySignedOut is a SignedOut in the memory of the process.
type memorySignedOut struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (m *memorySignedOut) SignOut(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := time.Now()
	maps.DeleteFunc(m.until, func(_ string, until time.Time) bool { return !at.Before(until) })
	m.until[id] = at.Add(sessionLength)
	return nil
}

func (m *memorySignedOut) SignedOut(_ context.Context, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, out := m.until[id]
	return out, nil
}

func mac(key []byte, use string, data []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(use))
	m.Write([]byte{0})
	m.Write(data)
	return m.Sum(nil)
}

// id identifies the session and reveals nothing about it.
func (n session) id() string { return hex.EncodeToString(n.nonce[:]) }

func (n session) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(n.expires.Unix())) //nolint:gosec // times behind 1970
	return append(append(b, n.nonce[:]...), n.token[:]...)
}

func (s *sessions) newSession(token TokenHash, at time.Time) session {
	n := session{token: token, expires: at.Add(sessionLength).Truncate(time.Second), key: s.keys[0]}
	_, _ = rand.Read(n.nonce[:])
	return n
}

func (n session) cookie() string {
	data := n.bytes()
	return base64.RawURLEncoding.EncodeToString(append(data, mac(n.key, "cookie", data)...))
}

// csrf returns the second token of a session. It reveals nothing about the cookie.
func (n session) csrf() string {
	return base64.RawURLEncoding.EncodeToString(mac(n.key, "csrf", n.bytes()))
}

// read returns the session of a cookie; false if the cookie is not valid, has expired or was signed out.
func (s *sessions) read(ctx context.Context, cookie string, at time.Time) (n session, found bool, err error) {
	data, wrong := base64.RawURLEncoding.Strict().DecodeString(cookie)
	if wrong != nil || len(data) != sessionBytes+sha256.Size || len(cookie) != base64.RawURLEncoding.EncodedLen(len(data)) { // the decoder ignores line breaks
		return session{}, false, nil //nolint:nilerr // an invalid cookie counts as none
	}
	data, signature := data[:sessionBytes], data[sessionBytes:]
	signed := slices.IndexFunc(s.keys, func(key []byte) bool { return hmac.Equal(signature, mac(key, "cookie", data)) })
	if signed < 0 {
		return session{}, false, nil
	}
	n = session{expires: time.Unix(int64(binary.BigEndian.Uint64(data)), 0), key: s.keys[signed]} //nolint:gosec // our own number
	copy(n.nonce[:], data[8:])
	copy(n.token[:], data[24:])
	if !at.Before(n.expires) {
		return session{}, false, nil
	}
	out, err := s.signedOut.SignedOut(ctx, n.id())
	return n, err == nil && !out, err
}
