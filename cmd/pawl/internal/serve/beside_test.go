package serve

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The examples and clusters on shared storage are served side by side, although
// both have flows of the same names: each object runs its own.
func TestClustersBesideFlowsOfTheirNames(t *testing.T) {
	if versions, err := local.Installed(); err != nil || len(versions) == 0 {
		t.Skip("PostgreSQL's server programs are missing: apt-get install postgresql")
	}
	const examples = "../../../../examples/"
	for name, o := range map[string]Options{
		"machines": {Flows: []string{examples + "machines/flows"}, Machines: []string{examples + "machines"}},
		"etcd":     {Flows: []string{examples + "etcd/flows"}, Machines: []string{examples + "etcd/machine.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Store, o.SharedStorage, o.Actions = backend.StoreOptions{Kind: "memory"}, &SharedStorage{Dir: t.TempDir()}, []string{"exec", "sleep", "status", "http", "signal", "approval"}
			client, _, _ := running(t, o)
			flows, err := client.Flows(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, f := range flows {
				if f.Name == "DeleteCluster" {
					kinds = append(kinds, f.Kind)
				}
			}
			if !slices.Equal(kinds, []string{"", sharedstorage.Kind}) {
				t.Errorf("DeleteCluster is served for %q", kinds)
			}
			if f, err := client.Flow(t.Context(), sharedstorage.Kind+"/DeleteCluster"); err != nil || len(f.Steps) == 0 || f.Steps[0].Name != "StopClusterManager" {
				t.Errorf("the flow of clusters on shared storage is %+v, %v", f, err)
			}
			// A source that is not there keeps the cluster from being made: no engine has to start.
			if got := deletion(t, client, control.Ref{Kind: sharedstorage.Kind, Namespace: "default", Name: "blue"}, `{"cloneFrom":"nobody"}`, "Interrupted"); !slices.Contains(got, "RemoveFinalizer") {
				t.Errorf("the cluster on shared storage was deleted by %v", got)
			}
			if name == "machines" {
				if got := deletion(t, client, control.Ref{Kind: "database", Namespace: "default", Name: "blue"}, `{"readers":1,"class":"small"}`, "Running"); !slices.Contains(got, "RemoveStorage") {
					t.Errorf("the database of the example was deleted by %v", got)
				}
			}
		})
	}
}

// deletion creates an object, deletes it in a state, and returns the steps of the run that does it.
func deletion(t *testing.T, client *backend.Remote, ref control.Ref, spec, in string) (steps []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	objects, err := client.Objects()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Apply(ctx, control.Object{Ref: ref, Spec: json.RawMessage(spec)}); err != nil {
		t.Fatal(err)
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			select {
			case <-ctx.Done():
				o, err := objects.Get(t.Context(), ref)
				t.Fatalf("%s: not %s: %s %v", ref, what, o.Status, err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	until("in state "+in, func() bool {
		o, err := objects.Get(ctx, ref)
		return err == nil && view.StateOf(o).State == in
	})
	if _, err := objects.Delete(ctx, ref, 0); err != nil {
		t.Fatal(err)
	}
	var run view.Run
	until("deleted by a run", func() bool {
		runs, err := client.List(ctx, runstore.Query{Flow: "DeleteCluster", Limit: 10})
		for _, r := range runs.Items {
			if err == nil && strings.HasPrefix(r.Subject, ref.String()) {
				run = r
			}
		}
		return run.Phase == runtype.Succeeded
	})
	until("gone", func() bool {
		_, err := objects.Get(ctx, ref)
		return fault.Of(err) == control.NotFound
	})
	if run, err = client.Run(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	for _, s := range run.Steps {
		steps = append(steps, s.Name)
	}
	return steps
}
