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

// A session is what a browser has in the place of a token: a cookie that no
// script reads and no other site's request carries, and beside it a second
// token that the console's own script sends with what may change something.
// The cookie is signed, not stored: servers that share a key share sessions,
// and it is good until that key is taken away. Only signing out is stored.
// Whose it is, is asked anew with each request, by the hash of the token it
// was made from: a token that is revoked takes its sessions with it.
const (
	sessionCookie = "pawl_session"
	secureCookie  = "__Host-pawl_session" // over TLS: no other host or path may set it
	csrfHeader    = "X-Pawl-Csrf"
	sessionPath   = "/v1/session"
	sessionLength = 12 * time.Hour
)

// SessionRefused is the fault of a change that carries a session's cookie and not its second token.
var SessionRefused = declare("CSRF_REFUSED", fault.Invalid, "the request carries the cookie of a session and not the token that belongs to it",
	"Send the header X-Pawl-Csrf with the csrf of GET /v1/session; the console does so itself: reload it.")

func init() { statuses[SessionRefused] = http.StatusForbidden }

// session is what a cookie says.
type session struct {
	token   TokenHash // that it was made from
	nonce   [16]byte
	expires time.Time
	key     []byte // that signs it
}

const sessionBytes = 8 + 16 + sha256.Size

// SignedOut remembers which sessions were signed out before their time, by
// their ids. Its methods speak plain types, so that a store need not know this room.
type SignedOut interface {
	// SignOut remembers a session for 12 h at least: then it ends by itself.
	SignOut(ctx context.Context, id string) error
	SignedOut(ctx context.Context, id string) (bool, error)
}

// sessions makes and reads cookies.
type sessions struct {
	keys [][]byte // the first signs
	out  SignedOut
}

// newSessions with keys that servers of one installation share; none: a key of its own.
func newSessions(keys [][]byte, out SignedOut) *sessions {
	if len(keys) == 0 {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		keys = [][]byte{key}
	}
	if out == nil {
		out = &memorySignedOut{until: map[string]time.Time{}}
	}
	return &sessions{keys: keys, out: out}
}

// memorySignedOut remembers as long as the process lives.
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

// id tells sessions apart, and nothing about them.
func (n session) id() string { return hex.EncodeToString(n.nonce[:]) }

func (n session) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(n.expires.Unix())) //nolint:gosec // times behind 1970
	return append(append(b, n.nonce[:]...), n.token[:]...)
}

func (s *sessions) open(token TokenHash, at time.Time) session {
	n := session{token: token, expires: at.Add(sessionLength).Truncate(time.Second), key: s.keys[0]}
	_, _ = rand.Read(n.nonce[:])
	return n
}

func (n session) cookie() string {
	data := n.bytes()
	return base64.RawURLEncoding.EncodeToString(append(data, mac(n.key, "cookie", data)...))
}

// csrf is the second token of a session. It says nothing about the first.
func (n session) csrf() string {
	return base64.RawURLEncoding.EncodeToString(mac(n.key, "csrf", n.bytes()))
}

// read gives the session of a cookie; false if it is not ours, has ended or was signed out.
func (s *sessions) read(ctx context.Context, cookie string, at time.Time) (n session, found bool, err error) {
	data, wrong := base64.RawURLEncoding.Strict().DecodeString(cookie)
	if wrong != nil || len(data) != sessionBytes+sha256.Size || len(cookie) != base64.RawURLEncoding.EncodedLen(len(data)) { // the decoder passes over line breaks
		return session{}, false, nil //nolint:nilerr // what is no cookie of ours is none
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
	out, err := s.out.SignedOut(ctx, n.id())
	return n, err == nil && !out, err
}

// session finds the session of a request and refuses changes without its
// second token. A cookie that is not good is none: the console asks for a token again.
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

// Session is who asks, and what the console needs beside its cookie.
type Session struct {
	Me
	CSRF    string    `json:"csrf,omitempty" doc:"value of the header X-Pawl-Csrf of all but GET; absent: the request has no session and needs none"`
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
	at(s, op("getSession", http.MethodGet, "Read the session", "Says who asks, and the token that changes need beside the cookie."), User,
		func(ctx context.Context, _ *struct{}) (*sessionAnswer, error) {
			return &sessionAnswer{Body: s.told(ctx, callOf(ctx).session)}, nil
		})
	at(s, op("openSession", http.MethodPost, "Trade a token for a cookie", "The request carries the token as all do; the cookie is HttpOnly and SameSite=Strict and good for 12 h, or until the token is revoked."), User, s.openSession)
	at(s, op("endSession", http.MethodDelete, "Sign out", "The cookie is good for nothing from then on."), User,
		func(ctx context.Context, in *struct {
			Origin string `header:"Origin" hidden:"true"`
		}) (*struct {
			SetCookie []http.Cookie `header:"Set-Cookie"`
			Body      struct{}
		}, error) {
			if n := callOf(ctx).session; n != nil {
				if err := s.sessions.out.SignOut(ctx, n.id()); err != nil {
					return nil, err
				}
			}
			out := &struct {
				SetCookie []http.Cookie `header:"Set-Cookie"`
				Body      struct{}
			}{SetCookie: []http.Cookie{s.baked("", -1, in.Origin)}}
			return out, nil
		})
}

// told is what the console is told of a session; nil: it has none.
func (s *Server) told(ctx context.Context, n *session) Session {
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
		return nil, Unauthenticated.Errorf("a session is made from a token, and the request carries none")
	}
	n := s.sessions.open(*c.token, now())
	return &sessionAnswer{SetCookie: []http.Cookie{s.baked(n.cookie(), int(sessionLength.Seconds()), in.Origin)}, Body: s.told(ctx, &n)}, nil
}

// baked is a cookie. It is Secure when the browser speaks TLS, to us or to a
// proxy before us: its Origin, which was found to be ours, tells.
func (s *Server) baked(value string, age int, origin string) http.Cookie {
	c := http.Cookie{Name: sessionCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if s.options.CertFile != "" || strings.HasPrefix(origin, "https://") {
		c.Name, c.Secure = secureCookie, true
	}
	return c
}
