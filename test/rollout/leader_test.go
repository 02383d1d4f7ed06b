package rollout_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/test/rollouttest"
)

// TestFrozenLeader: a leader stands still in the middle of a write, for longer than its lease. Another
// process takes over and does the work; then the first goes on, and what it had sent arrives. The end
// is the same, and each pod is made as often.
func TestFrozenLeader(t *testing.T) {
	for _, name := range []string{"rollout", "deletion that rolls back", "rollback"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes := map[string]int{"rollout": 24, "rollback": 20, "deletion that rolls back": 24}[name]
			all := slices.DeleteFunc(rollouttest.Points(writes, "frozen "+name, crashSample), func(p rollouttest.Point) bool { return p.After })
			if len(all) == 0 { // a sample of one
				all = []rollouttest.Point{{At: writes / 2}}
			}
			if os.Getenv("PAWL_TEST_POINTS") == "" {
				all = all[:1]
			}
			for _, p := range all {
				t.Run(fmt.Sprint(p.At), func(t *testing.T) { thawed(t, lives[name], p.At) })
			}
		})
	}
}

func thawed(t *testing.T, l life, at int) {
	w := newQuietWorld(t)
	made := w.countPods()
	l.begin(w)
	f := w.StartFrozen(at)
	l.live(w)
	f.Thaw()
	l.check(w)
	if got := made(); l.moved != nil && fmt.Sprint(got) != fmt.Sprint(l.moved) {
		t.Errorf("pods were made %v, expected %v", got, l.moved)
	}
	if n := f.Taken(); n > 0 {
		t.Errorf("%d late writes were taken", n)
	}
	w.meanings()
}
