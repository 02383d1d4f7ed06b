package sharedstorage

import (
	"testing"
	"time"
)

func TestCache(t *testing.T) {
	t.Parallel()
	var m cache[int]
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m.put("a/blue", "1", now.Add(time.Minute), 7)
	m.put("a/red", "1", now.Add(time.Minute), 8)
	for _, ask := range []struct {
		cluster, key string
		after        time.Duration
		want         int // 0: none
	}{
		{"a/blue", "1", 59 * time.Second, 7},
		{"a/blue", "1", time.Minute, 0},
		{"a/blue", "1", 0, 0}, // what was too old is forgotten
		{"a/red", "2", 0, 0},
		{"a/red", "1", 0, 0},
		{"a/green", "1", 0, 0},
	} {
		if got, ok := m.get(ask.cluster, ask.key, now.Add(ask.after)); got != ask.want || ok != (ask.want != 0) {
			t.Errorf("%+v: %d %t", ask, got, ok)
		}
	}
	m.put("a/red", "1", now.Add(time.Minute), 8)
	m.forget("a/red")
	if _, ok := m.get("a/red", "1", now); ok {
		t.Error("what was forgotten is kept")
	}
}
