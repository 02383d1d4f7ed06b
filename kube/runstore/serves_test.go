package runstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Two stores with different Namespaces leave each other's runs alone, although each
// watches all runs and does not know the other's workers.
func TestRunsOfOtherNamespaces(t *testing.T) {
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			server := kubetest.NewServer(t)
			open := func(home string, namespaces ...string) *kuberuns.Store {
				t.Helper()
				s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Kind: kind, Namespace: home, Namespaces: namespaces})
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
			claim := func(s *kuberuns.Store, worker string) []runstore.Loaded {
				t.Helper()
				got, err := s.Claim(t.Context(), runstore.Claim{Worker: worker, Limit: 10, Lease: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return got.Runs
			}
			ours, theirs := open("ops-a", "a"), open("a", "b", "c") // theirs has its own namespace among our subjects
			e, err := workflow.New(ours, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}}, workflow.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: "X/a/one/1"})
			if err != nil {
				t.Fatal(err)
			}
			lateStore := open("ops-c", "c") // it reads the list, and gets no watch event
			// A watch event may arrive late.
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				for _, s := range []*kuberuns.Store{theirs, lateStore} {
					if got := claim(s, "w-of-others"); len(got) != 0 {
						t.Fatalf("a store of other namespaces claimed %d runs", len(got))
					}
				}
			}
			got := claim(ours, "w")
			if len(got) != 1 || got[0].Run.ID != r.ID {
				t.Fatalf("its own store claimed %+v", got)
			}
			if got := claim(lateStore, "w-of-others"); len(got) != 0 {
				t.Errorf("a run was taken from a worker that lives")
			}
		})
	}
}

// Two operators of the same kinds that serve all namespaces: each works on its own runs, both
// see those that nobody has marked, and one without a name sees all.
func TestRunsOfOtherOperators(t *testing.T) {
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			server := kubetest.NewServer(t)
			stores := map[string]*kuberuns.Store{}
			runs := map[string]string{} // ids by the operator that started them
			for _, name := range []string{"a", "b", ""} {
				s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Kind: kind, Serves: kuberuns.Kinds("K"), Operator: name})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				e, err := workflow.New(s, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}}, workflow.Options{})
				if err != nil {
					t.Fatal(err)
				}
				r, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: "K/n/of-" + name})
				if err != nil {
					t.Fatal(err)
				}
				stores[name], runs[name] = s, r.ID
			}
			lateStore, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Kind: kind, Serves: kuberuns.Kinds("K"), Operator: "b"})
			if err != nil {
				t.Fatal(err)
			}
			defer lateStore.Close()
			seen := func(s *kuberuns.Store) (ids []string) {
				all, _, err := s.List(t.Context(), runstore.Query{})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range all {
					ids = append(ids, r.ID)
				}
				slices.Sort(ids)
				return ids
			}
			sorted := func(names ...string) (ids []string) {
				for _, name := range names {
					ids = append(ids, runs[name])
				}
				slices.Sort(ids)
				return ids
			}
			for _, c := range []struct {
				name  string
				store *kuberuns.Store
				want  []string
			}{{"a", stores["a"], sorted("a", "")}, {"b", stores["b"], sorted("b", "")}, {"no name", stores[""], sorted("a", "b", "")}, {"b, which came late", lateStore, sorted("b", "")}} {
				for deadline := time.Now().Add(time.Minute); !slices.Equal(seen(c.store), c.want); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("operator %s sees %v, want %v", c.name, seen(c.store), c.want)
					}
				}
			}
			claimed, err := lateStore.Claim(t.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range claimed.Runs {
				if l.Run.ID == runs["a"] {
					t.Error("a run of operator a was claimed by b")
				}
			}
		})
	}
}

