package kubelet

import (
	"testing"
	"testing/synctest"
	"time"
)

// A pod begins with the current version, and sees each change after the delay.
func TestFilesAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l late
		at := func(version string, want string, next time.Duration) {
			t.Helper()
			data, due := l.see(time.Now(), "ConfigMap c", version, map[string][]byte{"k": []byte(version)}, time.Minute)
			if string(data["k"]) != want {
				t.Errorf("with version %s it sees %q, not %q", version, data["k"], want)
			}
			if left := time.Until(due); next == 0 && !due.IsZero() || next > 0 && left != next {
				t.Errorf("with version %s it sees the next in %s, not %s", version, left, next)
			}
		}
		at("1", "1", 0)
		time.Sleep(time.Hour)
		at("1", "1", 0)
		at("2", "1", time.Minute)
		time.Sleep(30 * time.Second)
		at("3", "1", 30*time.Second)
		time.Sleep(30*time.Second - time.Nanosecond)
		at("3", "1", 1)
		time.Sleep(time.Nanosecond)
		at("3", "2", 30*time.Second)
		time.Sleep(30 * time.Second)
		at("3", "3", 0)
		if data, _ := l.see(time.Now(), "Secret c", "9", map[string][]byte{"k": []byte("9")}, time.Minute); string(data["k"]) != "9" {
			t.Error("another source of the same name is late at once")
		}
	})
}
