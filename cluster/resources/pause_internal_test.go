package resources

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster/settings"
)

func TestPausesGrow(t *testing.T) {
	s := settings.Settings{}.OrDefault()
	age, want := time.Duration(0), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15}
	for i, seconds := range want {
		p := s.Pause(age)
		if p != time.Duration(seconds)*time.Second {
			t.Errorf("pause %d is %s, want %d s", i, p, seconds)
		}
		age += p
	}
	for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 100: time.Minute} {
		if got := failurePause(n); got != want {
			t.Errorf("the pause behind failure %d is %s, want %s", n, got, want)
		}
	}
}
