package clusters_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// apart is how many points lie between two deaths in one life. Lives that begin with each of so many points die at
// every point there is.
const apart = 40

// crashStep returns how many lives of a story are left out for each that is lived: PAWL_CRASH_STEP=1 leaves out none.
func crashStep(t *testing.T) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("PAWL_CRASH_STEP")); err == nil && n > 0 {
		return n
	}
	return apart
}

// crashes lives through a story in which the operator dies again and again: at every point at which one is left when
// they are counted by apart. A point lies before or after an effect.
func (s story) crashes(t *testing.T, at int) (points, deaths int) {
	l := begin(t, s.options, s.make)
	begun := s.name == "create"
	hook := func(after bool) func(sim.Effect) error {
		return func(e sim.Effect) error {
			if begun {
				if points++; points%apart == at {
					deaths++
					l.dies(e, after)
				}
			}
			return nil
		}
	}
	l.Before(hook(false))
	l.After(hook(true))
	l.settle(time.Hour)
	l.writes(200*time.Millisecond, "7.1.67", "7.3.69", "7.4.6")
	before := l.Cluster().CausedRecoveries()
	begun = true
	s.change(l)
	l.settle(max(s.limit, time.Hour))
	begun = false
	s.ended(l)
	if n := l.Cluster().CausedRecoveries() - before; n > s.recoveries {
		l.fail("%d recoveries caused, at most %d", n, s.recoveries)
	}
	return points, deaths
}

// TestCrashPoints: the operator dies before and after each of its effects, in every story. New instances, which know
// nothing, come to the same end.
func TestCrashPoints(t *testing.T) {
	step := crashStep(t)
	for i, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for at := (11 * i) % step; at < apart; at += step {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					points, deaths := s.crashes(t, at)
					t.Logf("died at %d of %d points", deaths, points)
				})
			}
		})
	}
}
