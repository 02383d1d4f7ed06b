package service_test

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
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/provider/sim"
)

// explanation returns the present Explanation of a cluster.
func (w *world) explanation(id string) (waits, unseen string, since, until time.Time) {
	w.t.Helper()
	synctest.Wait()
	all, err := w.service.Explanations(w.t.Context(), []cluster.Cluster{*w.cluster(id)})
	if err != nil {
		w.t.Fatal(err)
	}
	one, err := w.service.Explanation(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	s := all[id]
	if (s.Waiting == nil) != (one.Waiting == nil) || (s.Unseen == nil) != (one.Unseen == nil) {
		w.t.Errorf("a list says %+v, one %+v", s, one)
	}
	if s.Waiting != nil {
		waits = s.Waiting.Step + ": " + s.Waiting.For
		if s.Waiting.Code != "" {
			waits += "; " + s.Waiting.Code + ": " + s.Waiting.Error
		}
		since, until = s.Waiting.Since, s.Waiting.Until
	}
	if s.Unseen != nil {
		unseen = s.Unseen.Code + ": " + s.Unseen.Text
	}
	return waits, unseen, since, until
}

// A start with silent nodes reports which nodes it waits for, how many are ready,
// the URL for heartbeats, since when and until when.
func TestFinding20WaitForNodesIsExplained(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		id := w.create("blue", 2)
		silenced := false
		for range 3600 {
			synctest.Wait()
			for name, vm := range w.vms() {
				if !silenced && strings.Contains(name, "worker2") {
					silenced = w.cloud.Silence(vm.ID, true) == nil
				}
			}
			if waits, _, _, _ := w.explanation(id); strings.HasPrefix(waits, "join: ") && strings.Contains(waits, "2 of 3") {
				break
			}
			time.Sleep(time.Second)
		}
		waits, _, since, until := w.explanation(id)
		for _, want := range []string{"join: ", "2 of 3 are ready", "worker2 (it has never called home)", "https://home.example/v1/nodes/heartbeat"} {
			if !strings.Contains(waits, want) {
				t.Errorf("%q lacks %q", waits, want)
			}
		}
		if now := time.Now(); since.IsZero() || since.After(now) || !until.After(now) {
			t.Errorf("since %s, until %s", since, until)
		}
		w.until(id, 3*time.Hour, cluster.Destroyed)
		if waits, unseen, _, _ := w.explanation(id); waits != "" || unseen != "" {
			t.Errorf("a cluster that is gone waits: %s %s", waits, unseen)
		}
	})
}

// A page of clusters in transient states needs one read of runs and one of
// records, however many clusters there are.
func TestFinding20APageOfWaitsIsReadTogether(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: sim.Times{Create: time.Hour}}}, func(t *testing.T, w *world) {
		const clusters = 8
		for i := range clusters {
			w.create(fmt.Sprintf("c%d", i), 1, func(c *cluster.Cluster) { c.UUID = fmt.Sprintf("9a3b2c1%d-page", i) })
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		page, _, err := w.records.List(t.Context(), cluster.ClusterQuery{Scope: all})
		if err != nil || len(page) != clusters {
			t.Fatal(len(page), err)
		}
		records, runs := w.records.readCount(), w.runs.readCount()
		explanations, err := w.service.Explanations(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		records, runs = w.records.readCount()-records, w.runs.readCount()-runs
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
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		w.stop()
		w.options.Probe = func(_ context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return &url.Error{Op: "Get", URL: c.Endpoint, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}}
		}
		w.begin()
		id := w.create("blue", 1)
		saw := ""
		for range 3600 {
			synctest.Wait()
			if waits, _, _, _ := w.explanation(id); strings.HasPrefix(waits, "endpoint: https://") {
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
	running(t, setup{}, 1, func(t *testing.T, w *world, id string) {
		other := w.create("green", 1, func(c *cluster.Cluster) { c.UUID = "9a3b2c10-green" })
		w.until(other, time.Hour, cluster.Running)
		if _, unseen, _, _ := w.explanation(id); unseen != "" {
			t.Errorf("before: %s", unseen)
		}
		w.cloud.Inject(sim.Rule{Label: "away", Do: sim.Fail, Err: cluster.ProviderUnreachable})
		time.Sleep(5 * time.Minute)
		for _, one := range []string{id, other} {
			if _, unseen, _, _ := w.explanation(one); !strings.HasPrefix(unseen, "PROVIDER_UNREACHABLE: ") {
				t.Errorf("cluster %s: %q", one, unseen)
			}
		}
		w.ask(id, cluster.RequestStop, nil)
		w.until(id, time.Minute, cluster.Stopping)
		time.Sleep(2 * time.Minute)
		waits, unseen, since, until := w.explanation(id)
		if !strings.Contains(waits, "PROVIDER_UNREACHABLE") || unseen == "" || since.IsZero() || until.IsZero() {
			t.Errorf("a stop waits for %q, %q, since %s until %s", waits, unseen, since, until)
		}
		w.cloud.ClearRules()
		w.until(id, 2*time.Hour, cluster.Stopped, cluster.Alert)
		time.Sleep(2 * time.Minute)
		if _, unseen, _, _ := w.explanation(other); unseen != "" {
			t.Errorf("the provider is back: %s", unseen)
		}
	})
}

// The reason of an alert has the present findings, not those at its begin. A node
// whose VM is gone is not ready. The findings of a stopped cluster have the next
// action.
func TestFinding20FactsAreFresh(t *testing.T) {
	vm := func(w *world, part string) string {
		for name, r := range w.vms() {
			if strings.Contains(name, part) {
				return r.ID
			}
		}
		w.t.Fatalf("no VM is named %s", part)
		return ""
	}
	t.Run("alert", func(t *testing.T) {
		running(t, setup{}, 2, func(t *testing.T, w *world, id string) {
			if err := w.cloud.DestroyVM(vm(w, "worker1")); err != nil {
				t.Fatal(err)
			}
			c := w.until(id, time.Hour, cluster.Alert)
			if !strings.Contains(c.Reason.Text, "worker1") {
				t.Fatalf("reason %+v", c.Reason)
			}
			if err := w.cloud.DestroyVM(vm(w, "worker2")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			record := w.record(id)
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
		running(t, setup{settings: service.Settings{Recovery: cluster.Recovery{}}}, 2, func(t *testing.T, w *world, id string) {
			w.ask(id, cluster.RequestStop, nil)
			w.until(id, time.Hour, cluster.Stopped)
			if err := w.cloud.DestroyVM(vm(w, "worker1")); err != nil {
				t.Fatal(err)
			}
			if err := w.cloud.StartVM(vm(w, "worker2")); err != nil {
				t.Fatal(err)
			}
			w.until(id, time.Hour, cluster.Alert)
			findings := w.cluster(id).Findings
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
