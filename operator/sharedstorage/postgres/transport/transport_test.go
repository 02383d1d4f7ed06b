package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var (
	here   = port.Ref{Namespace: "default", Name: "blue"}
	writer = port.InstanceIdentity(here.Of("blue-1"))
	reader = port.InstanceIdentity(here.Of("blue-2"))
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority signs certificates of servers.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var der []byte
	der, a.key = a.sign(a.cert)
	a.pem = text("CERTIFICATE", der)
	return a
}

func (a *authority) sign(c *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// files returns the files of a server of this common name, without an identity.
func (a *authority) files(name string) map[string]string {
	a.t.Helper()
	return a.issue(name, func(*x509.Certificate) {})
}

// of returns the files of a server with an identity.
func (a *authority) of(who port.Identity) map[string]string {
	a.t.Helper()
	return a.issue("named", func(c *x509.Certificate) { c.URIs = []*url.URL{who.URL()} })
}

func (a *authority) issue(name string, change func(*x509.Certificate)) map[string]string {
	a.t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	change(c)
	der, key := a.sign(c)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return map[string]string{port.AgentCertificateFile: text("CERTIFICATE", der), port.AgentKeyFile: text("PRIVATE KEY", secret), port.AgentTrustFile: a.pem}
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var past = map[string]string{port.RequiredFromFile: time.Now().Add(-time.Minute).Format(time.RFC3339)}

// listen serves a folder. What a caller says comes back, with the name in the server's certificate.
func listen(t *testing.T, f *Folder) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, over(r)) })
	mux.Handle("/v1/say", Guard(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, over(r)+" "+string(said))
	})))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: nil}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(NewListener(l, f)) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

func over(r *http.Request) string {
	if r.TLS == nil {
		return "plain"
	}
	return "tls"
}

func caller(t *testing.T, trust Trust) *http.Client {
	c := &http.Client{Transport: New(trust, writer)}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func say(c *http.Client, address string) (string, error) {
	answer, err := c.Post("http://"+address+"/v1/say", "text/plain", strings.NewReader("hello"))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	return string(said), err
}

// Who speaks how to whom, before and after TLS is required.
func TestTransport(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	now, later := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		server   map[string]string // more files than none
		required bool              // by the server
		trust    Authorities
		want     string // what the server answers; empty: nothing reaches it
		fault    error
	}{
		"both know":                            {own.files("a"), false, Authorities{PEM: own.pem}, "tls hello", nil},
		"both know and require":                {own.files("a"), true, Authorities{PEM: own.pem, From: now}, "tls hello", nil},
		"the client does not know yet":         {own.files("a"), false, Authorities{}, "plain hello", nil},
		"the server requires, a plain client":  {own.files("a"), true, Authorities{}, `{"code":"TLS_REQUIRED","message":"this port takes calls over TLS only"}` + "\n", nil},
		"the server has no certificate yet":    {nil, false, Authorities{PEM: own.pem, From: later}, "plain hello", nil},
		"a server without one, required":       {nil, false, Authorities{PEM: own.pem, From: now}, "", Required},
		"required, and nothing to verify with": {own.files("a"), false, Authorities{From: now}, "", Required},
		"another authority":                    {other.files("a"), false, Authorities{PEM: own.pem, From: later}, "", nil},
		"another authority, required":          {other.files("a"), true, Authorities{PEM: own.pem, From: now}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, c.server)
			if c.required {
				put(t, dir, past)
			}
			address := listen(t, Open(FolderOptions{Dir: dir}))
			client := caller(t, c.trust)
			said, err := say(client, address)
			if said != c.want || (err == nil) != (c.want != "") || c.fault != nil && !errors.Is(err, c.fault) {
				t.Errorf("%q, %v", said, err)
			}
			if err != nil && c.fault == nil {
				var untrusted *tls.CertificateVerificationError
				var dial *net.OpError
				if !errors.As(err, &untrusted) || !errors.As(err, &dial) || dial.Op != "dial" {
					t.Errorf("%v", err)
				}
			}
			answer, err := http.Get("http://" + address + "/healthz") // as a probe does
			if err != nil {
				t.Fatal(err)
			}
			said2, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			http.DefaultClient.CloseIdleConnections()
			if answer.StatusCode != http.StatusOK || string(said2) != "plain" {
				t.Errorf("a probe gets %d %q", answer.StatusCode, said2)
			}
		})
	}
}