// Two operators in one cluster: each claims, starts, lists and removes only its own runs.
// Each can load and signal a run of the other by its id.
func TestRunsOfOtherKinds(t *testing.T) {
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			server := kubetest.NewServer(t)
			open := func(kinds ...string) (*kuberuns.Store, *workflow.Engine) {
				t.Helper()
				s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Kind: kind, Serves: kuberuns.Kinds(kinds...)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				e, err := workflow.New(s, []workflow.Flow{{Name: kinds[0], Steps: []workflow.Step{{Name: "S", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}}, workflow.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s, e
			}
			start := func(e *workflow.Engine, flow, subject string) *runtype.Run {
				t.Helper()
				r, err := e.Start(t.Context(), workflow.Request{Flow: flow, Subject: subject})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			known := func(s *kuberuns.Store, id string) bool {
				t.Helper()
				runs, _, err := s.List(t.Context(), runstore.Query{Prefix: id})
				if err != nil {
					t.Fatal(err)
				}
				return len(runs) > 0
			}
			await := func(what string, good func() bool) {
				t.Helper()
				for deadline := time.Now().Add(time.Minute); !good(); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("not within a minute: %s", what)
					}
				}
			}
			ours, e := open("Ours", "Also")
			theirs, other := open("Theirs")
			r := start(e, "Ours", "Ours/n/a")
			mark := start(other, "Theirs", "Theirs/n/a")
			await("the other one has read as far as its own run", func() bool { return known(theirs, mark.ID) })
			lateStore, _ := open("Theirs") // it reads the list, and gets no watch event
			var ended []string
			for i := range 2 {
				run, err := e.Start(t.Context(), workflow.Request{Flow: "Ours", Subject: "Also/n/b", RequestID: fmt.Sprint(i)})
				if err != nil {
					t.Fatal(err)
				}
				e.Advance(t.Context(), run.ID)
				ended = append(ended, run.ID)
			}
			last := start(other, "Theirs", "Theirs/n/b")
			everything := func(string) runtype.Retention { return runtype.Retention{Age: 1, Keep: 1, Max: 1} }
			for _, s := range []*kuberuns.Store{theirs, lateStore} {
				await("a store has read as far as its newest run", func() bool { return known(s, last.ID) })
				if known(s, r.ID) || known(s, ended[0]) {
					t.Error("a store lists the runs of other kinds")
				}
				got, err := s.Claim(t.Context(), runstore.Claim{Worker: "w-of-others", Limit: 10, Lease: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range got.Runs {
					if l.Run.ID != mark.ID && l.Run.ID != last.ID {
						t.Errorf("a store of other kinds claimed %s", l.Run.Subject)
					}
				}
				if _, err := s.ClaimRun(t.Context(), "w-of-others", r.ID, time.Minute); !errors.Is(err, runstore.ErrOwned) {
					t.Errorf("a run of another kind is taken: %v", err)
				}
				if ids, err := s.Expired(t.Context(), time.Now().Add(time.Hour), everything, 100); err != nil || len(ids) > 0 {
					t.Errorf("a run of another kind is to be removed: %v, %v", ids, err)
				}
				if got, _, err := s.Load(t.Context(), r.ID); err != nil || got.Subject != r.Subject || known(s, r.ID) {
					t.Errorf("looked at by its id: %+v, %v; taken in: %v", got, err, known(s, r.ID))
				}
				if err := s.Send(t.Context(), r.ID, runtype.Signal{ID: fmt.Sprintf("%p", s), Name: "hello"}); err != nil {
					t.Errorf("a signal to a run of another kind: %v", err)
				}
			}
			if _, err := other.Start(t.Context(), workflow.Request{Flow: "Theirs", Subject: "Ours/n/a"}); fault.Of(err) != runtype.InputInvalid {
				t.Errorf("a run that nobody would work on: %v", err)
			}
			if ids, err := ours.Expired(t.Context(), time.Now().Add(time.Hour), everything, 100); err != nil || !slices.Equal(ids, ended[:1]) {
				t.Errorf("its own store is to remove %v, %v, want %v", ids, err, ended[:1])
			}
			got, mail, err := ours.Load(t.Context(), r.ID)
			if err != nil || got.Owner != "" || got.Phase != runtype.Running || len(mail) != 2 {
				t.Errorf("the run is %s, of %q, with %d signals, %v", got.Phase, got.Owner, len(mail), err)
			}
			if claimed, err := ours.Claim(t.Context(), runstore.Claim{Worker: "w", Limit: 10, Lease: time.Minute}); err != nil || len(claimed.Runs) != 1 || claimed.Runs[0].Run.ID != r.ID {
				t.Errorf("its own store claimed %+v, %v", claimed, err)
			}
		})
	}
}
