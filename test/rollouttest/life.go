package rollouttest

import (
	"testing"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Life is a rollout from its beginning to its end. Its Rollout is called db.
type Life struct {
	Begin func(w *World) // before the operator starts
	Live  func(w *World) // while it works; a crash does not end it
	Check func(w *World) // at the end
	Made  int            // how many pods are made in all; 0: it depends on time
}

// Play lets a life pass with a crash. It returns the number of writes, and the history.
func (l Life) Play(t *testing.T, plane *controlplane.Plane, crash Point) (writes int, history string) {
	t.Helper()
	w := New(t, plane)
	made := w.CountPods()
	l.Begin(w)
	survived := w.StartDoomed(crash.At, crash.After)
	l.Live(w)
	writes = survived()
	l.Check(w)
	got := 0
	for _, n := range made() {
		got += n
	}
	if l.Made > 0 && got != l.Made {
		t.Errorf("%d pods were made, expected %d", got, l.Made)
	}
	if !w.Gone("db") {
		history = w.History("db")
	}
	return writes, history
}
