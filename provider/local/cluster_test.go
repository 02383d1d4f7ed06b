package local

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/provider/local/node"
)

// fakeServer is the server for the nodes: it accepts a join token once, and then the
// credential.
type fakeServer struct {
	t       *testing.T
	address string
	server  *http.Server
	served  chan struct{}

	mu          sync.Mutex
	token       string
	credentials map[string]string // node -> credential
	heartbeats  map[string]cluster.Heartbeat
	byToken     map[string]int
	drain       map[string]bool
	removed     []string
	upgrade     *cluster.NodeUpgrade // of the control node
	ca, caKey   string               // of the cluster; empty: the control node creates one
}

func (h *fakeServer) open() {
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = listener.Addr().String()
	h.server, h.served = &http.Server{Handler: h}, make(chan struct{})
	server, served := h.server, h.served
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Close
	}()
}

func (h *fakeServer) close() {
	h.server.Close()
	<-h.served
}

func (h *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var heartbeat cluster.Heartbeat
	if err := json.NewDecoder(r.Body).Decode(&heartbeat); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/nodes/heartbeat" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a := cluster.HeartbeatAnswer{Every: 50 * time.Millisecond, Drain: h.drain[heartbeat.Node]}
	switch token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); token {
	case h.credentials[heartbeat.Node]:
	case h.token:
		h.byToken[heartbeat.Node]++
		a.Credential = "credential of " + heartbeat.Node
		h.credentials[heartbeat.Node] = a.Credential
	default:
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.heartbeats[heartbeat.Node] = heartbeat
	if heartbeat.Role == cluster.Control {
		if h.token != "" {
			a.JoinToken = hash(h.token)
		}
		if a.Removed, a.Members = h.removed, map[string]string{}; h.upgrade != nil && heartbeat.Version != h.upgrade.Version {
			a.Upgrade = h.upgrade
		}
		if heartbeat.CACert == "" {
			a.CACert, a.CAKey = h.ca, h.caKey
		}
		for name, credential := range h.credentials {
			a.Members[name] = hash(credential)
		}
	}
	for _, c := range h.heartbeats {
		if c.Role == cluster.Control && c.Ready {
			a.Control, a.CAHash = c.Endpoint, bootstrap.CAHash(c.CACert)
		}
	}
	_ = json.NewEncoder(w).Encode(a)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (h *fakeServer) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// lastHeartbeat returns the newest heartbeat of a node.
func (h *fakeServer) lastHeartbeat(name string) cluster.Heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heartbeats[name]
}

// await polls until the newest heartbeats meet a condition.
func (h *fakeServer) await(what string, is func(map[string]cluster.Heartbeat) bool) {
	h.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		done := is(h.heartbeats)
		if !done && time.Now().After(deadline) {
			h.t.Errorf("waited in vain until %s: %+v", what, h.heartbeats)
			h.mu.Unlock()
			h.t.FailNow()
		}
		h.mu.Unlock()
		if done {
			return
		}
	}
}

func (h *fakeServer) wantVM(name string, role cluster.Role) cluster.DesiredResource {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	b := bootstrap.Data{Home: "http://" + h.address, Cluster: "blue", Node: name, Role: role, Token: cluster.Secret(h.token)}
	text, err := b.Encode()
	if err != nil {
		h.t.Fatal(err)
	}
	w := want(name)
	w.Name, w.Spec.Role, w.Spec.UserData = name, role, text
	return w
}

