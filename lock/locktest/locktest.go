// Package locktest is the conformance suite of lock.Backend.
//
//	func TestLocks(t *testing.T) {
//		locktest.Run(t, func(t *testing.T) lock.Backend { return open(t) })
//	}
package locktest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
)

// Run tests a backend. open returns a new, empty backend, which t.Cleanup closes.
func Run(t *testing.T, open func(t *testing.T) lock.Backend) {
	for _, q := range []struct {
		name string
		test func(t *testing.T, m lock.Backend)
	}{
		{"values come back as they were stored", values},
		{"a change that writes nothing changes nothing", noWrite},
		{"names are independent", names},
		{"no change is lost among many", counter},
		{"the clock goes on", clock},
		{"an ended context changes nothing", cancelledContext},
		{"one of many takes a free lock", oneWinner},
		{"taken, extended, refused, released", lifecycle},
		{"an expired lock is free", expired},
		{"the deny list", denied},
		{"an unreadable lock stays as it is", unreadable},
		{"who has no name gets no lock", ownerMissing},
		{"no two are ever inside", exclusion},
		{"all values are listed", list},
	} {
		t.Run(q.name, func(t *testing.T) { q.test(t, open(t)) })
	}
}

func put(t *testing.T, m lock.Backend, name string, value []byte) {
	t.Helper()
	if err := m.Transact(t.Context(), name, func(time.Time, []byte) ([]byte, bool) { return value, true }); err != nil {
		t.Fatalf("transact %s: %v", name, err)
	}
}

func expect(t *testing.T, m lock.Backend, name string, want []byte) {
	t.Helper()
	got, err := m.Read(t.Context(), name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		t.Fatalf("read %s: %q, want %q", name, got, want)
	}
	seen := []byte("never called")
	err = m.Transact(t.Context(), name, func(_ time.Time, old []byte) ([]byte, bool) { seen = old; return nil, false })
	if err != nil || !bytes.Equal(seen, want) || (seen == nil) != (want == nil) {
		t.Fatalf("transact %s saw %q, %v; want %q", name, seen, err, want)
	}
}

func values(t *testing.T, m lock.Backend) {
	expect(t, m, "a", nil)
	for _, v := range [][]byte{[]byte("1"), []byte("two\x00\xff bytes"), []byte("3")} {
		put(t, m, "a", v)
		expect(t, m, "a", v)
	}
	put(t, m, "a", nil)
	expect(t, m, "a", nil)
	put(t, m, "a", nil) // removing a missing value is no error
	put(t, m, "a", []byte("again"))
	got, err := m.Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	got[0] = 'x' // a copy
	expect(t, m, "a", []byte("again"))
}

func noWrite(t *testing.T, m lock.Backend) {
	put(t, m, "a", []byte("1"))
	err := m.Transact(t.Context(), "a", func(_ time.Time, old []byte) ([]byte, bool) { old[0] = 'x'; return []byte("2"), false })
	if err != nil {
		t.Fatal(err)
	}
	expect(t, m, "a", []byte("1"))
}

func names(t *testing.T, m lock.Backend) {
	for _, name := range []string{"a", "A", "a/b", "a b", "ä"} {
		put(t, m, name, []byte(name))
	}
	put(t, m, "a", nil)
	for _, name := range []string{"A", "a/b", "a b", "ä"} {
		expect(t, m, name, []byte(name))
	}
}

func counter(t *testing.T, m lock.Backend) {
	const workers, rounds = 8, 12
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				err := m.Transact(t.Context(), "n", func(_ time.Time, old []byte) ([]byte, bool) {
					n, _ := strconv.Atoi(string(old))
					return []byte(strconv.Itoa(n + 1)), true
				})
				if err != nil {
					t.Errorf("transact: %v", err)
				}
			}
		})
	}
	wg.Wait()
	expect(t, m, "n", []byte(strconv.Itoa(workers*rounds)))
}

