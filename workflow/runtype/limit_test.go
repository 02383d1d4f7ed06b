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
