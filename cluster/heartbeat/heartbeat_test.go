package heartbeat_test

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/cluster/heartbeat"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/provider/sim"
)

func TestTokensOfNodes(t *testing.T) {
	tokens, mu := map[string]cluster.Secret{}, sync.Mutex{}
	tokenOf := func(node string) string {
		mu.Lock()
		defer mu.Unlock()
		return tokens[node].Reveal()
	}
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}
	s.Sim.Parse = func(data []byte) (bootstrap.Data, error) {
		b, err := bootstrap.Parse(data)
		mu.Lock()
		defer mu.Unlock()
		tokens[b.Node] = b.Token
		return b, err
	}
	servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
		mu.Lock()
		clear(tokens) // of the former run of this function
		mu.Unlock()
		id := w.Create("blue", 2)
		w.Until(id, time.Minute, cluster.Starting)
		const control, worker = "blue-8f3b2c-control1", "blue-8f3b2c-worker1"
		for tokenOf(control) == "" {
			time.Sleep(time.Second)
		}
		token := tokenOf(control)
		say := func(token, node string, role cluster.Role, uuid string) (cluster.HeartbeatAnswer, error) {
			return w.Service.Heartbeat(t.Context(), token, cluster.Heartbeat{Cluster: uuid, Node: node, Role: role, Ready: true})
		}
		for name, c := range map[string]struct {
			token, node string
			role        cluster.Role
			uuid        string
		}{
			"a wrong token":            {token + "x", control, cluster.Control, id},
			"no token":                 {"", control, cluster.Control, id},
			"an unknown node":          {token, "blue-8f3b2c-worker9", cluster.Worker, id},
			"another role":             {token, control, cluster.Worker, id},
			"another cluster":          {token, control, cluster.Control, "8f3b2c10-red"},
			"a node that is not there": {token, worker, cluster.Worker, id},
		} {
			if _, err := say(c.token, c.node, c.role, c.uuid); !errors.Is(err, cluster.TokenRefused) {
				t.Errorf("%s: %v", name, err)
			}
		}
		d, _ := w.Records.Details(t.Context(), id)
		if d.JoinTokenHash == "" || d.JoinTokenHash == token || len(token) != 43 || time.Until(d.JoinTokenExpires) > 90*time.Minute {
			t.Errorf("token %q stored as %q until %s", token, d.JoinTokenHash, d.JoinTokenExpires)
		}
		answer, err := say(token, control, cluster.Control, id)
		if err != nil || answer.Credential == "" {
			t.Fatalf("%+v %v", answer, err)
		}
		if n := w.Record(id).Nodes[0]; !n.ReadyAt.IsZero() {
			t.Error("a node that only exchanged its token counts as ready")
		}
		if _, err := say(answer.Credential, control, cluster.Control, id); err != nil {
			t.Error(err)
		}
		if n := w.Record(id).Nodes[0]; n.ReadyAt.IsZero() {
			t.Error("a ready node with its credential does not count")
		}
		if _, err := say(token, control, cluster.Control, id); !errors.Is(err, cluster.TokenRefused) {
			t.Errorf("the token of a ready node is worth something still: %v", err)
		}
		w.Until(id, time.Hour, cluster.Running)
		if _, err := say(tokenOf(worker), worker, cluster.Worker, id); !errors.Is(err, cluster.TokenRefused) {
			t.Errorf("the token outlives its run: %v", err)
		}
	})
}

func TestHeartbeatsAreWrittenRarely(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 5)
		w.Until(id, time.Hour, cluster.Running)
		time.Sleep(time.Minute)
		commits, revision := w.Records.Count(), w.Cluster(id).Revision
		time.Sleep(10 * time.Minute)
		if got := w.Records.Count() - commits; got != 0 || w.Cluster(id).Revision != revision {
			t.Errorf("%d commits in 10 quiet minutes", got)
		}
		for _, n := range w.Record(id).Nodes {
			if age := time.Since(n.HeartbeatAt); age > time.Minute {
				t.Errorf("the newest recorded heartbeat of %s is %s old", n.Name, age)
			}
		}
		// A node that is no longer ready is known at once.
		if err := w.Cloud.NotReady("blue-8f3b2c-worker2", "disk full"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		i := slices.IndexFunc(w.Record(id).Nodes, func(n cluster.Node) bool { return n.Name == "blue-8f3b2c-worker2" })
		if got := w.Record(id).Nodes[i].NotReady; got != "disk full" {
			t.Errorf("not ready: %q", got)
		}
	})
}

