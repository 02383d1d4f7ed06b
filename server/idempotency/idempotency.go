// Package idempotency executes a request once, however often it is sent: the answer is
// stored by account and Idempotency-Key.
package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/server/admission"
	"github.com/pawl-dev/pawl/server/route"
)

// Store stores the answers of POST requests by account and key, so that a
// request that is sent twice is executed once. Its methods use only plain types, so
// that a store need not import this package. Package idempotencytest is its
// conformance suite.
type Store interface {
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
)

// ClaimFree reports whether a request may claim a key that has an entry of this age,
// with the same hash or not, answered or not. Every Store uses it.
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

// Keys executes requests with an Idempotency-Key once.
type Keys struct {
	Store Store
	Log   *slog.Logger
}

// Once executes each request with a key once, if its route takes one.
func (k Keys) Once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if key == "" || !route.CallOf(r.Context()).Route.Idempotent {
			next.ServeHTTP(w, r)
			return
		}
		if err := k.once(w, r, key, next); err != nil {
			route.WriteProblem(w, r, err)
		}
	})
}

func (k Keys) once(w http.ResponseWriter, r *http.Request, key string, next http.Handler) error {
	if len(key) > route.MaxKey {
		return route.Malformed.Errorf("the Idempotency-Key has %d characters, the limit is %d", len(key), route.MaxKey)
	}
	// Not all stores can store other bytes.
	if strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) || len(r.Header.Values("Idempotency-Key")) > 1 {
		return route.Malformed.Errorf("send one Idempotency-Key of printable ASCII characters, not %q", key)
	}
	body, err := admission.ReadBody(r)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))

	c := route.CallOf(r.Context())
	account := cmp.Or(c.Who.Account, c.Who.Name)
	c.Key = key
	hash := requestHash(r, body)
	taken, old, answered, err := k.Store.Claim(r.Context(), account, key, hash, keepAnswers, staleClaim)
	switch {
	case err != nil:
		return err
	case !taken && old != hash:
		return route.KeyReused.Errorf("the key was first used with another method, path or body")
	case !taken && answered == nil:
		return route.KeyBusy.Errorf("the first request is not answered yet")
	case !taken:
		return replayAnswer(w, answered)
	}

	// The request is executed even if its caller has disconnected: a repetition needs the answer.
	r = r.WithContext(context.WithoutCancel(r.Context()))
	copied := &recorder{ResponseWriter: w}
	settled := false
	defer func() {
		if !settled { // it panicked
			_ = k.Store.Release(r.Context(), account, key)
		}
	}()
	next.ServeHTTP(copied, r)
	settled = true
	status := cmp.Or(copied.status, http.StatusOK)
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusUnauthorized {
		err = k.Store.Release(r.Context(), account, key)
	} else {
		answer := storedAnswer{Status: status, Header: http.Header{}, Body: copied.body.Bytes()}
		if c.Replay != nil {
			answer.Body = c.Replay
		}
		for _, name := range storedHeaders {
			if values := w.Header().Values(name); len(values) > 0 {
				answer.Header[name] = slices.Clone(values)
			}
		}
		var data []byte
		if data, err = json.Marshal(answer); err == nil {
			err = k.Store.Answer(r.Context(), account, key, data)
		}
	}
	if err != nil { // the answer is sent; a repetition finds the key busy, then stale, and the engine knows the request
		k.Log.Warn("an answer could not be stored for its Idempotency-Key", "error", err)
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
