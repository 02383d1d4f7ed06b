package runstore

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The Lease of a dead worker is deleted when it owns no run and expired long ago. The
// Lease of a worker that owns a run, or was renewed recently, stays.
func TestLeasesOfDeadWorkersGo(t *testing.T) {
	s, err := Open(t.Context(), Options{Config: kubetest.NewServer(t).Config(), SingleNamespace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"dead", "busy", "young"} {
		if err := s.Renew(t.Context(), name, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC()
	if _, err := s.Create(t.Context(), &runtype.Run{ID: "r", Flow: "F", Subject: "k/n/x", CreatedAt: now, NextAt: now, Owner: "busy", Epoch: 1}, nil); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	for _, name := range []string{"dead", "busy"} {
		s.workers.workers[name].seen = now.Add(-2 * sweepAfter)
	}
	s.mu.Unlock()
	if _, err := s.Expired(t.Context(), now, func(string) runtype.Retention { return runtype.Retention{} }, 10); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"dead": false, "busy": true, "young": true} {
		s.mu.Lock()
		delete(s.workers.workers, name)
		s.mu.Unlock()
		if err := s.workers.readWorker(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		if got := s.workers.workers[name].version > 0; got != want {
			t.Errorf("the lease of %s is there: %v, want %v", name, got, want)
		}
		s.mu.Unlock()
	}
}