// A run that waits for its nodes continues when the last one is ready, not at
// its next poll.
func TestTheLastNodeWakesTheRun(t *testing.T) {
	for name, times := range map[string]sim.Times{"at once": {}, "slow": servicetest.Slow} {
		t.Run(name, func(t *testing.T) {
			servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: times}}, func(t *testing.T, w *servicetest.World) {
				id := w.Create("blue", 8)
				c, last := w.Until(id, time.Hour, cluster.Running), time.Time{}
				for _, n := range w.Record(id).Nodes {
					if n.ReadyAt.After(last) {
						last = n.ReadyAt
					}
				}
				if late := c.StateSince.Sub(last); late > 3*time.Second {
					t.Errorf("it is Running %s after its last node was ready\n%s", late, w.Story(id))
				}
			})
		})
	}
}

func TestVictimsAreToldToDrain(t *testing.T) {
	servicetest.Running(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, 3, func(t *testing.T, w *servicetest.World, id string) {
		job := w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 2 })
		w.Until(id, time.Minute, cluster.Scaling)
		for range 60 {
			if n := w.Record(id).Nodes; len(n) == 4 && n[3].NotReady == "drained" {
				w.AwaitJob(job)
				w.Done(job)
				return
			}
			time.Sleep(time.Second)
		}
		t.Errorf("worker3 was not drained\n%s", w.Story(id))
	})
}

func TestAPersonsPauseKeepsTheState(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 5)
		w.Until(id, time.Minute, cluster.Starting)
		time.Sleep(time.Minute)
		run := w.Cluster(id).RunID
		if err := w.Engine.Pause(t.Context(), run, servicetest.Pausing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		if c := w.Cluster(id); c.State != cluster.Starting || c.RunID != run {
			t.Fatalf("%s", w.Story(id))
		}
		if err := w.Engine.Resume(t.Context(), run, "", "", servicetest.Pausing); err != nil {
			t.Fatal(err)
		}
		w.Until(id, time.Hour, cluster.Running)
		w.Done("create-blue")
	})
}

func TestACreateThatNeverStartsIsDeleted(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 1, func(c *cluster.Cluster) { c.Desired = cluster.WantStopped })
		time.Sleep(9 * time.Minute)
		if c := w.Cluster(id); c.State != cluster.Created {
			t.Fatalf("it is %s", c.State)
		}
		w.Until(id, 2*time.Minute, cluster.Destroyed)
		w.Failed("create-blue", "OPERATION_OVERTAKEN")
	})
}

func TestARunEndsAtItsDeadline(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		w.Cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Do: sim.Stuck})
		id := w.Create("blue", 1)
		c := w.Until(id, 2*time.Hour, cluster.Destroyed, cluster.Expunge)
		if c.Reason.Code == "" {
			t.Errorf("no reason\n%s", w.Story(id))
		}
		if j := w.Job("create-blue"); j.Status != cluster.JobFailed {
			t.Errorf("job %+v", j)
		}
		w.Cloud.Unstick()
		w.Until(id, 3*time.Hour, cluster.Destroyed)
		w.CheckEmpty()
	})
}

