package postgres

import (
	"strconv"
	"strings"
	"testing"
)

// The log that an engine keeps by default fits its volume, from the 1Gi of the sample on.
func TestTheLogFitsTheVolume(t *testing.T) {
	for _, c := range []struct {
		total                  int64
		max, min, keep, behind string
	}{
		{1 << 30, "128MB", "32MB", "32MB", "256MB"},
		{10 << 30, "1024MB", "80MB", "256MB", "2560MB"},
		{1 << 40, "1024MB", "80MB", "256MB", "4096MB"},
		{0, "1024MB", "80MB", "256MB", "4096MB"},
	} {
		got := logDefaults(c.total)
		if got["max_wal_size"] != c.max || got["min_wal_size"] != c.min || got["wal_keep_size"] != c.keep || got["max_slot_wal_keep_size"] != c.behind {
			t.Errorf("%d bytes: %v", c.total, got)
		}
		sum := int64(0)
		for _, name := range []string{"max_wal_size", "max_slot_wal_keep_size"} {
			n, err := strconv.ParseInt(strings.TrimSuffix(got[name], "MB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n << 20
		}
		if c.total > 0 && sum > c.total/2 {
			t.Errorf("%d bytes: the log may take %d", c.total, sum)
		}
	}
	if text := configuration(setup{Volume: 1 << 30, Params: map[string]string{"max_wal_size": "300MB"}}); !strings.Contains(text, "max_wal_size = '300MB'") || !strings.Contains(text, "wal_keep_size = '32MB'") {
		t.Error(text)
	}
}
