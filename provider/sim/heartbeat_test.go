package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/provider/sim"
)

// fakeServer receives the heartbeats of nodes.
type fakeServer struct {
	mu         sync.Mutex
	heartbeats []cluster.Heartbeat
	tokens     []string
	at         []time.Time
	answer     func(h cluster.Heartbeat) (cluster.HeartbeatAnswer, error)
}

func (h *fakeServer) heartbeat(_ context.Context, token string, said cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heartbeats, h.tokens, h.at = append(h.heartbeats, said), append(h.tokens, token), append(h.at, time.Now())
	if h.answer != nil {
		return h.answer(said)
	}
	return cluster.HeartbeatAnswer{}, nil
}

func (h *fakeServer) of(node string) []cluster.Heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []cluster.Heartbeat
	for _, said := range h.heartbeats {
		if said.Node == node {
			all = append(all, said)
		}
	}
	return all
}

func node(t *testing.T, name string, role cluster.Role, network string) cluster.DesiredResource {
	t.Helper()
	w := vm(name)
	w.Spec.Network, w.Spec.Role = network, role
	data, err := bootstrap.Data{Home: "http://home", Cluster: "c1", Node: name, Role: role, Token: cluster.Secret("token of " + name)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.Spec.UserData = data
	return w
}

// serve runs Cloud.Serve until the test ends.
func serve(t *testing.T, cloud *sim.Cloud) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := cloud.Serve(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// A node sends heartbeats after its boot: the first with its token, later ones with its
// credential, at the interval.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeServer{answer: func(said cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
			return cluster.HeartbeatAnswer{Credential: "credential of " + said.Node}, nil
		}}
		cloud := open(t, sim.Options{Home: h.heartbeat, HeartbeatInterval: 10 * time.Second, Times: sim.Times{Create: time.Minute, Boot: 30 * time.Second}})
		serve(t, cloud)
		began := time.Now()
		if _, err := cloud.Create(t.Context(), node(t, "one", cluster.Control, "")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90*time.Second + 25*time.Second)
		synctest.Wait()
		one, _ := cloud.Lookup(cluster.VM, "one")
		said := h.of("one")
		if len(said) != 3 || h.at[0].Sub(began) != 90*time.Second || h.at[2].Sub(began) != 110*time.Second {
			t.Fatalf("%d heartbeats at %v", len(said), h.at)
		}
		if want := []string{"token of one", "credential of one", "credential of one"}; !slices.Equal(h.tokens, want) {
			t.Errorf("paid with %q", h.tokens)
		}
		if s := said[0]; s.Cluster != "c1" || s.Identity != one.Identity || s.Role != cluster.Control || !s.Ready || s.Address != one.Address || !slices.Equal(s.Joined, []string{"one"}) {
			t.Errorf("it said %+v", s)
		}
		if said[0].Config == "" || bootstrap.CAHash(said[0].CACert) == "" || said[0].Endpoint == "" {
			t.Errorf("the first heartbeat lacks config, CA or endpoint: %+v", said[0])
		}
		if said[1].Config != said[0].Config || said[1].Endpoint != said[0].Endpoint {
			t.Errorf("the second heartbeat: %+v", said[1])
		}
		if err := cloud.Probe(t.Context(), said[0].Endpoint); err != nil {
			t.Error(err)
		}
	})
}

// A node that waits for an answer does not delay the heartbeats of others, and continues
// after its answer.
func TestNodesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow, fast atomic.Int64
		cloud := open(t, sim.Options{HeartbeatInterval: 10 * time.Second, Home: func(_ context.Context, _ string, said cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
			if said.Node == "fast" {
				fast.Add(1)
			} else {
				slow.Add(1)
				time.Sleep(time.Minute)
			}
			return cluster.HeartbeatAnswer{}, nil
		}})
		serve(t, cloud)
		for _, name := range []string{"slow", "fast"} {
			if _, err := cloud.Create(t.Context(), node(t, name, cluster.Worker, "")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(65 * time.Second)
		synctest.Wait()
		if slow, fast := slow.Load(), fast.Load(); slow != 1 || fast != 7 {
			t.Errorf("in 65 s %d calls of a node that waits a minute for its answer, %d of another, want 1 and 7", slow, fast)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if slow := slow.Load(); slow != 2 {
			t.Errorf("%d calls in 75 s, want one more", slow)
		}
	})
}

// A refused node tries again; a silent, stopped or destroyed one sends nothing.
func TestHeartbeatErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		h := &fakeServer{answer: func(cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
			if refuse.Load() {
				return cluster.HeartbeatAnswer{}, errors.New("refused")
			}
			return cluster.HeartbeatAnswer{Every: 20 * time.Second}, nil
		}}
		cloud := open(t, sim.Options{Home: h.heartbeat})
		serve(t, cloud)
		counted := 0
		heard := func(d time.Duration) int { // heartbeats since the last call, and for d from now
			time.Sleep(d)
			synctest.Wait()
			n := len(h.of("one")) - counted
			counted += n
			return n
		}
		mustMake(t, cloud, node(t, "one", cluster.Control, ""))
		if n := heard(65 * time.Second); n != 3 { // at once, then every 30 s
			t.Errorf("%d heartbeats while it is refused", n)
		}
		refuse.Store(false)
		heard(30 * time.Second) // and now every 20 s
		if n := heard(60 * time.Second); n != 3 {
			t.Errorf("%d heartbeats in a minute of every 20 s", n)
		}
		for name, c := range map[string]struct{ off, on func(string) error }{
			"silence": {func(vm string) error { return cloud.Silence(vm, true) }, func(vm string) error { return cloud.Silence(vm, false) }},
			"stop":    {cloud.StopVM, cloud.StartVM},
			"break":   {cloud.BreakVM, cloud.StartVM},
		} {
			if err := c.off("one"); err != nil {
				t.Fatal(err)
			}
			if n := heard(2 * time.Minute); n != 0 {
				t.Errorf("%s: %d heartbeats", name, n)
			}
			if err := c.on("one"); err != nil {
				t.Fatal(err)
			}
			if n := heard(50 * time.Second); n != 3 {
				t.Errorf("%s, undone: %d heartbeats", name, n)
			}
		}
		if err := cloud.DestroyVM("one"); err != nil {
			t.Fatal(err)
		}
		if n := heard(2 * time.Minute); n != 0 {
			t.Errorf("destroyed: %d heartbeats", n)
		}
	})
}

