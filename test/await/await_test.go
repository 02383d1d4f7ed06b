package await_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/test/await"
)

var errNotYet = errors.New("not yet")

func TestPollLooksUntilItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		err := await.Poll(t.Context(), time.Second, func(context.Context) error {
			if looks++; looks < 4 {
				return errNotYet
			}
			return nil
		})
		if err != nil || looks != 4 || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %d looks and %s", err, looks, time.Since(began))
		}
	})
}

func TestPollTellsWhyItNeverHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		looks := 0
		err := await.Poll(ctx, time.Second, func(ctx context.Context) error {
			if looks++; looks == 3 {
				<-ctx.Done() // a call that the end cuts short
				return ctx.Err()
			}
			return errNotYet
		})
		if !errors.Is(err, errNotYet) || looks != 3 {
			t.Errorf("%v after %d looks", err, looks)
		}
	})
}
