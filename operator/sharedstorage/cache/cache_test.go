package cache_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/cache"
)

func TestCache(t *testing.T) {
	t.Parallel()
	var m cache.Cache[int]
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := now.Add(time.Minute)
	m.Put("a/blue", "1", until, 7)
	m.Put("a/red", "1", until, 8)
	for _, ask := range []struct {
		cluster, key string
		after        time.Duration
		want, last   int // 0: none
	}{
		{"a/blue", "1", 59 * time.Second, 7, 7},
		{"a/blue", "1", time.Minute, 0, 7},
		{"a/red", "2", 0, 0, 0},
		{"a/red", "1", 0, 8, 8},
		{"a/green", "1", 0, 0, 0},
	} {
		got, at, ok := m.Get(ask.cluster, ask.key, now.Add(ask.after))
		if got != ask.want || ok != (ask.want != 0) || ok && !at.Equal(until) {
			t.Errorf("%+v: %d %s %t", ask, got, at, ok)
		}
		if last, ok := m.Last(ask.cluster, ask.key); last != ask.last || ok != (ask.last != 0) {
			t.Errorf("%+v: the last is %d %t", ask, last, ok)
		}
	}
	m.Put("a/red", "2", until, 9)
	if _, ok := m.Last("a/red", "1"); ok {
		t.Error("what was replaced is kept")
	}
	m.Forget("a/red")
	if _, ok := m.Last("a/red", "2"); ok {
		t.Error("what was forgotten is kept")
	}
}
