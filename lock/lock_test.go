package lock_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"pgregory.net/rapid"
)

var now = time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)

func record(owner string, start, end time.Duration) *lock.Record {
	return &lock.Record{Owner: owner, Start: now.Add(start), End: now.Add(end)}
}

// The rows of the table of this package, with their edges.
func TestDecide(t *testing.T) {
	broken := errors.New("not a triple")
	for _, c := range []struct {
		row     string
		denied  []string
		stored  lock.Stored
		granted bool
		after   *lock.Record
		check   func(v lock.Decision) bool
	}{
		{"1 denied, own, valid: release", []string{"me"}, lock.Stored{Record: record("me", -1, 1)}, false, nil, func(v lock.Decision) bool { return v.Released && v.Denied && v.Write }},
		{"2 denied, free", []string{"me"}, lock.Stored{}, false, nil, func(v lock.Decision) bool { return v.Denied && !v.Write && !v.Released }},
		{"2 denied, own, expired", []string{"me"}, lock.Stored{Record: record("me", -2, 0)}, false, record("me", -2, 0), func(v lock.Decision) bool { return !v.Write }},
		{"2 denied, other, valid", []string{"me"}, lock.Stored{Record: record("you", -1, 1)}, false, record("you", -1, 1), func(v lock.Decision) bool { return !v.Write }},
		{"2 denied, other, expired", []string{"me"}, lock.Stored{Record: record("you", -2, -1)}, false, record("you", -2, -1), func(v lock.Decision) bool { return !v.Write }},
		{"2 both denied", []string{"me", "you"}, lock.Stored{Record: record("you", -1, 1)}, false, record("you", -1, 1), func(v lock.Decision) bool { return !v.Write }},
		{"3 free", nil, lock.Stored{}, true, record("me", 0, time.Minute), func(v lock.Decision) bool { return !v.Extended && v.Write }},
		{"4 own, valid: extended", nil, lock.Stored{Record: record("me", -time.Hour, 1)}, true, record("me", -time.Hour, time.Minute), func(v lock.Decision) bool { return v.Extended && v.Write }},
		{"5 own, expired: fresh start", nil, lock.Stored{Record: record("me", -time.Hour, 0)}, true, record("me", 0, time.Minute), func(v lock.Decision) bool { return !v.Extended && v.Write }},
		{"6 other, valid", nil, lock.Stored{Record: record("you", -1, 1)}, false, record("you", -1, 1), func(v lock.Decision) bool { return !v.Denied && !v.Write }},
		{"6 other, valid, somebody else denied", []string{"they"}, lock.Stored{Record: record("you", -1, 1)}, false, record("you", -1, 1), func(v lock.Decision) bool { return !v.Write }},
		{"7 other, expired at its end", nil, lock.Stored{Record: record("you", -2, 0)}, true, record("me", 0, time.Minute), func(v lock.Decision) bool { return !v.Extended && v.Write }},
		{"8 other, valid, holder denied: fresh start", []string{"you"}, lock.Stored{Record: record("you", -1, time.Hour)}, true, record("me", 0, time.Minute), func(v lock.Decision) bool { return !v.Extended && v.Write }},
		{"9 unreadable", nil, lock.Stored{Err: broken}, false, nil, func(v lock.Decision) bool { return errors.Is(v.Err, broken) && !v.Write }},
		{"9 unreadable, denied", []string{"me"}, lock.Stored{Err: broken}, false, nil, func(v lock.Decision) bool { return errors.Is(v.Err, broken) && !v.Write && !v.Released }},
	} {
		t.Run(c.row, func(t *testing.T) {
			v := lock.Decide(now, c.stored, "me", lock.DenyList(c.denied), time.Minute)
			if v.Granted != c.granted || (v.Record == nil) != (c.after == nil) || c.after != nil && *v.Record != *c.after || !c.check(v) {
				t.Fatalf("%s: %+v with %+v, want granted %t and %+v", v, v, v.Record, c.granted, c.after)
			}
		})
	}
	if v := lock.Decide(now, lock.Stored{}, "me", nil, 0); !v.Record.End.Equal(now.Add(10 * time.Minute)) {
		t.Fatalf("the default duration gives %s, want 10m", v)
	}
}