// A cluster of real processes: nodes send heartbeats and workers join the pinned control
// node; a killed worker leaves the list and returns; the server may be away; a drained
// worker leaves; a control node may be replaced.
func TestCluster(t *testing.T) {
	p := open(t, Options{})
	h := &fakeServer{
		t: t, address: "127.0.0.1:0", token: "join token", credentials: map[string]string{}, heartbeats: map[string]cluster.Heartbeat{},
		byToken: map[string]int{}, drain: map[string]bool{},
	}
	h.open()
	defer func() { h.close() }()

	c1, w1, w2 := createVM(t, p, h.wantVM("c1", cluster.Control)), createVM(t, p, h.wantVM("w1", cluster.Worker)), createVM(t, p, h.wantVM("w2", cluster.Worker))
	joined := func(names ...string) func(map[string]cluster.Heartbeat) bool {
		return func(heartbeats map[string]cluster.Heartbeat) bool {
			for _, name := range names {
				if !heartbeats[name].Ready {
					return false
				}
			}
			return slices.Equal(heartbeats[names[0]].Joined, names)
		}
	}
	h.await("all have joined", joined("c1", "w1", "w2"))
	for name, r := range map[string]*record{"c1": c1, "w1": w1, "w2": w2} {
		heartbeat := h.lastHeartbeat(name)
		if heartbeat.Identity != r.Identity || heartbeat.Address != r.Address || heartbeat.Cluster != "blue" || heartbeat.Version != "1.0.0" || heartbeat.Role != r.Spec.Role {
			t.Errorf("%s said %+v", name, heartbeat)
		}
		h.change(func() {
			if h.byToken[name] != 1 {
				t.Errorf("%s has paid with the token %d times", name, h.byToken[name])
			}
		})
	}
	control := h.lastHeartbeat("c1")
	if control.Endpoint != "https://"+c1.Node.API || !strings.Contains(control.Config, control.Endpoint) {
		t.Errorf("the control node brings %q and %q", control.Endpoint, control.Config)
	}
	listed := func() (names []string) {
		var list struct{ Nodes []node.Member }
		read(t, control, "/nodes", &list)
		for _, m := range list.Nodes {
			names = append(names, m.Name)
		}
		return names
	}
	if got := listed(); !slices.Equal(got, []string{"c1", "w1", "w2"}) {
		t.Errorf("the endpoint lists %v", got)
	}
	var version map[string]string
	if read(t, control, "/version", &version); version["version"] != "1.0.0" {
		t.Errorf("version: %v", version)
	}

	// The token is used up: the nodes continue without it.
	h.change(func() { h.token = "" })

	kill(t, processOf(t, p, w1), syscall.SIGKILL)
	h.await("the silent worker is no longer a member", joined("c1", "w2"))
	if err := act(t, p, w1, cluster.Start); err != nil {
		t.Fatal(err)
	}
	h.await("it has come back", joined("c1", "w1", "w2"))

	h.close()
	kill(t, processOf(t, p, c1), syscall.SIGKILL)
	if err := act(t, p, c1, cluster.Start); err != nil {
		t.Fatal(err)
	}
	h.change(func() { clear(h.heartbeats) })
	h.open()
	h.await("they go on after the server and the control node were away", joined("c1", "w1", "w2"))
	if again := h.lastHeartbeat("c1"); again.CACert != control.CACert {
		t.Error("the control node has created another CA")
	}

	h.change(func() { h.drain["w2"] = true })
	h.await("the drained one has left", func(heartbeats map[string]cluster.Heartbeat) bool {
		return joined("c1", "w1")(heartbeats) && !heartbeats["w2"].Ready && heartbeats["w2"].Reason == "Draining"
	})
	h.change(func() { h.drain["w2"], h.removed = false, []string{"w2"} })
	h.await("the removed one is kept out", func(heartbeats map[string]cluster.Heartbeat) bool {
		return joined("c1", "w1")(heartbeats) && strings.HasPrefix(heartbeats["w2"].Reason, "NotJoined")
	})

	// A new control node has another CA; the server informs the workers, and sends their tokens
	// to the control node.
	if err := act(t, p, c1, cluster.Destroy); err != nil {
		t.Fatal(err)
	}
	h.change(func() { delete(h.heartbeats, "c1"); h.token, h.removed = "second token", nil })
	w := h.wantVM("c2", cluster.Control)
	w.Spec.Template = "node-1.1"
	createVM(t, p, w)
	h.await("the workers have joined the new control node", joined("c2", "w1", "w2"))
	if got := h.lastHeartbeat("c2"); got.Version != "1.1.0" || got.CACert == control.CACert {
		t.Errorf("the new control node said %+v", got)
	}
	for name, r := range map[string]*record{"w1": w1, "w2": w2} {
		text, err := p.Logs(t.Context(), r.ref(), 0)
		if err != nil || !strings.Contains(text, "joined the cluster") {
			t.Errorf("the log of %s: %v\n%s", name, err, text)
		}
		for _, secret := range []string{"join token", "credential of"} {
			if strings.Contains(text, secret) {
				t.Errorf("the log of %s holds a secret: %s", name, secret)
			}
		}
	}
}

// Finding 17: a control node upgrades itself in place when the server requests it: its
// address, CA and members stay, and it keeps the version after a restart.
func TestFinding17ControlNodeUpgradesInPlace(t *testing.T) {
	p := open(t, Options{})
	h := &fakeServer{
		t: t, address: "127.0.0.1:0", token: "join token", credentials: map[string]string{}, heartbeats: map[string]cluster.Heartbeat{},
		byToken: map[string]int{}, drain: map[string]bool{},
	}
	h.open()
	defer func() { h.close() }()
	c1 := createVM(t, p, h.wantVM("c1", cluster.Control))
	createVM(t, p, h.wantVM("w1", cluster.Worker))
	at := func(version string) func(map[string]cluster.Heartbeat) bool {
		return func(heartbeats map[string]cluster.Heartbeat) bool {
			return heartbeats["c1"].Ready && heartbeats["w1"].Ready && heartbeats["c1"].Version == version && slices.Equal(heartbeats["c1"].Joined, []string{"c1", "w1"})
		}
	}
	h.await("both have joined", at("1.0.0"))
	before := h.lastHeartbeat("c1")
	h.change(func() { h.upgrade = &cluster.NodeUpgrade{Version: "1.1.0", Template: "node-1.1"} })
	h.await("it says the new version", at("1.1.0"))
	after := h.lastHeartbeat("c1")
	if after.Endpoint != before.Endpoint || after.CACert != before.CACert || after.Identity != before.Identity {
		t.Errorf("it said %+v, before %+v", after, before)
	}
	var version map[string]string
	if read(t, after, "/version", &version); version["version"] != "1.1.0" {
		t.Errorf("the endpoint says %v", version)
	}
	kill(t, processOf(t, p, c1), syscall.SIGKILL)
	h.change(func() { h.upgrade = nil; delete(h.heartbeats, "c1") })
	if err := act(t, p, c1, cluster.Start); err != nil {
		t.Fatal(err)
	}
	h.await("it has kept the version", at("1.1.0"))
}

