package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
)

func testControl(t *testing.T, dir string) *control {
	t.Helper()
	h, err := newControl(dir, Config{Name: "c1", Times: Times{}.filled()}, bootstrap.Data{Cluster: "blue", Token: "token"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	h.self = func() Member {
		return Member{Name: "c1", Identity: "id-c1", Role: cluster.Control, Version: "1.0.0", Ready: true}
	}
	return h
}

// A node may join with its lease, with the current token, or with the token derived from
// its credential, and with nothing else.
func TestControlAdmits(t *testing.T) {
	h := testControl(t, t.TempDir())
	w1 := Member{Name: "w1", Identity: "id1"}
	credentialHash := hashOf("credential of w1")
	for _, c := range []struct {
		name   string
		answer *cluster.HeartbeatAnswer // the server's answer before the join
		who    Member
		token  string
		want   bool
	}{
		{"the token of the user data, before the first answer of the server", nil, w1, "token", true},
		{"another token", nil, w1, "guess", false},
		{"no token", nil, w1, "", false},
		{"the hash of the token", nil, w1, hashOf("token"), false},
		{"its lease", nil, w1, h.lease("w1", "id1"), true},
		{"the lease of another identity", nil, w1, h.lease("w1", "id2"), false},
		{"the lease of another name", nil, Member{Name: "w2", Identity: "id1"}, h.lease("w1", "id1"), false},
		{"the same token, confirmed", &cluster.HeartbeatAnswer{JoinToken: hashOf("token")}, w1, "token", true},
		{"the old token of a new run", &cluster.HeartbeatAnswer{JoinToken: hashOf("second")}, w1, "token", false},
		{"the token of the new run", nil, w1, "second", true},
		{"a revoked token", &cluster.HeartbeatAnswer{Members: map[string]string{"w1": credentialHash}}, w1, "second", false},
		{"no token after it was revoked", nil, w1, "", false},
		{"the token derived from the credential", nil, w1, credentialHash, true},
		{"the same from another node", nil, Member{Name: "w2", Identity: "id2"}, credentialHash, false},
		{"the credential itself", nil, w1, "credential of w1", false},
		{"a token while it drains", &cluster.HeartbeatAnswer{Drain: true, JoinToken: hashOf("token")}, w1, "token", false},
		{"a lease while it drains", nil, w1, h.lease("w1", "id1"), true},
	} {
		if c.answer != nil {
			h.handleAnswer(*c.answer)
		}
		if got, _ := h.admits(c.who, c.token); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// A restarted control node has the same CA and accepts the same leases.
func TestControlKeepsItsKeys(t *testing.T) {
	dir := t.TempDir()
	first, second := testControl(t, dir), testControl(t, dir)
	if first.ca.pem != second.ca.pem || first.lease("w", "i") != second.lease("w", "i") {
		t.Error("the second start has other keys")
	}
	other := testControl(t, t.TempDir())
	if first.ca.pem == other.ca.pem || first.lease("w", "i") == other.lease("w", "i") {
		t.Error("two control nodes share keys")
	}
	for _, name := range []string{caFile, caKeyFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// endpoint serves a control node over TLS, as a node does.
func endpoint(t *testing.T, h *control) *httptest.Server {
	t.Helper()
	config, err := h.ca.serve(time.Now(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h.handler())
	s.Listener = tls.NewListener(s.Listener, config)
	s.Start()
	s.URL = strings.Replace(s.URL, "http:", "https:", 1)
	t.Cleanup(s.Close)
	return s
}

func TestEndpoint(t *testing.T) {
	h := testControl(t, t.TempDir())
	changes := 0
	h.wake = func() { changes++ }
	s := endpoint(t, h)
	to, err := controlCaller(s.URL, bootstrap.CAHash(h.ca.pem))
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	ctx := t.Context()

	w1 := Member{Name: "w1", Identity: "id1", Role: cluster.Worker, Version: "1.1.0"}
	a, err := to.join(ctx, "token", w1)
	if err != nil || a.Renew != 10*time.Second || a.Silence != 30*time.Second {
		t.Fatalf("join: %+v, %v", a, err)
	}
	if _, err := to.join(ctx, a.Lease, w1); err != nil {
		t.Errorf("renew: %v", err)
	}
	get := func(path string) string {
		var out bytes.Buffer
		response, err := to.client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := out.ReadFrom(response.Body); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	if got := get("/version"); got != `{"cluster":"blue","node":"c1","version":"1.0.0"}` {
		t.Error(got)
	}
	var list struct{ Nodes []Member }
	if err := json.Unmarshal([]byte(get("/nodes")), &list); err != nil || names(list.Nodes) != "c1 w1" {
		t.Fatalf("nodes: %+v, %v", list, err)
	}
	if m := list.Nodes[1]; !m.Ready || m.Since.IsZero() || m.Role != cluster.Worker || m.Version != "1.1.0" {
		t.Errorf("w1: %+v", m)
	}
	if strings.Contains(get("/nodes"), a.Lease) {
		t.Error("the list shows a lease")
	}

	for what, err := range map[string]error{
		"leave with the token":    to.leave(ctx, "token", w1),
		"leave of another's node": to.leave(ctx, a.Lease, Member{Name: "c1", Identity: "id-c1"}),
		"join without a name":     call(ctx, to, a.Lease, Member{Identity: "id1"}),
		"join with a wrong token": call(ctx, to, "guess", w1),
	} {
		if err == nil {
			t.Errorf("%s succeeded", what)
		}
	}
	if err := to.leave(ctx, a.Lease, w1); err != nil || names(h.list()) != "c1" {
		t.Errorf("leave: %v, list %s", err, names(h.list()))
	}
	if err := to.leave(ctx, a.Lease, w1); err != nil {
		t.Errorf("to leave twice is no error: %v", err)
	}
	if changes != 3 {
		t.Errorf("%d changes were reported, want 3: join, a wrong token, leave", changes)
	}
	h.handleAnswer(cluster.HeartbeatAnswer{Removed: []string{"w1"}})
	if _, err := to.join(ctx, a.Lease, w1); err == nil {
		t.Error("a removed node joined")
	}
}

// An unknown token may belong to a run that the control node does not know yet: it sends a
// heartbeat at once, but at most once per second.
func TestAnUnknownTokenTriggersAHeartbeat(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	h := testControl(t, t.TempDir())
	h.now = func() time.Time { return now }
	asks := 0
	h.wake = func() { asks++ }
	s := httptest.NewServer(h.handler())
	defer s.Close()
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			now = now.Add(minWakeInterval)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/join", strings.NewReader(`{"name":"w9","identity":"id9"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer of a new run")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized || asks != want {
			t.Errorf("try %d: %d, %d heartbeats, want %d", i+1, response.StatusCode, asks, want)
		}
	}
	h.handleAnswer(cluster.HeartbeatAnswer{Drain: true})
	now = now.Add(time.Minute)
	if h.onUnknownToken(); asks != 2 {
		t.Error("it asks while it drains")
	}
}

func call(ctx context.Context, to *caller, token string, m Member) error {
	_, err := to.join(ctx, token, m)
	return err
}

// A worker talks to a control node only if its CA is the pinned one and its
// certificate is for its address.
func TestPinning(t *testing.T) {
	h, other := testControl(t, t.TempDir()), testControl(t, t.TempDir())
	pin := bootstrap.CAHash(h.ca.pem)
	leaf := func(h *control, address string) *tls.Config {
		c, err := h.ca.serve(time.Now(), address)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	right := leaf(h, "127.0.0.1")
	onlyLeaf := leaf(h, "127.0.0.1")
	onlyLeaf.Certificates[0].Certificate = onlyLeaf.Certificates[0].Certificate[:1]
	borrowed := leaf(other, "127.0.0.1") // shows our CA with another certificate
	borrowed.Certificates[0].Certificate[1] = h.ca.cert.Raw
	past := *h.ca.cert
	past.NotAfter = time.Now().Add(-time.Minute)
	expired, err := (&authority{cert: &past, key: h.ca.key}).serve(time.Now(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		server *tls.Config
		pin    string
		ok     bool
	}{
		"the pinned CA":                    {right, pin, true},
		"another CA":                       {leaf(other, "127.0.0.1"), pin, false},
		"another pin":                      {right, bootstrap.CAHash(other.ca.pem), false},
		"no pin":                           {right, "", false},
		"a certificate of another address": {leaf(h, "127.0.0.2"), pin, false},
		"no CA is shown":                   {onlyLeaf, pin, false},
		"a CA that signed nothing here":    {borrowed, pin, false},
		"an expired certificate":           {expired, pin, false},
	} {
		listener, err := tls.Listen("tcp", "127.0.0.1:0", c.server)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if conn, err := listener.Accept(); err == nil {
				_ = conn.(*tls.Conn).HandshakeContext(t.Context()) // the client's error is the answer
				conn.Close()
			}
		}()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		err = tls.Client(conn, pinned("127.0.0.1", c.pin)).HandshakeContext(t.Context())
		conn.Close()
		<-done
		listener.Close()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := controlCaller("http://127.0.0.1:1", pin); err == nil {
		t.Error("a control node without TLS was accepted")
	}
}

// The config is a valid kubeconfig.
func TestConfig(t *testing.T) {
	h := testControl(t, t.TempDir())
	var c struct {
		Kind     string
		Clusters []struct {
			Name    string
			Cluster struct {
				Server string
				Data   string `yaml:"certificate-authority-data"`
			}
		}
		CurrentContext string `yaml:"current-context"`
	}
	if err := yaml.Unmarshal([]byte(h.config("https://127.64.0.2:6443")), &c); err != nil {
		t.Fatal(err)
	}
	if c.Kind != "Config" || c.CurrentContext != "blue" || len(c.Clusters) != 1 || c.Clusters[0].Cluster.Server != "https://127.64.0.2:6443" || c.Clusters[0].Cluster.Data == "" {
		t.Errorf("%+v", c)
	}
}

// The config of a control node has a user whose client certificate its endpoint accepts;
// it refuses one of another CA.
func TestFinding19EndpointTakesItsClientCertificate(t *testing.T) {
	h := testControl(t, t.TempDir())
	s := endpoint(t, h)
	ask := func(of *control) error {
		var c struct {
			Clusters []struct {
				Cluster struct {
					CA string `yaml:"certificate-authority-data"`
				}
			}
			Users []struct {
				User struct {
					Certificate string `yaml:"client-certificate-data"`
					Key         string `yaml:"client-key-data"`
				}
			}
		}
		plain := func(text string) []byte {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		if err := yaml.Unmarshal([]byte(of.config(s.URL)), &c); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(plain(c.Users[0].User.Certificate), plain(c.Users[0].User.Key))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(h.ca.pem))
		always := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, GetClientCertificate: always}}}
		response, err := client.Get(s.URL + "/version")
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	if err := ask(h); err != nil {
		t.Errorf("its own: %v", err)
	}
	if err := ask(testControl(t, t.TempDir())); err == nil {
		t.Error("the endpoint takes the certificate of another cluster")
	}
	if a, b := h.config(s.URL), h.config(s.URL); a != b {
		t.Error("the configuration changes by itself")
	}
}