func clock(t *testing.T, m lock.Backend) {
	var last time.Time
	for range 5 {
		err := m.Transact(t.Context(), "a", func(now time.Time, _ []byte) ([]byte, bool) {
			if now.IsZero() || now.Before(last) {
				t.Errorf("clock says %s after %s", now, last)
			}
			last = now
			return nil, false
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func cancelledContext(t *testing.T, m lock.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Transact(ctx, "a", func(time.Time, []byte) ([]byte, bool) { return []byte("1"), true }); err == nil {
		t.Fatal("transact with an ended context succeeded")
	}
	if _, err := m.Read(ctx, "a"); err == nil {
		t.Fatal("read with an ended context succeeded")
	}
	expect(t, m, "a", nil)
}

func take(t *testing.T, l lock.Locker) lock.Decision {
	t.Helper()
	v, err := l.Take(t.Context(), "l")
	if err != nil {
		t.Fatalf("take by %s: %v", l.Owner, err)
	}
	return v
}

func oneWinner(t *testing.T, m lock.Backend) {
	var mu sync.Mutex
	var winners []string
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			l := lock.Locker{Backend: m, Owner: fmt.Sprint("o", i)}
			v, err := l.Take(t.Context(), "l")
			if err != nil {
				t.Errorf("take: %v", err)
			}
			if v.Granted {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, l.Owner)
			}
		})
	}
	wg.Wait()
	state, err := lock.Locker{Backend: m}.Read(t.Context(), "l")
	if err != nil || len(winners) != 1 || state.Record == nil || state.Record.Owner != winners[0] {
		t.Fatalf("winners %v, stored %+v, %v; want one", winners, state.Record, err)
	}
	if duration := state.Record.End.Sub(state.Record.Start); duration != lock.DefaultDuration {
		t.Fatalf("held for %s, want %s", duration, lock.DefaultDuration)
	}
}

func lifecycle(t *testing.T, m lock.Backend) {
	a := lock.Locker{Backend: m, Owner: "a", Duration: time.Hour}
	b := lock.Locker{Backend: m, Owner: "b", Duration: time.Hour}
	first := take(t, a)
	if !first.Granted || first.Extended {
		t.Fatalf("a takes a free lock: %s", first)
	}
	second := take(t, a)
	if !second.Extended || !second.Record.Start.Equal(first.Record.Start) || second.Record.End.Before(first.Record.End) {
		t.Fatalf("a takes it again: %s, from %v to %v", second, first.Record, second.Record)
	}
	if v := take(t, b); v.Granted || v.Record.Owner != "a" || !v.Record.End.Equal(second.Record.End) {
		t.Fatalf("b takes what a holds: %s", v)
	}
	if v, err := b.Release(t.Context(), "l"); err != nil || v.Released {
		t.Fatalf("b releases what a holds: %s, %v", v, err)
	}
	if v, err := a.Release(t.Context(), "l"); err != nil || !v.Released {
		t.Fatalf("a releases: %s, %v", v, err)
	}
	expect(t, m, "l", nil)
	if v := take(t, b); !v.Granted || v.Extended {
		t.Fatalf("b takes what a released: %s", v)
	}
}

func expired(t *testing.T, m lock.Backend) {
	a := lock.Locker{Backend: m, Owner: "a", Duration: time.Nanosecond}
	b := lock.Locker{Backend: m, Owner: "b"}
	old := take(t, a)
	timeout := time.After(10 * time.Second)
	v := take(t, b)
	for ; !v.Granted; v = take(t, b) { // the clock of the backend may be coarse
		select {
		case <-timeout:
			t.Fatalf("a lock of 1 ns still holds: %s", v)
		default:
		}
	}
	if v.Extended || v.Record.Owner != "b" || v.Record.Start.Before(old.Record.End) {
		t.Fatalf("b takes what expired: %s, %+v after %+v", v, v.Record, old.Record)
	}
}