func TestRelease(t *testing.T) {
	broken := errors.New("x")
	for _, c := range []struct {
		name   string
		stored lock.Stored
		gone   bool
	}{
		{"own, valid", lock.Stored{Record: record("me", -1, 1)}, true},
		{"own, expired", lock.Stored{Record: record("me", -2, 0)}, false},
		{"other, valid", lock.Stored{Record: record("you", -1, 1)}, false},
		{"other, expired", lock.Stored{Record: record("you", -2, -1)}, false},
		{"none", lock.Stored{}, false},
		{"unreadable", lock.Stored{Err: broken}, false},
	} {
		v := lock.Release(now, c.stored, "me")
		if v.Released != c.gone || v.Write != c.gone || v.Granted || !c.gone && v.Record != c.stored.Record || v.Err != c.stored.Err {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		stored  []string
		entries []lock.Entry
		want    []string
	}{
		{nil, nil, nil},
		{[]string{"b"}, nil, []string{"b"}},
		{[]string{"b"}, []lock.Entry{{ID: "a"}, {ID: "b"}}, []string{"a", "b"}},
		{[]string{"a", "b"}, []lock.Entry{{ID: "a", Allow: true}}, []string{"b"}},
		{[]string{"a"}, []lock.Entry{{ID: "z", Allow: true}}, []string{"a"}},
		{nil, []lock.Entry{{ID: "a"}, {ID: "a", Allow: true}}, nil},
		{nil, []lock.Entry{{ID: "a", Allow: true}, {ID: "a"}}, []string{"a"}},
		{[]string{"c", "a", "c"}, []lock.Entry{{ID: ""}}, []string{"a", "c"}},
	} {
		before := slices.Clone(c.stored)
		if got := lock.Merge(c.stored, c.entries); !slices.Equal(got, c.want) || !slices.Equal(before, c.stored) {
			t.Errorf("Merge(%v, %v) = %v, want %v", c.stored, c.entries, got, c.want)
		}
	}
}

func TestRecordIsJSON(t *testing.T) {
	b, err := json.Marshal(lock.State{Record: record("me", 0, time.Minute), Deny: []string{"you"}})
	want := `{"record":{"owner":"me","start":"2025-01-02T03:04:05Z","end":"2025-01-02T03:05:05Z"},"deny":["you"]}`
	if err != nil || string(b) != want {
		t.Fatalf("%s, %v; want %s", b, err, want)
	}
	s, err := lock.ParseState("l", b)
	if err != nil || *s.Record != *record("me", 0, time.Minute) {
		t.Fatalf("read back: %+v, %v", s, err)
	}
	for _, bad := range []string{"x", "[]", `{"record":{}}`, `{"record":{"owner":"a"}}`, `{"other":1}`, `{}{}`, `{"record":{"owner":"a","start":"x"}}`} {
		if _, err := lock.ParseState("l", []byte(bad)); fault.Of(err) != lock.Unreadable {
			t.Errorf("%s: %v, want LOCK_UNREADABLE", bad, err)
		}
	}
}

func TestHalfLife(t *testing.T) {
	v := lock.Decide(now, lock.Stored{Record: record("me", -time.Hour, 1)}, "me", nil, time.Minute) // an old start does not matter
	for after, want := range map[time.Duration]bool{0: false, 30*time.Second - 1: false, 30 * time.Second: true, time.Hour: true} {
		if got := v.RenewalDue(now.Add(after)); got != want {
			t.Errorf("half life after %s: %t, want %t", after, got, want)
		}
	}
	if !(lock.Decision{}).RenewalDue(now) {
		t.Error("a lock that is not held must be taken again")
	}
}

func TestOutcome(t *testing.T) {
	granted := lock.Decide(now, lock.Stored{}, "me", nil, time.Minute)
	if o := granted.Outcome(time.Second); !o.IsDone() {
		t.Errorf("granted: %s", o)
	}
	refused := lock.Decide(now, lock.Stored{Record: record("you", 0, time.Minute)}, "me", nil, time.Minute)
	if o := refused.Outcome(10 * time.Second); o.String() != "later 10s LockNotHeld: refused: you holds it until 2025-01-02T03:05:05Z" {
		t.Errorf("refused: %s", o)
	}
	unreadable := lock.Decide(now, lock.Stored{Err: lock.Unreadable.Errorf("x")}, "me", nil, time.Minute)
	if o := unreadable.Outcome(time.Second); fault.Of(o.Err()) != lock.Unreadable {
		t.Errorf("unreadable: %s", o)
	}
}

// A lease ends by itself, and the next lease of its owner has a new start.
func TestExpiryInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &lock.Memory{}
		a, b := lock.Locker{Backend: m, Owner: "a"}, lock.Locker{Backend: m, Owner: "b"}
		take := func(l lock.Locker) lock.Decision {
			v, err := l.Take(t.Context(), "l")
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		take(a)
		time.Sleep(10*time.Minute - 1)
		if v := take(b); v.Granted {
			t.Fatalf("b, 1 ns before the end: %s", v)
		}
		time.Sleep(time.Nanosecond)
		start := time.Now()
		if v := take(b); !v.Granted || !v.Record.Start.Equal(start) {
			t.Fatalf("b, at the end: %s", v)
		}
		if v := take(a); v.Granted {
			t.Fatalf("a, after it lost the lock: %s", v)
		}
	})
}

// In every case, only its owner replaces a valid record whose holder is allowed.
func TestNoTheft(t *testing.T) {
	owners := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		var stored lock.Stored
		at, deny := now, []string(nil)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(-5, 40).Draw(t, "pass")) * time.Second)
			caller := rapid.SampledFrom(owners).Draw(t, "caller")
			if rapid.IntRange(0, 4).Draw(t, "deny") == 0 {
				deny = lock.Merge(deny, []lock.Entry{{ID: caller, Allow: rapid.Bool().Draw(t, "allow")}})
			}
			var v lock.Decision
			if rapid.Bool().Draw(t, "release") {
				v = lock.Release(at, stored, caller)
			} else {
				v = lock.Decide(at, stored, caller, lock.DenyList(deny), 30*time.Second)
			}
			held := stored.Record
			if held != nil && held.Valid(at) && held.Owner != caller && !slices.Contains(deny, held.Owner) && (v.Write || v.Granted) {
				t.Fatalf("%s took what %s holds: %s", caller, held.Owner, v)
			}
			if v.Granted && (slices.Contains(deny, caller) || !v.Record.Valid(at) || v.Record.Owner != caller) {
				t.Fatalf("bad grant to %s, denied %v: %+v", caller, deny, v.Record)
			}
			if v.Write {
				stored.Record = v.Record
			}
		}
	})
}
