package program_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb/sim/program"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// sidecarPod is a pod of the split image, with its sidecar as a process.
type sidecarPod struct {
	t           *testing.T
	root, bound string
	client      *http.Client
	scheme      string
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

const template = "[fdbserver.1]\ncommand = $BINARY_DIR/fdbserver\npublic_address = $FDB_PUBLIC_IP:4501\nlocality_zoneid = $FDB_ZONE_ID\nlocality_instance_id = $FDB_INSTANCE_ID\nid = $ID\n"

func newSidecar(t *testing.T, v string, args ...string) *sidecarPod {
	t.Helper()
	s := serve(t, world.Options{Virtual: true}, "sample:first@127.0.0.1:4501")
	p := &sidecarPod{t: t, root: t.TempDir(), bound: freePort(t), client: http.DefaultClient, scheme: "http"}
	write(t, p.root+"/var/input-files/fdbmonitor.conf", template)
	write(t, p.root+"/var/input-files/fdb.cluster", s.first.String()+"\n")
	if err := os.MkdirAll(p.root+"/var/output-files", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(image(t, v), "sidecar"), append([]string{
		"--bind-address", p.bound, "--input-monitor-conf", "fdbmonitor.conf", "--copy-file", "fdb.cluster", "--copy-binary", "fdbserver",
		"--require-not-empty", "fdb.cluster", "--main-container-version", "7.1.67", "--substitute-variable", "FDB_DNS_NAME",
	}, args...)...)
	cmd.Env = s.environ("CONTAINER_ROOT="+p.root, "FDB_PUBLIC_IP=127.0.0.1", "FDB_POD_IP=127.0.0.1", "FDB_INSTANCE_ID=storage-1", "FDB_MACHINE_ID=node-1", "FDB_DNS_NAME=storage-1.sample")
	r := s.start(cmd)
	eventually(t, "the sidecar listens", func() bool { return strings.Contains(r.log.String(), "Listening on") || r.ended() })
	return p
}

func (p *sidecarPod) ask(method, path string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.scheme+"://"+p.bound+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// want asks and compares the answer; of an error its code alone.
func (p *sidecarPod) want(method, path string, code int, text string) {
	p.t.Helper()
	got, body := p.ask(method, path)
	if got != code || text != "" && body != text {
		p.t.Errorf("%s %s: %d %q", method, path, got, body)
	}
}

func TestSidecar(t *testing.T) {
	t.Parallel()
	p := newSidecar(t, "7.3.69")
	conf := "[fdbserver.1]\ncommand = /var/dynamic-conf/bin/7.3.69/fdbserver\npublic_address = 127.0.0.1:4501\nlocality_zoneid = node-1\nlocality_instance_id = storage-1\nid = $ID\n"
	if got := read(t, p.root+"/var/output-files/fdbmonitor.conf"); got != conf {
		t.Errorf("the configuration is\n%s", got)
	}
	sum := sha256.Sum256([]byte(conf))
	p.want("GET", "/ready", 200, "OK\n")
	p.want("GET", "/check_hash/fdbmonitor.conf", 200, hex.EncodeToString(sum[:]))
	p.want("GET", "/check_hash/nothing", 404, "")
	p.want("GET", "/is_present/bin/7.3.69/fdbserver", 200, "OK\n")
	p.want("GET", "/is_present/bin/7.4.6/fdbserver", 404, "")
	p.want("GET", "/substitutions", 200, `{"FDB_PUBLIC_IP": "127.0.0.1", "FDB_MACHINE_ID": "node-1", "FDB_ZONE_ID": "node-1", "FDB_INSTANCE_ID": "storage-1", `+
		`"FDB_POD_IP": "127.0.0.1", "BINARY_DIR": "/var/dynamic-conf/bin/7.3.69", "FDB_DNS_NAME": "storage-1.sample"}`+"\n")
	p.want("GET", "/nothing", 404, "")
	p.want("POST", "/nothing", 404, "")
	p.want("POST", "/refresh_certs", 400, "")
	p.want("POST", "/restart", 200, "OK\n")
	write(t, p.root+"/var/input-files/fdb.cluster", "sample:second@127.0.0.1:4501\n")
	p.want("POST", "/copy_files", 200, "OK\n")
	if got := read(t, p.root+"/var/output-files/fdb.cluster"); !strings.HasPrefix(got, "sample:second@") {
		t.Error(got)
	}
	write(t, p.root+"/var/input-files/fdbmonitor.conf", "zone $FDB_ZONE_ID")
	p.want("POST", "/copy_monitor_conf", 200, "OK\n")
	if got := read(t, p.root+"/var/output-files/fdbmonitor.conf"); got != "zone node-1" {
		t.Error(got)
	}
	write(t, p.root+"/var/input-files/fdb.cluster", "")
	p.want("POST", "/copy_files", 500, "")
}

// TestSidecarNewer: what 7.4 answers differently.
func TestSidecarNewer(t *testing.T) {
	t.Parallel()
	p := newSidecar(t, "7.4.6")
	write(t, p.root+"/var/secret", "x")
	p.want("GET", "/check_hash/%2e%2e/secret", 403, "")
	write(t, p.root+"/var/input-files/fdb.cluster", "")
	p.want("POST", "/copy_files", 400, "")
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key, a.pem = a.make("authority", true, nil)
	return a
}

func (a *authority) make(name string, ca bool, dns []string) (*x509.Certificate, *ecdsa.PrivateKey, string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"Pawl"}}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: dns,
	}
	parent, signer := form, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// pair returns a certificate and its key as PEM.
