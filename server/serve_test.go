package server_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func newEngine(t *testing.T) *workflow.Engine {
	t.Helper()
	engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func TestUnsafeOptionsAreRefused(t *testing.T) {
	engine := newEngine(t)
	for _, c := range []struct {
		name   string
		change func(*server.Options)
		want   *fault.Kind
	}{
		{"default", func(*server.Options) {}, nil},
		{"localhost", func(o *server.Options) { o.Listen = "localhost:0" }, nil},
		{"IPv6 loopback", func(o *server.Options) { o.Listen = "[::1]:0" }, nil},
		{"all addresses", func(o *server.Options) { o.Listen = ":7295" }, route.ListenUnsafe},
		{"all IPv6 addresses", func(o *server.Options) { o.Listen = "[::]:7295" }, route.ListenUnsafe},
		{"one address", func(o *server.Options) { o.Listen = "192.0.2.1:7295" }, route.ListenUnsafe},
		{"a name", func(o *server.Options) { o.Listen = "pawl.example.com:7295" }, route.ListenUnsafe},
		{"with an empty set of tokens", func(o *server.Options) { o.Listen, o.Tokens = ":7295", &auth.Tokens{} }, route.ListenUnsafe},
		{"with a token", func(o *server.Options) { o.Listen, o.Tokens = ":7295", servertest.Tokens(t, servertest.Secret) }, nil},
		{"no port", func(o *server.Options) { o.Listen = "127.0.0.1" }, fault.ListenFailed},
		{"certificate without key", func(o *server.Options) { o.CertFile = "x" }, route.Malformed},
	} {
		o := server.Options{Engine: engine}
		c.change(&o)
		_, err := server.New(o)
		if got := fault.Of(err); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	s, err := server.New(server.Options{Engine: engine, Listen: "0.0.0.0:0", Reviewer: servertest.TokenTable{}})
	if err != nil {
		t.Fatal(err)
	}
	if ln, err := s.Listen(); fault.Of(err) != route.ListenUnsafe {
		t.Errorf("accounts without any account: %v %v", ln, err)
	}
}

func TestServeEndsGently(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	objects := control.NewMemory()
	s, err := server.New(server.Options{Engine: newEngine(t), Objects: objects, Listen: "127.0.0.1:0",
		Kinds: servertest.Planning(func(context.Context, control.Object) (machine.Plan, error) {
			close(entered)
			<-leave
			return machine.Plan{}, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Apply(t.Context(), control.Object{Ref: control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}}); err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	h := &servertest.Fixture{T: t, URL: "http://" + ln.Addr().String()}
	stream := h.Listen("/v1/events", "")
	open := make(chan servertest.Reply, 1)
	go func() {
		open <- h.Do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`)
	}()
	<-entered
	stop()
	for stream.Lines.Scan() { // the stream ends at once
	}
	close(leave)
	if got := <-open; got.Status != 200 {
		t.Errorf("the open request: %d %s", got.Status, got.Body)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener is still open")
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestServeGivesUpOnStuckRequests(t *testing.T) {
	entered := make(chan struct{})
	s, err := server.New(server.Options{Engine: newEngine(t), Listen: "127.0.0.1:0", Drain: time.Millisecond,
		Metrics: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(entered); <-r.Context().Done() })})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	go func() {
		if response, err := http.Get("http://" + ln.Addr().String() + "/metrics"); err == nil {
			response.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	<-entered
	stop()
	if err := <-served; err == nil || !strings.Contains(err.Error(), "still open") {
		t.Errorf("Serve: %v", err)
	}
}

func TestTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	s, err := server.New(server.Options{Engine: newEngine(t), Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, Tokens: servertest.Tokens(t, servertest.Secret),
		SlowReader: 30 * time.Millisecond, Heartbeat: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	r, _ := http.NewRequest("GET", "https://"+ln.Addr().String()+"/v1/me", nil)
	r.Header.Set("Authorization", "Bearer "+servertest.Secret)
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if response.StatusCode != 200 || response.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	// An idle HTTP/2 stream lives longer than SlowReader.
	r, _ = http.NewRequest("GET", "https://"+ln.Addr().String()+"/v1/events", nil)
	r.Header.Set("Authorization", "Bearer "+servertest.Secret)
	if response, err = client.Do(r); err != nil {
		t.Fatal(err)
	}
	if response.ProtoMajor != 2 {
		t.Errorf("the stream is of HTTP/%d", response.ProtoMajor)
	}
	comments := 0
	for lines := bufio.NewScanner(response.Body); comments < 3; {
		if !lines.Scan() {
			t.Fatalf("the stream broke after %d comments: %v", comments, lines.Err())
		}
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
	}
	response.Body.Close()
	client.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	bad, err := server.New(server.Options{Engine: newEngine(t), Listen: "127.0.0.1:0", CertFile: cert, KeyFile: cert})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Listen(); fault.Of(err) != route.Malformed {
		t.Errorf("a certificate for a key: %v", err)
	}
}

func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pawl"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, pool
}

func TestAddressInUseNamesItsRemedy(t *testing.T) {
	h := servertest.New(t, nil)
	taken := strings.TrimPrefix(h.URL, "http://")
	second, err := server.New(server.Options{Engine: h.Engine, Listen: taken})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Listen(); fault.Of(err) != fault.ListenFailed || !strings.Contains(err.Error(), taken) {
		t.Errorf("got %v, want LISTEN_FAILED that names %s", err, taken)
	}
}
