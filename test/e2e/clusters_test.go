package e2e_test

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The second part of `make demo`, on real processes: three nodes are created and join, one
// is killed by hand and recovers, pawl is killed while it scales, and after the deletion
// no process, folder or journal row remains.
func TestContainerCluster(t *testing.T) {
	d, dir := start(t)
	for _, act := range d.ClusterActs() {
		if !t.Run(act.Name, func(t *testing.T) {
			if err := act.Play(t.Context()); err != nil {
				t.Fatal(err)
			}
		}) {
			t.Logf("the server's log:\n%s", tail(filepath.Join(dir, "pawl.log"), 40))
			return
		}
	}
	facts := d.Facts().Cluster
	t.Run("ThreeNodesAreReady", func(t *testing.T) {
		if want := []string{"control true", "worker true", "worker true"}; !slices.Equal(facts.Nodes, want) {
			t.Errorf("the nodes are %q", facts.Nodes)
		}
	})
	t.Run("ASignedCallListsIt", func(t *testing.T) {
		if facts.SignedCount != 1 || facts.SignedState != "Running" {
			t.Errorf("the signed call lists %d clusters, the first is %s", facts.SignedCount, facts.SignedState)
		}
		if facts.ForgedStatus != http.StatusUnauthorized {
			t.Errorf("a signature of another call is answered with %d", facts.ForgedStatus)
		}
		if facts.NakedStatus != http.StatusUnauthorized {
			t.Errorf("once there is a token, a call without one is answered with %d", facts.NakedStatus)
		}
	})
	t.Run("AKilledVMIsSeenAndStarted", func(t *testing.T) {
		want := []string{"Created → Starting", "Starting → Running", "Running → Alert", "Alert → Recovering", "Recovering → Running"}
		if !slices.Equal(facts.Path, want) {
			t.Errorf("the way is %q", facts.Path)
		}
		if facts.Finding != "power_state" || facts.Resource != facts.Killed {
			t.Errorf("drift is %s of %s, killed was %s", facts.Finding, facts.Resource, facts.Killed)
		}
		if len(facts.Before) != 3 || len(facts.After) != 3 {
			t.Fatalf("processes: %v, later %v", facts.Before, facts.After)
		}
		for name, pid := range facts.Before {
			if same := facts.After[name] == pid; same == (name == facts.Killed) {
				t.Errorf("%s was process %d and is %d", name, pid, facts.After[name])
			}
		}
	})
	t.Run("VMsOutliveTheServerAndNoneIsMadeTwice", func(t *testing.T) {
		if facts.Crashed != "Scaling" {
			t.Errorf("pawl was killed when the cluster was %s", facts.Crashed)
		}
		if names := slices.Sorted(maps.Keys(facts.Outlived)); len(names) != 5 {
			t.Errorf("after the scaling there are %q", names)
		}
		for name, pid := range facts.After {
			if facts.Outlived[name] != pid {
				t.Errorf("%s was process %d and is %d", name, pid, facts.Outlived[name])
			}
		}
	})
	t.Run("NothingIsLeft", func(t *testing.T) {
		if len(facts.Open) > 0 || facts.Leaks > 0 || len(facts.Left) > 0 {
			t.Errorf("open in the journal: %q; %d leaks; left: %s", facts.Open, facts.Leaks, strings.Join(facts.Left, "\n"))
		}
	})
}