func (a *authority) pair(name string, dns ...string) (certificate, key string) {
	_, private, certificate := a.make(name, false, dns)
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func TestSidecarTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	folder := t.TempDir()
	certificate, key := a.pair("sidecar")
	write(t, folder+"/tls.crt", certificate)
	write(t, folder+"/tls.key", key)
	write(t, folder+"/ca.crt", a.pem)
	for _, test := range []struct {
		rules, client string
		code          int
	}{
		{"", "operator", 200}, {"", "none", 401}, {"S.CN=operator", "operator", 200}, {"S.CN=other", "operator", 401}, {"CN=other;I.CN=authority,S.O=Pawl", "operator", 200},
		{"S.subjectAltName=DNS:operator.pawl", "operator", 200}, {"S.subjectAltName<=DNS:.pawl", "operator", 200}, {"S.subjectAltName>=DNS:pawl", "operator", 401},
		{"R.CN=authority", "operator", 401}, {"X.CN=a", "operator", 500}, {"S.XX=a", "operator", 500},
	} {
		link := t.TempDir()
		for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
			if err := os.Symlink(folder+"/"+name, link+"/"+name); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"--tls", "--tls-certificate-file", link + "/tls.crt", "--tls-key-file", link + "/tls.key", "--tls-ca-file", link + "/ca.crt"}
		if test.rules != "" {
			args = append(args, "--tls-verify-peers", test.rules)
		}
		p := newSidecarIn(t, link, args...)
		p.scheme = "https"
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(a.pem))
		config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		if test.client != "none" {
			pair, err := tls.X509KeyPair(pems(a.pair(test.client, "operator.pawl")))
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: config}
		p.client = &http.Client{Transport: transport}
		p.want("GET", "/substitutions", test.code, "")
		p.want("GET", "/ready", 200, "OK\n")
		transport.CloseIdleConnections()
	}
}

func pems(certificate, key string) (c, k []byte) { return []byte(certificate), []byte(key) }

// newSidecarIn runs a sidecar in this process, whose TLS files are outside of its root.
func newSidecarIn(t *testing.T, folder string, args ...string) *sidecarPod {
	t.Helper()
	p := &sidecarPod{t: t, bound: freePort(t), client: http.DefaultClient, scheme: "http"}
	write(t, folder+"/version", "7.3.69\n")
	write(t, folder+"/out/x", "")
	var log buffer
	signals, done := make(chan os.Signal, 1), make(chan int, 1)
	process := &program.Process{
		Args: append([]string{"sidecar", "--bind-address", p.bound, "--main-container-version", "7.3.69", "--output-dir", folder + "/out"}, args...), Stdout: &log, Stderr: &log,
		Version: version("7.3.69"), Folder: folder, Signals: signals,
	}
	go func() { done <- program.Main(t.Context(), process) }()
	eventually(t, "the sidecar listens", func() bool { return strings.Contains(log.String(), "Listening on") })
	t.Cleanup(func() {
		signals <- os.Interrupt
		if exit := <-done; exit != 0 {
			t.Errorf("the sidecar ends with %d\n%s", exit, log.String())
		}
	})
	return p
}

// TestSidecarInit: it copies once and ends; what it is not given it refuses.
func TestSidecarInit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root+"/var/input-files/a", "1")
	if err := os.MkdirAll(root+"/var/output-files", 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(env []string, args ...string) (int, string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(image(t, "7.3.69"), "sidecar"), append([]string{"--init-mode"}, args...)...)
		cmd.Env = append([]string{"CONTAINER_ROOT=" + root, "FDB_POD_IP=10.0.0.1,fd00::1"}, env...)
		out, _ := cmd.CombinedOutput() // the exit code is compared
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if exit, out := run(nil, "--copy-file", "a", "--copy-library", "7.3", "--public-ip-family", "6", "--main-container-version", "7.3.69", "--copy-binary", "fdbcli"); exit != 0 {
		t.Error(exit, out)
	}
	for name, there := range map[string]bool{"a": true, "lib/libfdb_c.so": true, "bin/7.3.69/fdbcli": false} {
		if _, err := os.Stat(root + "/var/output-files/" + name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, test := range []struct {
		env  []string
		args []string
		exit int
		text string
	}{
		{nil, []string{"--copy-file", "nothing"}, 1, "no such file"},
		{nil, []string{"--require-not-empty", "nothing"}, 1, "No contents for file"},
		{[]string{"COPY_ONCE=1"}, nil, 1, "Environment variable COPY_ONCE is not supported"},
		{nil, []string{"--tls"}, 1, "certificate file"},
		{nil, []string{"--no-such"}, 2, "not defined"},
		{[]string{"FDB_POD_IP=10.0.0.1"}, []string{"--public-ip-family", "6"}, 1, "failed to find IPv6 entry"},
		{nil, []string{"--substitute-variable", "NO_SUCH", "--input-monitor-conf", "a"}, 1, "NO_SUCH is not set"},
	} {
		if exit, out := run(test.env, test.args...); exit != test.exit || !strings.Contains(out, test.text) {
			t.Errorf("%v %v: exit %d: %s", test.env, test.args, exit, out)
		}
	}
}
