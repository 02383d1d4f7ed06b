package gc_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/provider/sim"
)

var operator = cluster.Caller{User: "op", Operator: true, Scope: servicetest.All}

// An orphan is deleted once it is older than an hour and proven to belong to the
// cluster.
func TestOrphansAreCollectedWithProof(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(cluster.Recovery{}) // no recovery
		c := w.Cluster(id)
		ours := w.Orphan(c, 77)
		named, err := w.Cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: "pet", Owner: c.Owner, Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"},
			Tags: map[string]string{cluster.TagInstallation: servicetest.Installation, cluster.TagCluster: id}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(55 * time.Minute)
		if !w.Exists(ours.ID) {
			t.Fatal("an orphan younger than an hour is gone")
		}
		if c = w.Cluster(id); c.State != cluster.Alert {
			t.Errorf("an extra VM is an alert: %s", c.State)
		}
		time.Sleep(20 * time.Minute)
		if w.Exists(ours.ID) {
			t.Errorf("the orphan is there still\n%s", w.Story(id))
		}
		if !w.Exists(named.ID) {
			t.Error("a VM with a name that is not of our making is gone")
		}
		rows := slices.DeleteFunc(w.Record(id).Journal, func(r cluster.JournalRow) bool { return r.ProviderID != ours.ID })
		if len(rows) != 1 || rows[0].Phase != cluster.Gone || rows[0].Origin != cluster.OriginAdopted {
			t.Errorf("its rows: %+v", rows)
		}
		leaks, total, err := w.Service.Leaks(t.Context(), operator, "", "", 0, 0)
		if err != nil || total != 1 || leaks[0].ID != named.ID || leaks[0].Remedy == "" || leaks[0].Name != "blue" {
			t.Errorf("report: %+v, %d, %v", leaks, total, err)
		}
		w.Until(id, time.Minute, cluster.Running) // healthy again
	})
}

func TestOrphansOfADestroyedClusterAreCollected(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		c := w.Cluster(id)
		w.Ask(id, cluster.RequestDelete, nil)
		w.Until(id, time.Hour, cluster.Destroyed)
		late := w.Orphan(c, 50)
		time.Sleep(80 * time.Minute)
		if w.Exists(late.ID) {
			t.Errorf("it is there still\n%s", w.Story(id))
		}
		w.CheckEmpty()
	})
}

// A database that was restored from a time before the cluster was created does
// not have it: its VMs are not deleted, only reported.
func TestARestoredDatabaseKillsNoLivingCluster(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		before := len(w.Cloud.All())
		w.Stop()
		w.Mu.Lock()
		w.Records = &servicetest.Counted{Store: memory.New()}
		w.Mu.Unlock()
		w.Begin()
		w.Cloud.ClearLog()
		time.Sleep(24 * time.Hour)
		if after := len(w.Cloud.All()); after != before {
			t.Errorf("%d resources were there, %d are", before, after)
		}
		for _, e := range w.Cloud.Calls() {
			if e.Call == sim.Create || e.Call == sim.Act || e.Call == sim.Edit {
				t.Fatalf("a call that changes something: %s", e)
			}
		}
		leaks, total, err := w.Service.Leaks(t.Context(), operator, id, cluster.VM, 0, 2)
		if err != nil || total != 3 || len(leaks) != 2 || leaks[0].Phase != "orphan" || !strings.Contains(leaks[0].Text, "not known") {
			t.Errorf("report: %+v, %d, %v", leaks, total, err)
		}
		if rest, _, _ := w.Service.Leaks(t.Context(), operator, id, cluster.VM, 2, 2); len(rest) != 1 {
			t.Errorf("the second page: %+v", rest)
		}
		other := cluster.Caller{User: "x", Scope: servicetest.All}
		if _, _, err := w.Service.Leaks(t.Context(), other, "", "", 0, 0); err == nil {
			t.Error("leaks are for operators")
		}
	})
}

