package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Idempotency stores the answers of POST requests by account and key, so that a
// request that is sent twice is executed once. Its methods use only plain types, so
// that a store need not import this package. Package idempotencytest is its
// conformance suite.
type Idempotency interface {
	// Claim takes a key for the request with this hash if the key is free, if its
	// entry is older than keep, or if the same request claimed it longer than stale
	// ago and never answered. Else it returns the entry: the hash of the claim, and
	// the answer, nil while the first request is being executed. The decision
	// (ClaimFree) and the claim are one write.
	Claim(ctx context.Context, account, key, hash string, keep, stale time.Duration) (taken bool, old string, answer []byte, err error)
	// Answer stores the answer of a claimed key. It does nothing without a claim.
	Answer(ctx context.Context, account, key string, answer []byte) error
	// Release frees a claimed key: its request changed nothing.
	Release(ctx context.Context, account, key string) error
}

const (
	keepAnswers = 24 * time.Hour
	staleClaim  = 2 * time.Minute
	maxKey      = 255
)

// ClaimFree reports whether a request may claim a key that has an entry of this age,
// with the same hash or not, answered or not. Every Idempotency uses it.
func ClaimFree(age time.Duration, sameHash, answered bool, keep, stale time.Duration) (take bool) {
	return age >= keep || sameHash && !answered && age >= stale
}

// storedAnswer is the stored form of an answer.
type storedAnswer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// storedHeaders are the headers that a repeated answer contains.
var storedHeaders = []string{"Content-Type", "Location", "Etag", "Retry-After"}

// once executes each POST with an Idempotency-Key once.
func (s *Server) once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if r.Method != http.MethodPost || key == "" || !strings.HasPrefix(r.URL.Path, "/v1/") {
			next.ServeHTTP(w, r)
			return
		}
		if err := s.onceOnly(w, r, key, next); err != nil {
			writeProblem(w, r, err)
		}
	})
}

func (s *Server) onceOnly(w http.ResponseWriter, r *http.Request, key string, next http.Handler) error {
	if len(key) > maxKey {
		return Malformed.Errorf("the Idempotency-Key has %d characters, the limit is %d", len(key), maxKey)
	}
	// Not all stores can store other bytes.
	if strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) || len(r.Header.Values("Idempotency-Key")) > 1 {
		return Malformed.Errorf("send one Idempotency-Key of printable ASCII characters, not %q", key)
	}
	body, err := ReadBody(r)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))

	c := callOf(r.Context())
	account := cmp.Or(c.who.Account, c.who.Name)
	c.key = key
	hash := requestHash(r, body)
	taken, old, answered, err := s.options.Idempotency.Claim(r.Context(), account, key, hash, keepAnswers, staleClaim)
	switch {
	case err != nil:
		return err
	case !taken && old != hash:
		return KeyReused.Errorf("the key was first used with another method, path or body")
	case !taken && answered == nil:
		return KeyBusy.Errorf("the first request is not answered yet")
	case !taken:
		return replayAnswer(w, answered)
	}

	// The request is executed even if its caller has disconnected: a repetition needs the answer.
	r = r.WithContext(context.WithoutCancel(r.Context()))
	copied := &recorder{ResponseWriter: w}
	settled := false
	defer func() {
		if !settled { // it panicked
			_ = s.options.Idempotency.Release(r.Context(), account, key)
		}
	}()
	next.ServeHTTP(copied, r)
	settled = true
	status := cmp.Or(copied.status, http.StatusOK)
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusUnauthorized {
		err = s.options.Idempotency.Release(r.Context(), account, key)
	} else {
		answer := storedAnswer{Status: status, Header: http.Header{}, Body: copied.body.Bytes()}
		if c.replay != nil {
			answer.Body = c.replay
		}
		for _, name := range storedHeaders {
			if values := w.Header().Values(name); len(values) > 0 {
				answer.Header[name] = slices.Clone(values)
			}
		}
		var data []byte
		if data, err = json.Marshal(answer); err == nil {
			err = s.options.Idempotency.Answer(r.Context(), account, key, data)
		}
	}
	if err != nil { // the answer is sent; a repetition finds the key busy, then stale, and the engine knows the request
		s.log.Warn("an answer could not be stored for its Idempotency-Key", "error", err)
	}
	return nil
}

func requestHash(r *http.Request, body []byte) string {
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.RequestURI(), r.Header.Get("If-Match")} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

func replayAnswer(w http.ResponseWriter, data []byte) error {
	var k storedAnswer
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	for name, values := range k.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Idempotency-Replayed", "true")
	w.WriteHeader(k.Status)
	_, _ = w.Write(k.Body) // the caller may have disconnected
	return nil
}

// recorder sends an answer and keeps a copy.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *recorder) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *recorder) Write(data []byte) (int, error) {
	c.body.Write(data)
	return c.ResponseWriter.Write(data)
}

// MemoryIdempotency is an Idempotency in the memory of the process.
type MemoryIdempotency struct {
	mu      sync.Mutex
	entries map[[2]string]*memoryEntry
	swept   time.Time
}

type memoryEntry struct {
	hash   string
	at     time.Time
	answer []byte
}

// NewMemoryIdempotency returns an empty MemoryIdempotency.
func NewMemoryIdempotency() *MemoryIdempotency {
	return &MemoryIdempotency{entries: map[[2]string]*memoryEntry{}}
}

// Claim implements Idempotency.
func (m *MemoryIdempotency) Claim(_ context.Context, account, key, hash string, keep, stale time.Duration) (bool, string, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.sweep(now, keep)
	at := [2]string{account, key}
	if e := m.entries[at]; e != nil && !ClaimFree(now.Sub(e.at), e.hash == hash, e.answer != nil, keep, stale) {
		return false, e.hash, e.answer, nil
	}
	m.entries[at] = &memoryEntry{hash: hash, at: now}
	return true, hash, nil, nil
}

// sweep removes entries older than keep, at most once a minute.
func (m *MemoryIdempotency) sweep(now time.Time, keep time.Duration) {
	if now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	for at, e := range m.entries {
		if now.Sub(e.at) >= keep {
			delete(m.entries, at)
		}
	}
}

// Answer implements Idempotency.
func (m *MemoryIdempotency) Answer(_ context.Context, account, key string, answer []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[[2]string{account, key}]; e != nil {
		e.answer = append([]byte{}, answer...) // never nil: nil means not answered
	}
	return nil
}

// Release implements Idempotency.
func (m *MemoryIdempotency) Release(_ context.Context, account, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, [2]string{account, key})
	return nil
}