// Workers are ready while a control node works; the control node lists them.
func TestJoin(t *testing.T) {
	at := newClock()
	h := &fakeServer{}
	cloud := open(t, sim.Options{Home: h.heartbeat, Now: at.now, HeartbeatInterval: 10 * time.Second})
	round := func() map[string]cluster.Heartbeat {
		at.at = at.at.Add(10 * time.Second)
		cloud.Tick(t.Context())
		last := map[string]cluster.Heartbeat{}
		for _, name := range []string{"control", "worker1", "worker2"} {
			if all := h.of(name); len(all) > 0 {
				last[name] = all[len(all)-1]
			}
		}
		return last
	}
	for _, name := range []string{"worker1", "worker2"} {
		mustMake(t, cloud, node(t, name, cluster.Worker, ""))
	}
	if said := round(); said["worker1"].Ready || said["worker1"].Reason == "" {
		t.Errorf("a worker without a control node: %+v", said["worker1"])
	}
	mustMake(t, cloud, node(t, "control", cluster.Control, ""))
	if said := round(); !said["worker1"].Ready || !slices.Equal(said["control"].Joined, []string{"worker1", "worker2", "control"}) {
		t.Errorf("joined %v", said["control"].Joined)
	}
	if err := errors.Join(cloud.NotReady("worker1", "disk full"), cloud.StopVM("worker2")); err != nil {
		t.Fatal(err)
	}
	if said := round(); said["worker1"].Reason != "disk full" || !slices.Equal(said["control"].Joined, []string{"control"}) {
		t.Errorf("%+v, joined %v", said["worker1"], said["control"].Joined)
	}
	h.answer = func(said cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
		return cluster.HeartbeatAnswer{Drain: said.Node == "worker1", Removed: []string{"worker2"}}, nil
	}
	if err := errors.Join(cloud.NotReady("worker1", ""), cloud.StartVM("worker2")); err != nil {
		t.Fatal(err)
	}
	round()
	if said := round(); said["worker1"].Ready || said["worker1"].Reason != "drained" || !slices.Equal(said["control"].Joined, []string{"control"}) {
		t.Errorf("after drain and removal: %+v, joined %v", said["worker1"], said["control"].Joined)
	}
	h.answer = nil // cancel the drain
	round()
	if said := round(); !said["worker1"].Ready || !slices.Equal(said["control"].Joined, []string{"worker1", "control"}) {
		t.Errorf("after the drain: %+v, joined %v", said["worker1"], said["control"].Joined)
	}
}

// The endpoint is the address whose rules lead to the control node, and answers only
// there.
func TestEndpoint(t *testing.T) {
	at := newClock()
	h := &fakeServer{}
	cloud := open(t, sim.Options{Home: h.heartbeat, Now: at.now, HeartbeatInterval: 10 * time.Second})
	net := mustMake(t, cloud, want(cluster.Network, "net", cluster.Spec{Zone: "zone-1", Offering: "isolated"}))
	ip := mustMake(t, cloud, want(cluster.Address, "ip", cluster.Spec{Network: net.ID}))
	control := mustMake(t, cloud, node(t, "control", cluster.Control, net.ID))
	endpoint := func() cluster.Heartbeat {
		at.at = at.at.Add(10 * time.Second)
		cloud.Tick(t.Context())
		all := h.of("control")
		return all[len(all)-1]
	}
	if said := endpoint(); said.Endpoint != fmt.Sprintf("https://%s:6443", control.Address) || cloud.Probe(t.Context(), said.Endpoint) != nil {
		t.Errorf("without rules: %s", said.Endpoint)
	}
	mustMake(t, cloud, want(cluster.Forward, "pf", cluster.Spec{Address: ip.ID, Port: 443, PrivatePort: 6443, VM: control.ID}))
	said := endpoint()
	if said.Endpoint != fmt.Sprintf("https://%s:443", ip.Address) || said.Config == "" {
		t.Errorf("with a rule: %+v", said)
	}
	if err := cloud.Probe(t.Context(), said.Endpoint); err == nil {
		t.Error("it answers through a closed firewall")
	}
	mustMake(t, cloud, want(cluster.Firewall, "fw", cluster.Spec{Address: ip.ID, Port: 443}))
	if err := cloud.Probe(t.Context(), said.Endpoint); err != nil {
		t.Error(err)
	}
	if err := cloud.StopVM("control"); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{said.Endpoint, "https://203.0.113.1:443", "https://" + ip.Address, "://"} {
		if err := cloud.Probe(t.Context(), url); err == nil {
			t.Errorf("%s answers", url)
		}
	}
}