// Refused credentials stop the pass: no row is closed, and the leak report has an
// entry.
func TestRefusedCredentialsStopThePass(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(cluster.Recovery{})
		late := w.Orphan(w.Cluster(id), 60)
		w.Until(id, time.Minute, cluster.Alert)
		w.Cloud.RefuseCredentials(true)
		time.Sleep(30 * time.Second)
		w.Cloud.ClearLog()
		rows := len(w.Record(id).Journal)
		time.Sleep(10 * time.Hour)
		if got := w.Record(id); len(got.Journal) != rows || slices.ContainsFunc(got.Journal, func(r cluster.JournalRow) bool { return r.Phase != cluster.Present }) {
			t.Errorf("rows were written\n%s", w.Story(id))
		}
		for _, e := range w.Cloud.Calls() {
			if e.Call != sim.List && e.Call != "home" {
				t.Fatalf("more than the first list of a pass: %s", e)
			}
		}
		if b := w.Alerts()["sim"]; !strings.Contains(b, "CREDENTIALS_REFUSED") {
			t.Errorf("alert %q", b)
		}
		leaks, _, err := w.Service.Leaks(t.Context(), operator, "", "", 0, 0)
		if err != nil || len(leaks) != 1 || leaks[0].Phase != "unseen" || leaks[0].Code != "CREDENTIALS_REFUSED" || leaks[0].Remedy == "" || time.Since(leaks[0].Since) < 9*time.Hour {
			t.Errorf("report: %+v, %v", leaks, err)
		}
		w.Cloud.RefuseCredentials(false)
		time.Sleep(6 * time.Minute)
		if w.Exists(late.ID) {
			t.Error("the orphan is there still")
		}
	})
}

// A failed deletion is tried again with growing pauses, reported after five
// attempts, and never given up.
func TestExpungeIsTriedWithPausesAndReported(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		vm := w.Worker(id, 1)
		w.Cloud.Inject(sim.Rule{Call: sim.Act, Action: cluster.Destroy, Name: vm, Do: sim.Fail, Err: cluster.ProviderRefused.Errorf("locked")},
			sim.Rule{Call: sim.Act, Action: cluster.Destroy, Name: w.Record(id).Nodes[1].Name, Do: sim.Fail, Err: cluster.ProviderRefused.Errorf("locked")})
		w.Ask(id, cluster.RequestDelete, nil)
		w.Until(id, 2*time.Hour, cluster.Expunge)
		time.Sleep(48 * time.Hour)
		c := w.Until(id, 2*time.Hour, cluster.Expunge)
		events, err := w.Records.Events(t.Context(), cluster.EventQuery{Scope: servicetest.All, Cluster: id, Types: []string{"cluster"}})
		if err != nil {
			t.Fatal(err)
		}
		var last time.Time
		var pause time.Duration
		tries := 0
		for _, e := range events {
			if e.Event != string(cluster.OnDelete) {
				continue
			}
			if tries++; tries > 2 && e.At.Sub(last) < pause {
				t.Errorf("try %d: %s behind the one before, earlier it was %s", tries, e.At.Sub(last), pause)
			}
			if !last.IsZero() {
				pause = e.At.Sub(last)
			}
			last = e.At
		}
		if tries < 9 || tries > 20 || c.GCAttempts < 9 {
			t.Errorf("%d tries in two days, %d counted", tries, c.GCAttempts)
		}
		if pause < 6*time.Hour || pause > 7*time.Hour+30*time.Minute {
			t.Errorf("the longest pause is %s", pause)
		}
		leaks, total, _ := w.Service.Leaks(t.Context(), operator, id, "", 0, 0)
		i := slices.IndexFunc(leaks, func(l api.Leak) bool { return l.ID == vm })
		if i < 0 || leaks[i].Attempts < 5 || leaks[i].Code != string(cluster.ProviderRefused.Code) || leaks[i].Remedy == "" {
			t.Errorf("report: %+v, %d", leaks, total)
		}
		w.Cloud.ClearRules()
		w.Until(id, 8*time.Hour, cluster.Destroyed)
		w.CheckEmpty()
	})
}