// Finding 18: three control nodes have one endpoint, one CA and one membership. When the
// node that serves the endpoint is killed, drained or removed, another one takes over; the
// workers stay.
func TestFinding18ThreeControlNodesAreOneCluster(t *testing.T) {
	for name, oneAddress := range map[string]bool{"an address of its own": false, "a port of its own": true} {
		t.Run(name, func(t *testing.T) {
			p := open(t, Options{OneAddress: oneAddress})
			ca, key, err := bootstrap.NewAuthority("blue", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			h := &fakeServer{
				t: t, address: "127.0.0.1:0", token: "join token", credentials: map[string]string{}, heartbeats: map[string]cluster.Heartbeat{},
				byToken: map[string]int{}, drain: map[string]bool{}, ca: ca, caKey: key.Reveal(),
			}
			h.open()
			defer func() { h.close() }()
			w := want("net")
			w.Kind = cluster.Network
			call, err := p.Create(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			within := func(name string, role cluster.Role) *record {
				w := h.wantVM(name, role)
				w.Spec.Network = call.Ref.ID
				return createVM(t, p, w)
			}
			vms := map[string]*record{}
			for _, name := range []string{"c1", "c2", "c3"} {
				vms[name] = within(name, cluster.Control)
			}
			vms["w1"] = within("w1", cluster.Worker)
			members := func(controls ...string) func(map[string]cluster.Heartbeat) bool {
				want := append(slices.Clone(controls), "w1")
				return func(heartbeats map[string]cluster.Heartbeat) bool {
					for _, name := range controls {
						has := slices.Sorted(slices.Values(heartbeats[name].Joined))
						if !heartbeats[name].Ready || !slices.Equal(has, want) {
							return false
						}
					}
					return heartbeats["w1"].Ready
				}
			}
			h.await("all know each other", members("c1", "c2", "c3"))
			first := h.lastHeartbeat("c1")
			for _, name := range []string{"c2", "c3"} {
				if other := h.lastHeartbeat(name); other.Endpoint != first.Endpoint || other.CACert != ca || first.CACert != ca || other.Config != first.Config {
					t.Errorf("%s says %q, c1 says %q", name, other.Config, first.Config)
				}
			}
			serving := func() string {
				t.Helper()
				for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
					var version map[string]string
					if err := ask(first, "/version", &version); err == nil {
						return version["node"]
					} else if time.Now().After(deadline) {
						t.Fatal(err)
					}
				}
			}
			others := func(not ...string) []string {
				return slices.DeleteFunc([]string{"c1", "c2", "c3"}, func(name string) bool { return slices.Contains(not, name) })
			}

			killed := serving()
			kill(t, processOf(t, p, vms[killed]), syscall.SIGKILL)
			second := serving()
			if second == killed {
				t.Fatalf("%s serves although it was killed", second)
			}
			h.await("the killed one has left the list", members(others(killed)...))

			h.change(func() { h.drain[second] = true; h.removed = []string{second} })
			for deadline := time.Now().Add(30 * time.Second); serving() == second; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s serves although it drains", second)
				}
			}
			last := others(killed, second)
			h.await("one is left", members(last...))
			if got := h.lastHeartbeat(last[0]); got.Endpoint != first.Endpoint || got.CACert != ca || got.Config != first.Config {
				t.Errorf("the last one says %+v", got)
			}
			if err := act(t, p, vms[killed], cluster.Start); err != nil {
				t.Fatal(err)
			}
			h.await("the killed one has come back", members(slices.Sorted(slices.Values(append(last, killed)))...))
		})
	}
}

// read requests the endpoint with the CA from the control node's heartbeat.
func read(t *testing.T, control cluster.Heartbeat, path string, value any) {
	t.Helper()
	if err := ask(control, path, value); err != nil {
		t.Fatal(err)
	}
}

func ask(control cluster.Heartbeat, path string, value any) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(control.CACert)) {
		return errors.New("no CA")
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	response, err := client.Get(control.Endpoint + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(value)
}
