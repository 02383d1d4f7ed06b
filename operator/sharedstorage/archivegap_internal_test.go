package sharedstorage

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The time is rounded, so that the message stays the same for some passes.
func TestFullIn(t *testing.T) {
	for _, c := range []struct {
		free int64
		age  time.Duration
		want string
	}{
		{1, time.Minute, "10 minutes"},
		{100, 14 * time.Minute, "10 minutes"},
		{100, 16 * time.Minute, "20 minutes"},
		{100, 77*time.Minute + 13*time.Second, "80 minutes"},
		{200, 90 * time.Minute, "3 hours"},
		{100, 72 * time.Hour, "3 days"},
		{100, 31 * 24 * time.Hour, ""},
		{100, 59 * time.Second, ""},
	} {
		at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		if got, known := fullIn(port.ArchiveStatus{Bytes: 100, Free: c.free, Since: at.Add(-c.age)}, at); got != c.want || known != (c.want != "") {
			t.Errorf("%d bytes after %s: %q, want %q", c.free, c.age, got, c.want)
		}
	}
}