func denied(t *testing.T, m lock.Backend) {
	a, b := lock.Locker{Backend: m, Owner: "a"}, lock.Locker{Backend: m, Owner: "b"}
	take(t, a)
	list, err := b.Deny(t.Context(), "l", lock.Entry{ID: "a"}, lock.Entry{ID: "z"})
	if err != nil || !slices.Equal(list, []string{"a", "z"}) {
		t.Fatalf("deny: %v, %v", list, err)
	}
	if v := take(t, b); !v.Granted {
		t.Fatalf("b takes what a denied owner holds: %s", v)
	}
	if _, err := b.Release(t.Context(), "l"); err != nil {
		t.Fatal(err)
	}
	if v := take(t, a); v.Granted || !v.Denied {
		t.Fatalf("a denied owner takes a free lock: %s", v)
	}
	list, err = b.Deny(t.Context(), "l", lock.Entry{ID: "a", Allow: true})
	if err != nil || !slices.Equal(list, []string{"z"}) {
		t.Fatalf("allow: %v, %v; what is not named stays", list, err)
	}
	if v := take(t, a); !v.Granted {
		t.Fatalf("a is allowed again: %s", v)
	}
	if _, err := b.Deny(t.Context(), "l", lock.Entry{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if v := take(t, a); v.Granted || !v.Released {
		t.Fatalf("a denied owner extends: %s; want its lock released", v)
	}
	state, err := a.Read(t.Context(), "l")
	if err != nil || state.Record != nil || !slices.Equal(state.Deny, []string{"a", "z"}) {
		t.Fatalf("stored: %+v, %v", state, err)
	}
}

func unreadable(t *testing.T, m lock.Backend) {
	value := []byte(`{"record":"of someone else"}`)
	put(t, m, "l", value)
	a := lock.Locker{Backend: m, Owner: "a"}
	if v := take(t, a); v.Granted || fault.Of(v.Err) != lock.Unreadable {
		t.Fatalf("take: %s; want LOCK_UNREADABLE", v)
	}
	if v, err := a.Release(t.Context(), "l"); err != nil || v.Released || fault.Of(v.Err) != lock.Unreadable {
		t.Fatalf("release: %s, %v; want LOCK_UNREADABLE", v, err)
	}
	if _, err := a.Deny(t.Context(), "l", lock.Entry{ID: "b"}); fault.Of(err) != lock.Unreadable {
		t.Fatalf("deny: %v, want LOCK_UNREADABLE", err)
	}
	expect(t, m, "l", value)
}

func ownerMissing(t *testing.T, m lock.Backend) {
	if _, err := (lock.Locker{Backend: m}).Take(t.Context(), "l"); fault.Of(err) != lock.OwnerMissing {
		t.Fatalf("take without owner: %v", err)
	}
	if _, err := (lock.Locker{Backend: m, Owner: "a"}).Take(t.Context(), ""); fault.Of(err) != lock.OwnerMissing {
		t.Fatalf("take of a lock without name: %v", err)
	}
}

func exclusion(t *testing.T, m lock.Backend) {
	var inside, passes sync.Map
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			l := lock.Locker{Backend: m, Owner: fmt.Sprint("o", i)}
			for n := 0; n < 5 && t.Context().Err() == nil; {
				v, err := l.Take(t.Context(), "l")
				if err != nil {
					t.Errorf("take: %v", err)
					return
				}
				if !v.Granted {
					continue
				}
				if other, there := inside.LoadOrStore("l", l.Owner); there {
					t.Errorf("%s is inside beside %s", l.Owner, other)
				}
				n++
				passes.Store(fmt.Sprint(l.Owner, n), true)
				inside.Delete("l")
				if _, err := l.Release(t.Context(), "l"); err != nil {
					t.Errorf("release: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	count := 0
	for range passes.Range {
		count++
	}
	if count != 20 {
		t.Fatalf("%d passes, want 20", count)
	}
}

func list(t *testing.T, m lock.Backend) {
	lister, ok := m.(lock.Lister)
	if !ok {
		t.Skip("the backend lists nothing")
	}
	before := time.Now().Add(-time.Minute)
	for _, name := range []string{"b", "a/2", "a/1", "gone"} {
		put(t, m, name, []byte("of "+name))
	}
	put(t, m, "gone", nil)
	for _, c := range []struct {
		after string
		limit int
		want  []string
	}{{"", 10, []string{"a/1", "a/2", "b"}}, {"", 2, []string{"a/1", "a/2"}}, {"a/1", 2, []string{"a/2", "b"}}, {"a/11", 1, []string{"a/2"}}, {"b", 2, nil}} {
		values, now, err := lister.List(t.Context(), c.after, c.limit)
		if err != nil || now.Before(before) {
			t.Fatalf("list after %q: %v, at %s", c.after, err, now)
		}
		var names []string
		for _, v := range values {
			names = append(names, v.Name)
			if string(v.Data) != "of "+v.Name {
				t.Errorf("%s has the value %q", v.Name, v.Data)
			}
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("after %q, %d at most: %q, want %q", c.after, c.limit, names, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := lister.List(ended, "", 1); err == nil {
		t.Error("a list in an ended context succeeds")
	}
}