func TestGCZeroIsLeftAlone(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		w.Cloud.Inject(sim.Rule{Call: sim.Act, Action: cluster.Destroy, Do: sim.Fail, Err: cluster.ProviderRefused.Errorf("locked")})
		w.Ask(id, cluster.RequestDelete, func(c *cluster.Cluster, _ *cluster.Request) { c.GC = false })
		w.Until(id, 2*time.Hour, cluster.Expunge)
		w.Cloud.ClearRules()
		w.Cloud.ClearLog()
		time.Sleep(48 * time.Hour)
		if c := w.Cluster(id); c.State != cluster.Expunge || w.Calls("act", "*") != 0 {
			t.Errorf("%s, %d calls", c.State, w.Calls("act", "*"))
		}
		c := w.Cluster(id) // an operator enables garbage collection again
		c.GC = true
		if err := w.Records.Commit(t.Context(), &cluster.Change{Cluster: c}); err != nil {
			t.Fatal(err)
		}
		w.Until(id, time.Hour, cluster.Destroyed)
		w.CheckEmpty()
	})
}

// A lazy clean-up begins at the collector's next pass.
func TestLazyCleanupComesWithTheCollector(t *testing.T) {
	servicetest.InWorld(t, servicetest.SixVMs(false), func(t *testing.T, w *servicetest.World) {
		servicetest.Blind(w)
		id := w.Create("blue", 10, func(c *cluster.Cluster) { c.OnFailure = cluster.Lazy })
		failed := w.Until(id, time.Hour, cluster.Expunging)
		since := failed.StateSince
		c := w.Until(id, 20*time.Minute, cluster.Destroyed)
		if took := c.StateSince.Sub(since); took > 7*time.Minute {
			t.Errorf("it took %s", took)
		}
		w.CheckEmpty()
	})
}

// Rows that a cancelled run has left open are resolved by the provider's state.
func TestOpenRowsWithoutARunAreSettled(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(cluster.Recovery{})
		c := w.Cluster(id)
		created := w.Orphan(c, 41)
		rows := []*cluster.JournalRow{
			{Kind: cluster.VM, Key: "a", Name: cluster.NodeName(c, cluster.Worker, 40), Phase: cluster.Intent, Origin: cluster.OriginCreated, IntentAt: time.Now(), CallID: "call-a", Spec: cluster.Spec{Zone: "zone-1"}},
			{Kind: cluster.VM, Key: "lost", Name: created.Name, Phase: cluster.Intent, Origin: cluster.OriginCreated, IntentAt: time.Now(), Spec: cluster.Spec{Zone: "zone-1"}},
			{Kind: cluster.VM, Key: "c", Name: cluster.NodeName(c, cluster.Worker, 42), Phase: cluster.Closing, Origin: cluster.OriginCreated, ProviderID: "no-such-id", IntentAt: time.Now()},
		}
		node := &cluster.Node{Key: "a", Name: rows[0].Name, Role: cluster.Worker, Ordinal: 40}
		if err := w.Records.Commit(t.Context(), &cluster.Change{ClusterID: c.ID, Journal: rows, Nodes: []*cluster.Node{node}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Minute)
		record := w.Record(id)
		phase := func(key string) cluster.Phase {
			return record.Journal[slices.IndexFunc(record.Journal, func(r cluster.JournalRow) bool { return r.Key == key })].Phase
		}
		if phase("a") != cluster.NeverCreated || phase("c") != cluster.Gone || len(record.Nodes) != 3 {
			t.Errorf("a %s, c %s, %d nodes\n%s", phase("a"), phase("c"), len(record.Nodes), w.Story(id))
		}
		if phase("lost") != cluster.Present || !w.Exists(created.ID) {
			t.Errorf("what exists is %s", phase("lost"))
		}
		time.Sleep(2 * time.Hour) // the row has no node: the VM is deleted
		if record = w.Record(id); phase("lost") != cluster.Gone || w.Exists(created.ID) {
			t.Errorf("what nobody wants is %s\n%s", phase("lost"), w.Story(id))
		}
	})
}

