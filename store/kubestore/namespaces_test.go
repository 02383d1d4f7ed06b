package kubestore_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/kubestore"
	"github.com/pawl-dev/pawl/store/kubestore/kubetest"
	"github.com/pawl-dev/pawl/workflow"
)

// Two stores with namespaces of their own leave each other's runs alone, though
// each is told of all, and knows nothing of the other's workers.
func TestRunsOfOtherNamespaces(t *testing.T) {
	for _, kind := range []kubestore.Kind{kubestore.Run, kubestore.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			server := kubetest.NewServer(t)
			open := func(home string, namespaces ...string) *kubestore.Store {
				t.Helper()
				s, err := kubestore.Open(t.Context(), kubestore.Options{Config: server.Config(), Kind: kind, Namespace: home, Namespaces: namespaces})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				return s
			}
			claim := func(s *kubestore.Store, worker string) []workflow.Loaded {
				t.Helper()
				got, err := s.Claim(t.Context(), workflow.Claim{Worker: worker, Limit: 10, Lease: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return got.Runs
			}
			ours, theirs := open("ops-a", "a"), open("a", "b", "c") // who lives among the others' subjects
			e, err := workflow.New(ours, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}}, workflow.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: "X/a/one/1"})
			if err != nil {
				t.Fatal(err)
			}
			late := open("ops-c", "c")                                                                                     // it reads the list, and no event
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // an event takes its time
				for _, s := range []*kubestore.Store{theirs, late} {
					if got := claim(s, "w-of-others"); len(got) != 0 {
						t.Fatalf("a store of other namespaces claimed %d runs", len(got))
					}
				}
			}
			got := claim(ours, "w")
			if len(got) != 1 || got[0].Run.ID != r.ID {
				t.Fatalf("its own store claimed %+v", got)
			}
			if got := claim(late, "w-of-others"); len(got) != 0 {
				t.Errorf("a run was taken from a worker that lives")
			}
		})
	}
}
