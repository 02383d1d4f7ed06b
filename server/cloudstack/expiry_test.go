package cloudstack

import (
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		version, expires string
		free, enforced   bool
	}{
		{"", "", true, false},
		{"", "2000-01-01T00:00:00+0000", true, false}, // only version 3 has an expiry
		{"2", "", true, false},
		{"3", "", false, false},
		{"3", "soon", false, false},
		{"3", "2030-01-01", false, false},
		{"3", "2030-01-01T00:00:00+0000", false, false}, // equal to now: expired
		{"3", "2030-01-01T00:00:01+0000", true, true},
		{"3", "2030-01-01T00:00:01Z", true, true},
		{"3", "2030-01-01T01:00:01+01:00", true, true},
		{"3", "2030-01-01T01:00:01+0100", true, true},
		{"3", "2029-12-31T19:00:01-0500", true, true},
		{"3", "2030-01-01T00:00:01 0000", false, false}, // a + that was not escaped
		{"3", "2030-01-01T00:15:00Z", true, true},
		{"3", "2030-01-01T00:15:01Z", true, false},
		{"03", "2020-01-01T00:00:00Z", false, false}, // an unknown version is refused
		{"3 ", "2020-01-01T00:00:00Z", false, false},
		{"4", "2030-01-01T00:00:01Z", false, false},
	} {
		p := parameters{{Name: "signatureversion", Value: c.version}, {Name: "expires", Value: c.expires}}
		if got := notExpired(p, now, false); got != c.free {
			t.Errorf("version %q expires %q: %v", c.version, c.expires, got)
		}
		if got := notExpired(p, now, true); got != c.enforced {
			t.Errorf("enforced, version %q expires %q: %v", c.version, c.expires, got)
		}
	}
}
