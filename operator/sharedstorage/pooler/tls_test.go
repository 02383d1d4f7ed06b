package pooler

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// renew writes a new certificate, which is its own authority.
func renew(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{
		postgres.CertificateFile: public, postgres.TrustFile: public, postgres.KeyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A certificate that comes while pgbouncer takes the one before stays for the next time.
func TestACertificateIsRotatedDuringAReload(t *testing.T) {
	b := &bouncer{dir: t.TempDir(), config: Config{TLSDir: t.TempDir()}, log: slog.New(slog.DiscardHandler)}
	renew(t, b.config.TLSDir)
	zero := b.tlsNow()
	renew(t, b.config.TLSDir)
	first := b.tlsNow() // Configure begins
	renew(t, b.config.TLSDir)
	second := b.tlsNow() // the supervisor looks during its RELOAD
	b.forget(first)      // Configure ends
	if zero == first || first == second {
		t.Fatalf("%+v, %+v, %+v are not three certificates", zero, first, second)
	}
	for _, s := range []tlsSettings{first, b.tlsNow()} {
		for _, file := range []string{s.Certificate, s.Key} {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("what is configured is not there: %v", err)
			}
		}
	}
	if _, err := os.Stat(zero.Certificate); !os.IsNotExist(err) {
		t.Errorf("a former certificate stays: %v", err)
	}
}

// While clients need TLS and the supervisor finds no certificate, pgbouncer lets nobody in but the supervisor, which is not
// ready and says why.
func TestNoCertificateWhereClientsNeedOne(t *testing.T) {
	files, dir, password := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "password")
	renew(t, files)
	for from, to := range map[string]string{
		postgres.CertificateFile: port.AgentCertificateFile, postgres.KeyFile: port.AgentKeyFile, postgres.TrustFile: port.AgentTrustFile,
	} {
		if err := os.Rename(filepath.Join(files, from), filepath.Join(files, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(files, port.ClientsFile), []byte(port.ClientsRequire), 0o600), os.WriteFile(password, []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b := &bouncer{dir: dir, config: Config{TLSDir: files, PasswordFile: password}, tls: transport.Open(transport.FolderOptions{Dir: files}), log: slog.New(slog.DiscardHandler), complete: make(chan struct{})}
	s, err := newSupervisor(b, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	written := func(err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "pgbouncer.ini"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(string(text), line+"\n") {
				t.Errorf("%q is missing in\n%s", line, text)
			}
		}
	}
	written(s.Set(t.Context(), port.PoolerSettings{}, "10.0.0.1:5432"), "auth_type = hba", "auth_hba_file = "+filepath.Join(dir, hbaFile))
	lines, err := os.ReadFile(filepath.Join(dir, hbaFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		if !strings.HasPrefix(line, "host "+adminDatabase+" "+adminUser+" ") {
			t.Errorf("it lets in: %s", line)
		}
	}
	if st := status(t.Context(), s, b); st.Ready || !strings.Contains(st.Message, "spec.tls.require") {
		t.Errorf("%+v", st)
	}
	renew(t, files)
	if *b.configured.Load() == b.tlsNow() {
		t.Error("a certificate has come, and watchTLS would not take it")
	}
	written(s.again(t.Context()), "auth_type = scram-sha-256", "client_tls_sslmode = require")
	if b.refuses() {
		t.Error("it has a certificate, and refuses all clients")
	}
}
