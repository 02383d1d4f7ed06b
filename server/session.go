package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/fault"
)

// A browser has a session instead of a token: a cookie that no script can read and that
// no other site's request carries, and a second token that the console's own script
// sends with requests that may change something. The cookie is signed, not stored:
// servers that share a key share sessions, and a cookie is valid until its key is
// removed. Only signing out is stored. Each request looks up the caller by the hash of
// the token that the session was created from: revoking a token ends its sessions.
const (
	sessionCookie = "pawl_session"
	secureCookie  = "__Host-pawl_session" // over TLS: no other host or path may set it
	csrfHeader    = "X-Pawl-Csrf"
	sessionPath   = "/v1/session"
	sessionLength = 12 * time.Hour
)

// SessionRefused is the fault of a change with the cookie of a session but without its second token.
var SessionRefused = declare("CSRF_REFUSED", fault.Invalid, "the request has the cookie of a session but not its second token",
	"Send the header X-Pawl-Csrf with the csrf of GET /v1/session; the console does so itself: reload it.")

func init() { statuses[SessionRefused] = http.StatusForbidden }

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
	at := now()
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

// session returns the session of a request, and refuses changes without its second
// token. An invalid cookie counts as none: the console then asks for a token.
func (s *Server) session(r *http.Request) (n session, found bool, err error) {
	for _, name := range []string{secureCookie, sessionCookie} {
		for _, c := range r.CookiesNamed(name) {
			if n, found, err = s.sessions.read(r.Context(), c.Value, now()); found || err != nil {
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
	if !hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(n.csrf())) {
		return n, true, SessionRefused.Errorf("the header %s is absent or not that of the session", csrfHeader)
	}
	return n, true, nil
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

func (s *Server) sessionRoutes() {
	op := func(id, method, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: sessionPath, Summary: summary, Description: description, Tags: []string{"server"}, DefaultStatus: http.StatusOK}
	}
	registerRoute(s, op("getSession", http.MethodGet, "Read the session", "Returns the caller, and the token that changes need besides the cookie."), User,
		func(ctx context.Context, _ *struct{}) (*sessionAnswer, error) {
			return &sessionAnswer{Body: s.sessionBody(ctx, callOf(ctx).session)}, nil
		})
	registerRoute(s, op("openSession", http.MethodPost, "Exchange a token for a cookie", "The request carries the token as usual. The cookie is HttpOnly and SameSite=Strict, and valid for 12 h or until the token is revoked."), User, s.openSession)
	registerRoute(s, op("endSession", http.MethodDelete, "Sign out", "The cookie is not valid any more."), User,
		func(ctx context.Context, in *struct {
			Origin string `header:"Origin" hidden:"true"`
		}) (*struct {
			SetCookie []http.Cookie `header:"Set-Cookie"`
			Body      struct{}
		}, error) {
			if n := callOf(ctx).session; n != nil {
				if err := s.sessions.signedOut.SignOut(ctx, n.id()); err != nil {
					return nil, err
				}
			}
			out := &struct {
				SetCookie []http.Cookie `header:"Set-Cookie"`
				Body      struct{}
			}{SetCookie: []http.Cookie{s.newCookie("", -1, in.Origin)}}
			return out, nil
		})
}

// sessionBody returns the answer about a session; nil: the caller has none.
func (s *Server) sessionBody(ctx context.Context, n *session) Session {
	out := Session{Me: s.me(ctx)}
	if n != nil {
		out.CSRF, out.Expires = n.csrf(), n.expires.UTC()
	}
	return out
}

func (s *Server) openSession(ctx context.Context, in *struct {
	Origin string `header:"Origin" hidden:"true"`
}) (*sessionAnswer, error) {
	c := callOf(ctx)
	if c.token == nil {
		return nil, Unauthenticated.Errorf("a session needs a token, and the request carries none")
	}
	n := s.sessions.newSession(*c.token, now())
	return &sessionAnswer{SetCookie: []http.Cookie{s.newCookie(n.cookie(), int(sessionLength.Seconds()), in.Origin)}, Body: s.sessionBody(ctx, &n)}, nil
}

// newCookie returns a cookie. It is Secure if the browser uses TLS, to this server or to
// a proxy before it: the checked Origin shows which.
func (s *Server) newCookie(value string, age int, origin string) http.Cookie {
	c := http.Cookie{Name: sessionCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if s.options.CertFile != "" || strings.HasPrefix(origin, "https://") {
		c.Name, c.Secure = secureCookie, true
	}
	return c
}
