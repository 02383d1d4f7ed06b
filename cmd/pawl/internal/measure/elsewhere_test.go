package measure

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestFinding15ARunThatEndsElsewhereIsHeardOf: a run that another worker has
// taken and finished; its client waited for ever.
func TestFinding15ARunThatEndsElsewhereIsHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := runstore.NewMemory()
		b, err := Open(store, Options{Steps: 1, Concurrency: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := store.Create(t.Context(), &runtype.Run{ID: "r", Flow: "Other", Subject: "s", Phase: runtype.Running, Owner: "another", Epoch: 1, CreatedAt: time.Now()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		b.mu.Lock()
		b.ended[r.ID] = ended
		b.mu.Unlock()
		r.Phase, r.EndedAt = runtype.Succeeded, time.Now()
		if err := store.Save(t.Context(), &runstore.Save{Run: r}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("its client was not told")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}
