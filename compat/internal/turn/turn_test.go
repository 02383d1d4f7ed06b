package turn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A name is kept only while it is held or awaited (defect 20).
func TestTurnsAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		leave, err := turns.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		if _, err := turns.Take(ctx, "a"); !errors.Is(err, gone) || turns.Len() != 1 {
			t.Errorf("%v, %d names are kept", err, turns.Len())
		}
		other, err := turns.Take(t.Context(), "b")
		if err != nil || turns.Len() != 2 {
			t.Errorf("%v, %d names are kept", err, turns.Len())
		}
		other()
		leave()
		if turns.Len() != 0 {
			t.Errorf("%d names are kept", turns.Len())
		}
	})
}
