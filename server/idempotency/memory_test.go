package idempotency

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/server/idempotency/idempotencytest"
)

func TestMemoryIdempotency(t *testing.T) {
	idempotencytest.Run(t, func(*testing.T) idempotencytest.Keys { return Store(NewMemory()) })
}

func TestClaimFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := NewMemory(), t.Context()
		claim := func(account, key, hash string, want bool) (string, string) {
			t.Helper()
			taken, old, answer, err := m.Claim(ctx, account, key, hash, keepAnswers, staleClaim)
			if err != nil || taken != want {
				t.Errorf("claim %s/%s: taken %v, %v", account, key, taken, err)
			}
			return old, string(answer)
		}
		claim("a", "k", "h1", true)
		claim("b", "k", "h9", true) // keys belong to accounts
		claim("a", "k", "h1", false)
		time.Sleep(staleClaim)
		claim("a", "k", "h2", false) // another request does not take a stale claim
		claim("a", "k", "h1", true)  // the same one does: its first server died
		if err := m.Answer(ctx, "a", "k", []byte("answer")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepAnswers - time.Second)
		if old, answer := claim("a", "k", "h1", false); old != "h1" || answer != "answer" {
			t.Errorf("kept %q %q", old, answer)
		}
		time.Sleep(time.Second)
		claim("a", "k", "h2", true) // a day later the key is free
		time.Sleep(2 * keepAnswers)
		claim("c", "k", "h", true)
		if len(m.entries) != 1 {
			t.Errorf("%d entries are left", len(m.entries))
		}
	})
}
