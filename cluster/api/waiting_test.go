package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/provider/sim"
)

// A start with silent nodes reports which nodes it waits for, how many are ready,
// the URL for heartbeats, since when and until when.
func TestFinding20WaitForNodesIsExplained(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 2)
		silenced := false
		for range 3600 {
			synctest.Wait()
			for name, vm := range w.VMs() {
				if !silenced && strings.Contains(name, "worker2") {
					silenced = w.Cloud.Silence(vm.ID, true) == nil
				}
			}
			if waits, _, _, _ := w.Explanation(id); strings.HasPrefix(waits, "join: ") && strings.Contains(waits, "2 of 3") {
				break
			}
			time.Sleep(time.Second)
		}
		waits, _, since, until := w.Explanation(id)
		for _, want := range []string{"join: ", "2 of 3 are ready", "worker2 (it has never called home)", "https://home.example/v1/nodes/heartbeat"} {
			if !strings.Contains(waits, want) {
				t.Errorf("%q lacks %q", waits, want)
			}
		}
		if now := time.Now(); since.IsZero() || since.After(now) || !until.After(now) {
			t.Errorf("since %s, until %s", since, until)
		}
		w.Until(id, 3*time.Hour, cluster.Destroyed)
		if waits, unseen, _, _ := w.Explanation(id); waits != "" || unseen != "" {
			t.Errorf("a cluster that is gone waits: %s %s", waits, unseen)
		}
	})
}

// A page of clusters in transient states needs one read of runs and one of
// records, however many clusters there are.
func TestFinding20APageOfWaitsIsReadTogether(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: sim.Times{Create: time.Hour}}}, func(t *testing.T, w *servicetest.World) {
		const clusters = 8
		for i := range clusters {
			w.Create(fmt.Sprintf("c%d", i), 1, func(c *cluster.Cluster) { c.UUID = fmt.Sprintf("9a3b2c1%d-page", i) })
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		page, _, err := w.Records.List(t.Context(), cluster.ClusterQuery{Scope: servicetest.All})
		if err != nil || len(page) != clusters {
			t.Fatal(len(page), err)
		}
		records, runs := w.Records.ReadCount(), w.Runs.ReadCount()
		explanations, err := w.Service.Explanations(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		records, runs = w.Records.ReadCount()-records, w.Runs.ReadCount()-runs
		for i := range page {
			if waits := explanations[page[i].UUID].Waiting; waits == nil || !strings.Contains(waits.For, ": 1, ") || !strings.Contains(waits.For, page[i].Name) {
				t.Errorf("%s waits for %+v", page[i].Name, waits)
			}
		}
		if records > 1 || runs > 1 {
			t.Errorf("%d reads of records and %d of runs for %d clusters", records, runs, clusters)
		}
	})
}

// A wait for the endpoint has its URL and its error.
func TestFinding20WaitForTheEndpointNamesURLAndError(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		w.Stop()
		w.Options.Probe = func(_ context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return &url.Error{Op: "Get", URL: c.Endpoint, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}}
		}
		w.Begin()
		id := w.Create("blue", 1)
		saw := ""
		for range 3600 {
			synctest.Wait()
			if waits, _, _, _ := w.Explanation(id); strings.HasPrefix(waits, "endpoint: https://") {
				saw = waits
				break
			}
			time.Sleep(time.Second)
		}
		if !strings.Contains(saw, ":6443 does not answer yet: ") || !strings.HasSuffix(saw, "does not answer yet: connection refused") {
			t.Errorf("it waits for %q", saw)
		}
	})
}

