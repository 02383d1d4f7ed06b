// Package idempotencytest is the conformance suite of idempotency.Store.
//
//	func TestIdempotency(t *testing.T) {
//		idempotencytest.Run(t, func(t *testing.T) idempotencytest.Keys { return open(t) })
//	}
//
// It declares the interface again, so that the tests of a store need not import the
// server.
package idempotencytest

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Keys is idempotency.Store.
type Keys interface {
	Claim(ctx context.Context, account, key, hash string, keep, stale time.Duration) (taken bool, old string, answer []byte, err error)
	Answer(ctx context.Context, account, key string, answer []byte) error
	Release(ctx context.Context, account, key string) error
}

// Durations that have not passed during a test, and that have.
const (
	notPassed = 24 * time.Hour
	passed    = 0 * time.Second
)

// Run tests an implementation. open returns a new, empty store for each test.
func Run(t *testing.T, open func(t *testing.T) Keys) {
	for name, part := range map[string]func(*testing.T, Keys){
		"a key is claimed once": func(t *testing.T, k Keys) {
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, true, "", "")
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, false, "h1", "")
			wantClaim(t, k, "a", "k", "h2", notPassed, notPassed, false, "h1", "")
		},
		"keys belong to accounts": func(t *testing.T, k Keys) {
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, true, "", "")
			wantClaim(t, k, "b", "k", "h2", notPassed, notPassed, true, "", "")
			wantClaim(t, k, "a", "k2", "h2", notPassed, notPassed, true, "", "")
		},
		"an answer is kept": func(t *testing.T, k Keys) {
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, true, "", "")
			answer := bytes.Repeat([]byte{0, 255, '\n', '"'}, 64<<10)
			check(t, k.Answer(t.Context(), "a", "k", answer))
			wantClaim(t, k, "a", "k", "h1", notPassed, passed, false, "h1", string(answer)) // answered: never stale
			wantClaim(t, k, "a", "k", "h2", notPassed, passed, false, "h1", string(answer))
		},
		"an empty answer is an answer": func(t *testing.T, k Keys) {
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, true, "", "")
			check(t, k.Answer(t.Context(), "a", "k", []byte{}))
			if taken, _, _, err := k.Claim(t.Context(), "a", "k", "h1", notPassed, passed); taken || err != nil {
				t.Errorf("taken %v, %v", taken, err)
			}
		},
		"a stale claim goes to the same request only": func(t *testing.T, k Keys) {
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, true, "", "")
			wantClaim(t, k, "a", "k", "h2", notPassed, passed, false, "h1", "")
			wantClaim(t, k, "a", "k", "h1", notPassed, passed, true, "", "")
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, false, "h1", "") // its age begins anew
		},
		"an old key is free": func(t *testing.T, k Keys) {
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, true, "", "")
			check(t, k.Answer(t.Context(), "a", "k", []byte("answer")))
			wantClaim(t, k, "a", "k", "h2", passed, notPassed, true, "", "")
			wantClaim(t, k, "a", "k", "h2", notPassed, notPassed, false, "h2", "") // the old answer is gone
		},
		"a released key is free": func(t *testing.T, k Keys) {
			wantClaim(t, k, "a", "k", "h1", notPassed, notPassed, true, "", "")
			check(t, k.Release(t.Context(), "a", "k"))
			check(t, k.Release(t.Context(), "a", "k"))
			check(t, k.Answer(t.Context(), "a", "k", []byte("late"))) // nobody claims it: nothing is kept
			wantClaim(t, k, "a", "k", "h2", notPassed, notPassed, true, "", "")
		},
		"of many at once one claims": func(t *testing.T, k Keys) {
			var takers atomic.Int32
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					taken, _, _, err := k.Claim(t.Context(), "a", "k", "h1", notPassed, notPassed)
					check(t, err)
					if taken {
						takers.Add(1)
					}
				})
			}
			all.Wait()
			if takers.Load() != 1 {
				t.Errorf("%d of 16 have the key", takers.Load())
			}
		},
	} {
		t.Run(name, func(t *testing.T) { part(t, open(t)) })
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// wantClaim claims a key and compares the result. If the claim succeeds, it compares nothing else.
func wantClaim(t *testing.T, k Keys, account, key, hash string, keep, stale time.Duration, taken bool, old, answer string) {
	t.Helper()
	gotTaken, gotOld, gotAnswer, err := k.Claim(t.Context(), account, key, hash, keep, stale)
	switch {
	case err != nil || gotTaken != taken:
		t.Errorf("%s/%s for %s: taken %v, %v; want %v", account, key, hash, gotTaken, err, taken)
	case !taken && (gotOld != old || string(gotAnswer) != answer || (gotAnswer == nil) != (answer == "")):
		t.Errorf("%s/%s for %s: there is %s with an answer of %d bytes, want %s with %d", account, key, hash, gotOld, len(gotAnswer), old, len(answer))
	}
}
