package cli

import (
	"strings"
	"testing"
)

func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 machines", 1: "1 machine", 2: "2 machines"} {
		if got := CountText(n, "machine"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// --wait takes its time from the next word only if that is a time.
func TestWaitStandsAlone(t *testing.T) {
	for line, want := range map[string]string{
		"resume gk3v --wait 10m":  "resume gk3v --wait=10m",
		"resume --wait gk3v":      "resume --wait gk3v",
		"resume gk3v --wait":      "resume gk3v --wait",
		"resume gk3v --wait=1s":   "resume gk3v --wait=1s",
		"resume a --wait forever": "resume a --wait=forever",
		"run -- --wait 1s":        "run -- --wait 1s",
		"apply --wait 1h -f x":    "apply --wait=1h -f x",
	} {
		if got := strings.Join(JoinWaits(strings.Fields(line)), " "); got != want {
			t.Errorf("%s became %s, want %s", line, got, want)
		}
	}
}