// Every cluster of a provider that does not answer reports it, in stable and in
// transient states, until the provider answers again.
func TestFinding20ADeadProviderShowsOnItsClusters(t *testing.T) {
	servicetest.Running(t, servicetest.Setup{}, 1, func(t *testing.T, w *servicetest.World, id string) {
		other := w.Create("green", 1, func(c *cluster.Cluster) { c.UUID = "9a3b2c10-green" })
		w.Until(other, time.Hour, cluster.Running)
		if _, unseen, _, _ := w.Explanation(id); unseen != "" {
			t.Errorf("before: %s", unseen)
		}
		w.Cloud.Inject(sim.Rule{Label: "away", Do: sim.Fail, Err: cluster.ProviderUnreachable})
		time.Sleep(5 * time.Minute)
		for _, one := range []string{id, other} {
			if _, unseen, _, _ := w.Explanation(one); !strings.HasPrefix(unseen, "PROVIDER_UNREACHABLE: ") {
				t.Errorf("cluster %s: %q", one, unseen)
			}
		}
		w.Ask(id, cluster.RequestStop, nil)
		w.Until(id, time.Minute, cluster.Stopping)
		time.Sleep(2 * time.Minute)
		waits, unseen, since, until := w.Explanation(id)
		if !strings.Contains(waits, "PROVIDER_UNREACHABLE") || unseen == "" || since.IsZero() || until.IsZero() {
			t.Errorf("a stop waits for %q, %q, since %s until %s", waits, unseen, since, until)
		}
		w.Cloud.ClearRules()
		w.Until(id, 2*time.Hour, cluster.Stopped, cluster.Alert)
		time.Sleep(2 * time.Minute)
		if _, unseen, _, _ := w.Explanation(other); unseen != "" {
			t.Errorf("the provider is back: %s", unseen)
		}
	})
}

// The reason of an alert has the present findings, not those at its begin. A node
// whose VM is gone is not ready. The findings of a stopped cluster have the next
// action.
func TestFinding20FactsAreFresh(t *testing.T) {
	vm := func(w *servicetest.World, part string) string {
		for name, r := range w.VMs() {
			if strings.Contains(name, part) {
				return r.ID
			}
		}
		w.T.Fatalf("no VM is named %s", part)
		return ""
	}
	t.Run("alert", func(t *testing.T) {
		servicetest.Running(t, servicetest.Setup{}, 2, func(t *testing.T, w *servicetest.World, id string) {
			if err := w.Cloud.DestroyVM(vm(w, "worker1")); err != nil {
				t.Fatal(err)
			}
			c := w.Until(id, time.Hour, cluster.Alert)
			if !strings.Contains(c.Reason.Text, "worker1") {
				t.Fatalf("reason %+v", c.Reason)
			}
			if err := w.Cloud.DestroyVM(vm(w, "worker2")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			record := w.Record(id)
			if !strings.Contains(record.Cluster.Reason.Text, "worker2") || !strings.Contains(record.Cluster.Reason.Text, "worker1") {
				t.Errorf("the reason is old: %+v of %+v", record.Cluster.Reason, record.Cluster.Findings)
			}
			for i := range record.Nodes {
				n := &record.Nodes[i]
				ready, why := record.Readiness(n)
				if gone := n.Role == cluster.Worker; gone && (ready != "false" || !strings.Contains(why, "gone")) || !gone && ready != "true" {
					t.Errorf("%s is ready: %s %s", n.Name, ready, why)
				}
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		servicetest.Running(t, servicetest.Setup{Settings: settings.Settings{Recovery: cluster.Recovery{}}}, 2, func(t *testing.T, w *servicetest.World, id string) {
			w.Ask(id, cluster.RequestStop, nil)
			w.Until(id, time.Hour, cluster.Stopped)
			if err := w.Cloud.DestroyVM(vm(w, "worker1")); err != nil {
				t.Fatal(err)
			}
			if err := w.Cloud.StartVM(vm(w, "worker2")); err != nil {
				t.Fatal(err)
			}
			w.Until(id, time.Hour, cluster.Alert)
			findings := w.Cluster(id).Findings
			if len(findings) < 2 {
				t.Fatalf("findings %+v", findings)
			}
			for _, f := range findings {
				if f.Then == "" {
					t.Errorf("nothing is said of what becomes of %s", f)
				}
			}
		})
	})
}
