package runtype

import (
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"10/1m": {10, time.Minute}, "1/1h": {1, time.Hour}, "1000/24h": {1000, 24 * time.Hour}, "5/1s": {5, time.Second},
		"3/1h30m": {3, 90 * time.Minute}, "7/1m30s": {7, 90 * time.Second}, "2/10m": {2, 10 * time.Minute}, "4/250ms": {4, 250 * time.Millisecond},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
		var again Rate
		if data, _ := got.MarshalText(); again.UnmarshalText(data) != nil || again != want {
			t.Errorf("%s is read again as %v", text, again)
		}
	}
	for _, text := range []string{"", "10", "10/", "/1m", "0/1m", "-1/1m", "1001/1m", "1/0s", "1/25h", "ten/1m", "1/minute", "1/1us"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
}

func TestRatesOfOneKey(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"", "", ""}, {"2/1m", "", "2/1m"}, {"2/1m", "2/1m", "2/1m"}, {"2/1m", "3/1m", "2/1m"}, {"2/1m", "2/1h", "2/1h"},
		{"1/1h", "2/1m", "1/1h"}, {"2/1s", "10/1m", "no"}, {"1/1s", "2/2s", "1/1s"}, {"1/1s", "2/2500ms", "no"},
	} {
		var a, b Rate
		if c.a != "" {
			a, _ = ParseRate(c.a)
		}
		if c.b != "" {
			b, _ = ParseRate(c.b)
		}
		for _, pair := range [][2]Rate{{a, b}, {b, a}} {
			got, err := pair[0].And(pair[1])
			if text := got.String(); err == nil && text != c.want || err != nil && c.want != "no" {
				t.Errorf("%s and %s: %s, %v", pair[0], pair[1], text, err)
			}
		}
	}
}