// A server of an earlier version, which knows nothing of TLS, is called plain until TLS is required.
func TestAnEarlierServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, over(r)) })}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { _ = s.Close(); <-done }()
	own := newAuthority(t)
	if said, err := say(caller(t, Authorities{PEM: own.pem, From: time.Now().Add(time.Hour)}), l.Addr().String()); err != nil || said != "plain" {
		t.Errorf("%q, %v", said, err)
	}
	if said, err := say(caller(t, Authorities{PEM: own.pem, From: time.Now()}), l.Addr().String()); !errors.Is(err, Required) {
		t.Errorf("%q, %v", said, err)
	}
}

// due lets a folder look at its files again at once: rereadInterval is over.
func due(f *Folder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readAt = f.readAt.Add(-rereadInterval)
}

// A certificate comes, and is replaced by one of another authority, while server and clients run. Files that do not
// fit together change nothing. What is required once stays.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := Open(FolderOptions{Dir: dir})
	address := listen(t, f)
	client := caller(t, f)
	becomes := func(name, want string) {
		t.Helper()
		due(f)
		client.CloseIdleConnections()
		said, err := say(client, address)
		served := ""
		if pair := f.Certificate(); pair != nil {
			served = pair.Leaf.Subject.CommonName
		}
		if err != nil || said != want || served != name {
			t.Fatalf("%q with the certificate %q, %v", said, served, err)
		}
	}
	becomes("", "plain hello")
	first, second := newAuthority(t), newAuthority(t)
	put(t, dir, first.files("first"))
	becomes("first", "tls hello")

	next := second.files("second")
	put(t, dir, map[string]string{port.AgentCertificateFile: next[port.AgentCertificateFile]}) // the key is missing
	becomes("first", "tls hello")
	next[port.AgentTrustFile] = second.pem + first.pem
	put(t, dir, next)
	put(t, dir, past)
	becomes("second", "tls hello")
	if !f.Required() {
		t.Error("TLS is not required")
	}
	third := second.files("third")
	third[port.RequiredFromFile] = "soon" // no time
	put(t, dir, third)
	becomes("second", "tls hello")
	if !f.Required() {
		t.Error("TLS is not required, because nobody can read since when")
	}
	if err := os.Remove(filepath.Join(dir, port.RequiredFromFile)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, map[string]string{port.ClientsFile: port.ClientsRequire})
	due(f)
	if !f.ClientsRequired() {
		t.Error("clients are not required to use TLS")
	}
	if !f.Required() {
		t.Error("TLS is not required any more")
	}
}

// A connection that says nothing, and one that stops within its handshake, hold up no other one, and end with the server.
func TestASlowClient(t *testing.T) {
	t.Parallel()
	own := newAuthority(t)
	dir := t.TempDir()
	put(t, dir, own.files("a"))
	address := listen(t, Open(FolderOptions{Dir: dir}))
	for _, first := range []string{"", "\x16\x03"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
	}
	client := caller(t, Authorities{PEM: own.pem})
	client.Timeout = 3 * time.Second
	if said, err := say(client, address); err != nil || said != "tls hello" {
		t.Errorf("%q, %v", said, err)
	}
}

