package server

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
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
	"github.com/pawl-dev/pawl/workflow"
)

func newEngine(t *testing.T) *workflow.Engine {
	t.Helper()
	engine, err := workflow.New(workflow.NewMemory(), nil, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func TestUnsafeOptionsAreRefused(t *testing.T) {
	engine := newEngine(t)
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   *fault.Kind
	}{
		{"default", func(*Options) {}, nil},
		{"localhost", func(o *Options) { o.Listen = "localhost:0" }, nil},
		{"IPv6 loopback", func(o *Options) { o.Listen = "[::1]:0" }, nil},
		{"all addresses", func(o *Options) { o.Listen = ":7295" }, ListenUnsafe},
		{"all IPv6 addresses", func(o *Options) { o.Listen = "[::]:7295" }, ListenUnsafe},
		{"one address", func(o *Options) { o.Listen = "192.0.2.1:7295" }, ListenUnsafe},
		{"a name", func(o *Options) { o.Listen = "pawl.example.com:7295" }, ListenUnsafe},
		{"with an empty set of tokens", func(o *Options) { o.Listen, o.Tokens = ":7295", &Tokens{} }, ListenUnsafe},
		{"with a token", func(o *Options) { o.Listen, o.Tokens = ":7295", tokens(t, secret) }, nil},
		{"no port", func(o *Options) { o.Listen = "127.0.0.1" }, Malformed},
		{"certificate without key", func(o *Options) { o.CertFile = "x" }, Malformed},
	} {
		o := Options{Engine: engine}
		c.change(&o)
		_, err := New(o)
		if got := fault.Of(err); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	s, err := New(Options{Engine: engine, Listen: "0.0.0.0:0", Reviewer: tokenTable{}})
	if err != nil {
		t.Fatal(err)
	}
	if ln, err := s.Listen(); fault.Of(err) != ListenUnsafe {
		t.Errorf("accounts without any account: %v %v", ln, err)
	}
}

func TestServeEndsGently(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	objects := control.NewMemory()
	s, err := New(Options{Engine: newEngine(t), Objects: objects, Listen: "127.0.0.1:0",
		PlanObject: func(context.Context, control.Object) (json.RawMessage, error) {
			close(entered)
			<-leave
			return json.RawMessage("{}"), nil
		}})
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
	h := &fixture{t: t, url: "http://" + ln.Addr().String(), server: s}
	stream := h.listen("/v1/events", "")
	open := make(chan reply, 1)
	go func() {
		open <- h.do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`)
	}()
	<-entered
	stop()
	for stream.lines.Scan() { // the stream ends at once
	}
	close(leave)
	if got := <-open; got.status != 200 {
		t.Errorf("the open request: %d %s", got.status, got.body)
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
	s, err := New(Options{Engine: newEngine(t), Listen: "127.0.0.1:0", Drain: time.Millisecond,
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
	s, err := New(Options{Engine: newEngine(t), Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, Tokens: tokens(t, secret),
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
	r.Header.Set("Authorization", "Bearer "+secret)
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
	r.Header.Set("Authorization", "Bearer "+secret)
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
	bad, err := New(Options{Engine: newEngine(t), Listen: "127.0.0.1:0", CertFile: cert, KeyFile: cert})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Listen(); fault.Of(err) != Malformed {
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
