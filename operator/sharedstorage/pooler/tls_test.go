package pooler

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
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
