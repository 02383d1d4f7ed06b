package auth

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSessionEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &memorySignedOut{until: map[string]time.Time{}}
		s := newSessions(nil, out)
		n := s.newSession(HashToken("0123456789abcdef0123456789abcdef"), time.Now())
		cookie := n.cookie()
		time.Sleep(12*time.Hour - 2*time.Second)
		if got, ok, err := s.read(t.Context(), cookie, time.Now()); !ok || err != nil || got.token != n.token {
			t.Error("it ended before its time")
		}
		time.Sleep(2 * time.Second)
		if _, ok, _ := s.read(t.Context(), cookie, time.Now()); ok {
			t.Error("it is good after 12 h")
		}
		for _, id := range []string{"one", "two"} {
			if err := out.SignOut(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(12 * time.Hour)
		}
		if len(out.until) != 1 {
			t.Errorf("%d ended sessions are remembered, one of them for ever", len(out.until))
		}
	})
}

// No forged cookie is a session or breaks the server.
func FuzzCookie(f *testing.F) {
	s := newSessions([][]byte{[]byte("key")}, nil)
	n := s.newSession(HashToken("0123456789abcdef0123456789abcdef"), time.Unix(4e9, 0))
	clear(n.nonce[:]) // the same valid cookie in each fuzzing process
	good := n.cookie()
	f.Add(good)
	f.Add(good[:40])
	f.Add(good + "A")
	f.Fuzz(func(t *testing.T, cookie string) {
		if _, ok, _ := s.read(t.Context(), cookie, time.Unix(4e9, 0)); ok && cookie != good {
			t.Errorf("%q is a session", cookie)
		}
	})
}
