package cloudstack

import (
	"fmt"
	"testing"
	"time"
)

// A name has its burst, then its rate. Refused requests cost nothing, names do not
// affect each other, and idle names are removed.
func TestLimiters(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := newLimiters(10, 20)
	for i := range 20 {
		if wait := l.take("uma", now); wait != 0 {
			t.Fatalf("request %d waits %s", i, wait)
		}
	}
	for range 5 {
		if wait := l.take("uma", now); wait < 99*time.Millisecond || wait > 101*time.Millisecond {
			t.Errorf("the next one waits %s", wait)
		}
	}
	if wait := l.take("ben", now); wait != 0 {
		t.Errorf("another name waits %s", wait)
	}
	if wait := l.take("uma", now.Add(110*time.Millisecond)); wait != 0 {
		t.Errorf("after a tenth of a second it waits %s", wait)
	}
	if wait := l.take("uma", now.Add(110*time.Millisecond)); wait == 0 {
		t.Error("two for a tenth of a second")
	}
	for i := range maxNames {
		l.take(fmt.Sprint(i), now)
	}
	l.take("late", now.Add(time.Minute))
	if n := len(l.byName); n != 1 {
		t.Errorf("%d names are kept", n)
	}
}
