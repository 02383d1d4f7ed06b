package control

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Somebody else wrote in between: that is ordinary, tried again, and no warning. Another failure is one.
func TestConflictIsNoWarning(t *testing.T) {
	for want, failure := range map[string]error{
		"":                 fault.WriteConflict.Errorf("demo/default/a is at revision 2"),
		"reconcile failed": errors.New("the disk is on fire"),
	} {
		synctest.Test(t, func(t *testing.T) {
			store := NewMemory()
			apply(t, store, "a", 1)
			var log bytes.Buffer
			tries := 0
			shared := NewShared(store.Feed("demo"), SharedOptions[Object]{Name: "demo", Log: discardLogs()})
			c := Controller{Name: "demo", Log: slog.New(slog.NewTextHandler(&log, nil)), Workers: 1, Triggers: []Trigger{For(shared, nil)}, Reconcile: func(context.Context, string) outcome.Outcome {
				if tries++; tries == 1 {
					return outcome.Fail(failure)
				}
				return outcome.Done()
			}}
			ctx, cancel := context.WithCancel(t.Context())
			go shared.Run(ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = c.Run(ctx) }()
			time.Sleep(time.Minute)
			cancel()
			<-done
			if tries < 2 {
				t.Errorf("%d passes, want another one after the failure", tries)
			}
			if got := log.String(); (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("%v: the log says %q, want %q", failure, got, want)
			}
		})
	}
}
