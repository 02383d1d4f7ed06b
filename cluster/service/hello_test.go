package service_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

func TestTokensOfNodes(t *testing.T) {
	tokens, mu := map[string]cluster.Secret{}, sync.Mutex{}
	tokenOf := func(node string) string {
		mu.Lock()
		defer mu.Unlock()
		return tokens[node].Reveal()
	}
	s := setup{sim: sim.Options{Times: slow}}
	s.sim.Parse = func(data []byte) (cluster.Bootstrap, error) {
		b, err := cluster.ParseBootstrap(data)
		mu.Lock()
		defer mu.Unlock()
		tokens[b.Node] = b.Token
		return b, err
	}
	inWorld(t, s, func(t *testing.T, w *world) {
		mu.Lock()
		clear(tokens) // of the world before
		mu.Unlock()
		id := w.create("blue", 2)
		w.until(id, time.Minute, cluster.Starting)
		const control, worker = "blue-8f3b2c-control1", "blue-8f3b2c-worker1"
		for tokenOf(control) == "" {
			time.Sleep(time.Second)
		}
		token := tokenOf(control)
		say := func(token, node string, role cluster.Role, uuid string) (cluster.HelloAnswer, error) {
			return w.service.Hello(t.Context(), token, cluster.Hello{Cluster: uuid, Node: node, Role: role, Ready: true})
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
		d, _ := w.books.Details(t.Context(), id)
		if d.JoinTokenHash == "" || d.JoinTokenHash == token || len(token) != 43 || time.Until(d.JoinTokenExpires) > 90*time.Minute {
			t.Errorf("token %q stored as %q until %s", token, d.JoinTokenHash, d.JoinTokenExpires)
		}
		answer, err := say(token, control, cluster.Control, id)
		if err != nil || answer.Credential == "" {
			t.Fatalf("%+v %v", answer, err)
		}
		if n := w.book(id).Nodes[0]; !n.ReadyAt.IsZero() {
			t.Error("a node that paid with its token counts as ready")
		}
		if _, err := say(answer.Credential, control, cluster.Control, id); err != nil {
			t.Error(err)
		}
		if n := w.book(id).Nodes[0]; n.ReadyAt.IsZero() {
			t.Error("a ready node with its credential does not count")
		}
		if _, err := say(token, control, cluster.Control, id); !errors.Is(err, cluster.TokenRefused) {
			t.Errorf("the token of a ready node is worth something still: %v", err)
		}
		w.until(id, time.Hour, cluster.Running)
		if _, err := say(tokenOf(worker), worker, cluster.Worker, id); !errors.Is(err, cluster.TokenRefused) {
			t.Errorf("the token outlives its run: %v", err)
		}
	})
}

func TestHellosAreWrittenRarely(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		id := w.create("blue", 5)
		w.until(id, time.Hour, cluster.Running)
		time.Sleep(time.Minute)
		commits, revision := w.books.count(), w.cluster(id).Revision
		time.Sleep(10 * time.Minute)
		if got := w.books.count() - commits; got != 0 || w.cluster(id).Revision != revision {
			t.Errorf("%d commits in 10 quiet minutes", got)
		}
		for _, n := range w.book(id).Nodes {
			if age := time.Since(n.HelloAt); age > time.Minute {
				t.Errorf("the newest hello of %s in the books is %s old", n.Name, age)
			}
		}
		// A node that is no longer ready is known at once.
		if err := w.cloud.NotReady("blue-8f3b2c-worker2", "disk full"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		i := slices.IndexFunc(w.book(id).Nodes, func(n cluster.Node) bool { return n.Name == "blue-8f3b2c-worker2" })
		if got := w.book(id).Nodes[i].NotReady; got != "disk full" {
			t.Errorf("not ready: %q", got)
		}
	})
}

// The run that waits for its nodes goes on when the last one is ready, not at
// its next look.
func TestTheLastNodeWakesTheRun(t *testing.T) {
	for name, times := range map[string]sim.Times{"at once": {}, "slow": slow} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{sim: sim.Options{Times: times}}, func(t *testing.T, w *world) {
				id := w.create("blue", 8)
				c, last := w.until(id, time.Hour, cluster.Running), time.Time{}
				for _, n := range w.book(id).Nodes {
					if n.ReadyAt.After(last) {
						last = n.ReadyAt
					}
				}
				if late := c.StateSince.Sub(last); late > 3*time.Second {
					t.Errorf("it is Running %s after its last node was ready\n%s", late, w.story(id))
				}
			})
		})
	}
}

func TestVictimsAreToldToDrain(t *testing.T) {
	running(t, setup{sim: sim.Options{Times: slow}}, 3, func(t *testing.T, w *world, id string) {
		job := w.ask(id, cluster.AskScale, func(c *cluster.Cluster, _ *cluster.Ask) { c.NodeCount = 2 })
		w.until(id, time.Minute, cluster.Scaling)
		for range 60 {
			if n := w.book(id).Nodes; len(n) == 4 && n[3].NotReady == "drained" {
				w.ends(job)
				w.done(job)
				return
			}
			time.Sleep(time.Second)
		}
		t.Errorf("worker3 was not drained\n%s", w.story(id))
	})
}

func TestAPersonsPauseKeepsTheState(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		id := w.create("blue", 5)
		w.until(id, time.Minute, cluster.Starting)
		time.Sleep(time.Minute)
		run := w.cluster(id).RunID
		if err := w.engine.Pause(t.Context(), run, pausing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		if c := w.cluster(id); c.State != cluster.Starting || c.RunID != run {
			t.Fatalf("%s", w.story(id))
		}
		if err := w.engine.Resume(t.Context(), run, "", "", pausing); err != nil {
			t.Fatal(err)
		}
		w.until(id, time.Hour, cluster.Running)
		w.done("create-blue")
	})
}

func TestACreateThatNeverStartsIsDeleted(t *testing.T) {
	inWorld(t, setup{}, func(t *testing.T, w *world) {
		id := w.create("blue", 1, func(c *cluster.Cluster) { c.Desired = cluster.WantStopped })
		time.Sleep(9 * time.Minute)
		if c := w.cluster(id); c.State != cluster.Created {
			t.Fatalf("it is %s", c.State)
		}
		w.until(id, 2*time.Minute, cluster.Destroyed)
		w.failed("create-blue", "OPERATION_OVERTAKEN")
	})
}

func TestARunEndsAtItsDeadline(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		w.cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Do: sim.Stuck})
		id := w.create("blue", 1)
		c := w.until(id, 2*time.Hour, cluster.Destroyed, cluster.Expunge)
		if c.Reason.Code == "" {
			t.Errorf("no reason\n%s", w.story(id))
		}
		if j := w.job("create-blue"); j.Status != cluster.JobFailed {
			t.Errorf("job %+v", j)
		}
		w.cloud.Unstick()
		w.until(id, 3*time.Hour, cluster.Destroyed)
		w.empty()
	})
}
