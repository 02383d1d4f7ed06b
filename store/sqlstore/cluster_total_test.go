package sqlstore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What another process changes is in a total after a second; what this one changes at once.
func TestTotalsAreKeptForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all totals
		want := func(when string, want int) {
			t.Helper()
			if got, _ := all.get("k"); got != want {
				t.Errorf("%s: %d, want %d", when, got, want)
			}
		}
		want("nothing is known", 0)
		_, changes := all.get("k")
		all.put("k", 7, changes)
		time.Sleep(totalKept - 1)
		want("just before", 7)
		time.Sleep(time.Nanosecond)
		want("a second later", 0)

		all.put("k", 8, changes)
		all.forget()
		want("after a change", 0)
		all.put("k", 8, changes)
		want("counted before the change", 0)
	})
}

// Totals of many kinds do not fill the memory.
func TestTotalsAreBounded(t *testing.T) {
	var all totals
	for i := range 3 * totalsMost {
		all.put(fmt.Sprint(i), 1, 0)
	}
	if n := len(all.kept); n > totalsMost {
		t.Errorf("%d totals are kept, at most %d are to be", n, totalsMost)
	}
}

// Values that stand beside each other are not mistaken for others.
func TestTotalKeysDiffer(t *testing.T) {
	if a, b := totalKey("s", []any{"a", "b"}), totalKey("s", []any{"a\x00b"}); a == b {
		t.Error("two lists of values have one key")
	}
}