// One of several control nodes is authoritative for endpoint, CA and
// configuration: they do not change with each heartbeat of another node.
// Heartbeats of removed nodes and of other VMs do not count.
func TestFinding18OneControlNodeIsAuthoritative(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Kinds: []cluster.Kind{cluster.VM}, Times: servicetest.Slow, Templates: []cluster.Entry{{ID: "node-image", Default: true}, {ID: "node-2"}}}}
	s.Sim.HeartbeatInterval = 10 * time.Second
	servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 1, func(c *cluster.Cluster) { c.ControlCount = 3 })
		w.Until(id, 30*time.Minute, cluster.Running)
		details := func() *cluster.Details {
			d, err := w.Records.Details(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		time.Sleep(time.Minute)
		before, config := *w.Cluster(id), details().ConfigData
		time.Sleep(90 * time.Second) // each node sends nine heartbeats
		if after := w.Cluster(id); after.Revision != before.Revision {
			t.Errorf("nothing has changed, and there are %d revisions more: %s", after.Revision-before.Revision, cmp.Diff(before, *after))
		}
		// Each control node sends its own endpoint again, as after a restart of the service.
		for _, name := range []string{"control1", "control2", "control3"} {
			for _, vm := range w.Cloud.All(cluster.VM) {
				if strings.HasSuffix(vm.Name, name) {
					if err := w.Cloud.StartVM(vm.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for range 90 {
			time.Sleep(time.Second)
			if after := w.Cluster(id); after.Endpoint != before.Endpoint || details().ConfigData != config {
				t.Fatalf("the endpoint is %s, it was %s; config differs: %s", after.Endpoint, before.Endpoint, cmp.Diff(config.Reveal(), details().ConfigData.Reveal()))
			}
		}
		// An upgrade replaces all three: the endpoint is never that of a removed node.
		w.Ask(id, cluster.RequestUpgrade, func(_ *cluster.Cluster, a *cluster.Request) {
			a.Version, a.Template, a.Surge = "v2", cluster.Entity{ID: "node-2"}, 1
		})
		w.Until(id, time.Minute, cluster.Scaling)
		w.Until(id, time.Hour, cluster.Running)
		seen := map[string]bool{}
		for range 75 {
			time.Sleep(time.Second)
			seen[w.Cluster(id).Endpoint] = true
		}
		record := w.Record(id)
		for endpoint := range seen {
			if !slices.ContainsFunc(record.Nodes, func(n cluster.Node) bool {
				return n.Role == cluster.Control && endpoint == "https://"+n.Address+":6443"
			}) {
				t.Errorf("the endpoint was %s, which is no control node's: %+v", endpoint, record.Nodes)
			}
		}
		if len(seen) != 1 || record.Cluster.State != cluster.Running {
			t.Errorf("endpoints %v, it is %s", seen, record.Cluster.State)
		}
		// A heartbeat of another VM with the same name, such as a restored one, does not count.
		control := record.Nodes[slices.IndexFunc(record.Nodes, func(n cluster.Node) bool { return n.Role == cluster.Control })]
		token := "its credential"
		record.Cluster.Revision = w.Cluster(id).Revision
		d := details()
		d.Credentials[control.Name] = heartbeat.Hash(token)
		if err := w.Records.Commit(t.Context(), &cluster.Change{Cluster: &record.Cluster, Details: d}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		h := cluster.Heartbeat{Cluster: id, Node: control.Name, Role: cluster.Control, Ready: true, Identity: "another VM", Endpoint: "https://192.0.2.9:6443", CACert: "x", Config: "y"}
		if _, err := w.Service.Heartbeat(t.Context(), token, h); err != nil {
			t.Fatal(err)
		}
		if c := w.Cluster(id); c.Endpoint == h.Endpoint || details().CACert == h.CACert {
			t.Errorf("what another VM says counts: endpoint %s", c.Endpoint)
		}
	})
}

// A cluster has one CA, created before its control nodes. The answers to
// heartbeats of control nodes without a CA contain it; no other answer contains
// its key.
func TestFinding18OneCA(t *testing.T) {
	tokens, mu := map[string]cluster.Secret{}, sync.Mutex{}
	s := servicetest.Setup{Sim: sim.Options{Times: sim.Times{Boot: 2 * time.Hour}}} // the nodes send no heartbeats: the test sends them
	s.Sim.Parse = func(data []byte) (bootstrap.Data, error) {
		b, err := bootstrap.Parse(data)
		mu.Lock()
		defer mu.Unlock()
		tokens[b.Node] = b.Token
		return b, err
	}
	servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
		w.Options.Probe = nil // the endpoint is not served
		w.Stop()
		w.Begin()
		id := w.Create("blue", 1, func(c *cluster.Cluster) { c.ControlCount = 3 })
		w.Until(id, time.Minute, cluster.Starting)
		time.Sleep(time.Minute)
		pairs := map[string]bool{}
		var credential string
		for _, n := range w.Record(id).Nodes {
			mu.Lock()
			token := tokens[n.Name].Reveal()
			mu.Unlock()
			answer, err := w.Service.Heartbeat(t.Context(), token, cluster.Heartbeat{Cluster: id, Node: n.Name, Role: n.Role, Reason: "WaitsForCA"})
			if err != nil {
				t.Fatal(err)
			}
			if n.Role == cluster.Worker {
				t.Fatalf("%s is there before its control node", n.Name)
			}
			if _, err := tls.X509KeyPair([]byte(answer.CACert), []byte(answer.CAKey)); err != nil {
				t.Errorf("%s gets %q: %v", n.Name, answer.CACert, err)
			}
			pairs[answer.CACert+answer.CAKey], credential = true, answer.Credential
			answer, err = w.Service.Heartbeat(t.Context(), credential, cluster.Heartbeat{Cluster: id, Node: n.Name, Role: n.Role, Ready: true, CACert: answer.CACert})
			if err != nil || answer.CAKey != "" || answer.CACert != "" {
				t.Errorf("%s has a CA and gets another: %v", n.Name, err)
			}
		}
		if len(pairs) != 1 {
			t.Errorf("%d CAs for one cluster", len(pairs))
		}
		time.Sleep(time.Minute)
		worker := w.Record(id).Nodes
		n := worker[slices.IndexFunc(worker, func(n cluster.Node) bool { return n.Role == cluster.Worker })]
		mu.Lock()
		token := tokens[n.Name].Reveal()
		mu.Unlock()
		answer, err := w.Service.Heartbeat(t.Context(), token, cluster.Heartbeat{Cluster: id, Node: n.Name, Role: n.Role})
		d, _ := w.Records.Details(t.Context(), id)
		if err != nil || answer.CAKey != "" || answer.CACert != "" || answer.CAHash != bootstrap.CAHash(d.CACert) || answer.CAHash == "" {
			t.Errorf("a worker gets %q, %v", answer.CAHash, err)
		}
	})
}