// Once identities are verified, a server answers a caller only if the caller means it, and before that every server of the
// cluster does. A certificate that is not for a server, has ended or is of another authority never passes.
func TestTheServerIsTheOneThatIsMeant(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	named := func(who port.Identity, change func(*x509.Certificate)) map[string]string {
		return own.issue("named", func(c *x509.Certificate) { c.URIs = []*url.URL{who.URL()}; change(c) })
	}
	elsewhere := port.Ref{Namespace: "default", Name: "red", Instance: "blue-1"}
	for name, c := range map[string]struct {
		server map[string]string
		before bool   // it passes before identities are verified
		after  bool   // and then
		told   string // by the error
	}{
		"the right one":               {own.of(writer), true, true, ""},
		"another instance":            {own.of(reader), true, false, "pawl://default/blue/instance/blue-1 was called, and pawl://default/blue/instance/blue-2 answers there"},
		"the cluster manager":         {own.of(port.ManagerIdentity(here)), true, false, "and pawl://default/blue/manager answers there"},
		"a pooler":                    {own.of(port.PoolerIdentity(here)), true, false, "and pawl://default/blue/pooler answers there"},
		"an engine, by Service names": {own.issue("blue-rw", func(c *x509.Certificate) { c.DNSNames = []string{"blue-rw", "blue-1"} }), true, false, "and somebody without an identity answers there"},
		"a common name is no name":    {own.files(writer.String()), true, false, "and somebody without an identity answers there"},
		"the one of another cluster":  {own.of(port.InstanceIdentity(elsewhere)), true, false, "and pawl://default/red/instance/blue-1 answers there"},
		"a client's": {named(writer, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), false, false,
			"incompatible key usage"},
		"expired": {named(writer, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
		}), false, false, "expired"},
		"another authority": {other.of(writer), false, false, "unknown authority"},
	} {
		for _, verified := range []bool{false, true} {
			dir := t.TempDir()
			put(t, dir, c.server)
			trust := Authorities{PEM: own.pem, From: time.Now().Add(-time.Second)}
			passes := c.before
			if verified {
				trust.NamedFrom, passes = trust.From, c.after
			}
			said, err := say(caller(t, trust), listen(t, Open(FolderOptions{Dir: dir})))
			if (said == "tls hello") != passes || (err == nil) != passes {
				t.Errorf("%s, identities verified %t: %q, %v", name, verified, said, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.told) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A process takes the certificate with its own identity, and until there is one that of all.
func TestTheCertificateOfAProcess(t *testing.T) {
	t.Parallel()
	own, dir := newAuthority(t), t.TempDir()
	f := Open(FolderOptions{Dir: dir, Own: writer})
	put(t, dir, own.files("all"))
	if is := f.Identity(); f.Certificate() == nil || is != "" {
		t.Errorf("%q before it has one", is)
	}
	for _, who := range []port.Identity{reader, writer} {
		certificate, key := who.Files()
		files := own.of(who)
		put(t, dir, map[string]string{certificate: files[port.AgentCertificateFile], key: files[port.AgentKeyFile]})
	}
	due(f)
	if is := f.Identity(); is != writer.String() {
		t.Errorf("it is %q", is)
	}
}

// A process that starts when somebody has deleted its files refuses calls without TLS if it required TLS before, until the
// files say otherwise.
func TestWhatIsRequiredOutlivesTheFiles(t *testing.T) {
	t.Parallel()
	own, dir := newAuthority(t), t.TempDir()
	o := FolderOptions{Dir: filepath.Join(dir, "tls"), Memory: filepath.Join(dir, "required-from")}
	again := func() *Folder { return Open(o) }
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if again().Required() {
		t.Error("required by nobody")
	}
	put(t, o.Dir, own.files("a"))
	put(t, o.Dir, past)
	if !again().Required() {
		t.Error("not required")
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	f := again()
	address := listen(t, f)
	if said, err := say(caller(t, Authorities{}), address); err != nil || !strings.Contains(said, "TLS_REQUIRED") {
		t.Errorf("without its files it says %q, %v", said, err)
	}
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, o.Dir, own.files("a"))
	put(t, o.Dir, map[string]string{port.RequiredFromFile: port.PlainAllowed})
	due(f)
	if said, err := say(caller(t, Authorities{}), address); err != nil || said != "plain hello" {
		t.Errorf("it was allowed, and says %q, %v", said, err)
	}
	if again().Required() {
		t.Error("it was allowed, and is forgotten after a restart")
	}
}

// A connection to a server without the right identity that is open when identities become verified carries no token any
// more.
func TestAnOpenConnectionToAnother(t *testing.T) {
	t.Parallel()
	own, dir := newAuthority(t), t.TempDir()
	put(t, dir, own.of(reader))
	address := listen(t, Open(FolderOptions{Dir: dir}))
	trust := &switched{Authorities: Authorities{PEM: own.pem}}
	client := caller(t, trust)
	if said, err := say(client, address); err != nil || said != "tls hello" {
		t.Fatalf("%q, %v", said, err)
	}
	trust.NamedFrom = time.Now().Add(-time.Second)
	if said, err := say(client, address); err == nil {
		t.Errorf("it got the token and says %q", said)
	}
}

// switched is a Trust whose requirement comes while connections are open.
type switched struct {
	Authorities
	required bool
}

func (s *switched) Required() bool { return s.required }

// A plain connection that is open when TLS becomes required carries no token any more.
func TestAnOpenConnection(t *testing.T) {
	t.Parallel()
	own := newAuthority(t)
	dir := t.TempDir()
	f := Open(FolderOptions{Dir: dir})
	address := listen(t, f)
	trust := &switched{}
	client := caller(t, trust)
	if said, err := say(client, address); err != nil || said != "plain hello" {
		t.Fatalf("%q, %v", said, err)
	}
	put(t, dir, own.files("a"))
	due(f)
	trust.PEM, trust.required = own.pem, true
	if said, err := say(client, address); err != nil || said != "tls hello" {
		t.Errorf("%q, %v", said, err)
	}
}

// Clusters share no connections.
func TestClients(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	put(t, dir, own.files("a"))
	address := listen(t, Open(FolderOptions{Dir: dir}))
	var c Clients
	a, b := c.For(Authorities{PEM: own.pem}, writer), c.For(Authorities{PEM: other.pem}, writer)
	defer a.CloseIdleConnections()
	if a == c.For(Authorities{PEM: own.pem}, reader) {
		t.Error("the clients of two servers are one")
	}
	if a == b || a != c.For(Authorities{PEM: own.pem}, writer) {
		t.Error("the clients of two clusters are one, or those of one are two")
	}
	if said, err := say(a, address); err != nil || said != "tls hello" {
		t.Errorf("%q, %v", said, err)
	}
	if said, err := say(b, address); err == nil {
		t.Errorf("%q from a server of another cluster", said)
	}
}

// short is a listener of a process that has too many open files at first.
type short struct {
	net.Listener
	failed atomic.Bool
}

func (s *short) Accept() (net.Conn, error) {
	if s.failed.CompareAndSwap(false, true) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept", syscall.EMFILE)}
	}
	return s.Listener.Accept()
}

// A process that could not accept a connection accepts the next ones.
func TestTooManyOpenFiles(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(NewListener(&short{Listener: l}, Open(FolderOptions{Dir: t.TempDir()}))) }()
	once := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatalf("after one EMFILE: %v", err)
	}
	answer.Body.Close()
	s.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// A server that goes away during a handshake is away: nothing is said of whether it speaks TLS.
func TestAServerThatEnds(t *testing.T) {
	a := newAuthority(t)
	for name, end := range map[string]func(net.Conn){
		"it closes": func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); c.Close() },
		"it resets": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		},
		"it hangs": func(c net.Conn) { t.Cleanup(func() { c.Close() }) },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					end(c)
				}
			}()
			_, err = say(caller(t, Authorities{PEM: a.pem, From: time.Now().Add(-time.Minute)}), l.Addr().String())
			if err == nil || errors.Is(err, Required) {
				t.Errorf("it is told as %v", err)
			}
		})
	}
}