func TestRecordsArePruned(t *testing.T) {
	seldom := settings.Settings{SyncEvery: 12 * time.Hour, CollectEvery: 12 * time.Hour, ResyncEvery: time.Hour}
	servicetest.InWorld(t, servicetest.Setup{Silent: true, Settings: seldom}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 2)
		w.Until(id, 2*time.Hour, cluster.Running)
		w.Ask(id, cluster.RequestDelete, nil)
		w.Until(id, 6*time.Hour, cluster.Destroyed)
		time.Sleep(89 * 24 * time.Hour)
		if _, err := w.Records.Record(t.Context(), id); err != nil {
			t.Fatalf("before 90 days: %v", err)
		}
		time.Sleep(2 * 24 * time.Hour)
		if _, err := w.Records.Record(t.Context(), id); err == nil {
			t.Error("after 90 days it is kept still")
		}
	})
}

// A resource whose calls are not answered does not delay the others, and its
// failures are counted.
func TestOneSilentResourceDoesNotHoldUpTheOthers(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(cluster.Recovery{})
		c := w.Cluster(id)
		stuck, other := w.Orphan(c, 30), w.Orphan(c, 31)
		w.Cloud.Inject(sim.Rule{Call: sim.Act, Action: cluster.Destroy, Name: stuck.ID, Do: sim.Fail, Err: cluster.ProviderUnreachable.Errorf("no answer")},
			sim.Rule{Call: sim.Act, Action: cluster.Destroy, Name: stuck.Name, Do: sim.Fail, Err: cluster.ProviderUnreachable.Errorf("no answer")})
		time.Sleep(70 * time.Minute)
		if w.Exists(other.ID) || !w.Exists(stuck.ID) {
			t.Fatalf("other there %t, stuck there %t", w.Exists(other.ID), w.Exists(stuck.ID))
		}
		time.Sleep(5 * time.Hour)
		leaks, _, err := w.Service.Leaks(t.Context(), operator, id, cluster.VM, 0, 0)
		if err != nil || len(leaks) != 1 || leaks[0].ID != stuck.ID || leaks[0].Attempts < 5 || leaks[0].Phase != string(cluster.Leaked) {
			t.Errorf("report %+v, %v\n%s", leaks, err, w.Story(id))
		}
		events, _ := w.Records.Events(t.Context(), cluster.EventQuery{Scope: servicetest.All, Cluster: id, Types: []string{"leak"}})
		if len(events) != 1 {
			t.Errorf("%d leak events", len(events))
		}
		w.Cloud.ClearRules()
		time.Sleep(7 * time.Hour)
		if w.Exists(stuck.ID) {
			t.Error("it was given up")
		}
	})
}

// A fault that only the collector meets raises an alert, and the alert ends with
// it.
func TestTheCollectorHasAnAlertOfItsOwn(t *testing.T) {
	seldom := settings.Settings{SyncEvery: 100 * time.Hour}
	servicetest.InWorld(t, servicetest.Setup{Settings: seldom}, func(t *testing.T, w *servicetest.World) {
		w.Cloud.RefuseCredentials(true)
		time.Sleep(6 * time.Minute)
		if b := w.Alerts()["sim"]; !strings.HasPrefix(b, "CREDENTIALS_REFUSED since ") {
			t.Errorf("alert %q", b)
		}
		w.Cloud.RefuseCredentials(false)
		time.Sleep(6 * time.Minute)
		if b := w.Alerts(); len(b) > 0 {
			t.Errorf("the alert stays: %v", b)
		}
	})
}
