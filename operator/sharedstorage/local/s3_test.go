package local

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// certificate makes a certificate for 127.0.0.1 that signs itself, and writes it with its key.
func certificate(t *testing.T, dir string) (cert, key, text string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}
	signed, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, text := range map[string]string{cert: text, key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, text
}

// objectStore runs rclone as an object store over TLS, with a bucket.
func objectStore(t *testing.T) (*port.S3, string) {
	t.Helper()
	program, err := filepath.Abs("../../../bin/rclone")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("bin/rclone is missing: make s3")
	}
	dir := t.TempDir()
	cert, key, ca := certificate(t, dir)
	files := filepath.Join(dir, "files")
	if err := os.MkdirAll(filepath.Join(files, "backups"), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // its port is free for the server
	var said bytes.Buffer
	cmd := exec.Command(program, "serve", "s3", "--addr", address, "--cert", cert, "--key", key, "--auth-key", "key-id,secret-key", "--vfs-cache-mode", "off", files)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"HOME=" + dir}, &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no state that the test needs
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	eventually(t, 20*time.Second, "the object store", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return &port.S3{Bucket: "backups", Endpoint: strings.Replace(address, "127.0.0.1", "localhost", 1), Region: "us-east-1", KeyID: "key-id", Secret: "secret-key", CA: ca, PathStyle: true}, files
}

// A cluster archives to an object store over TLS, encrypted, and is restored from it; a wrong secret
// is told.
func TestObjectStore(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b, to := withBackups(t)
	var files string
	to.S3, files = objectStore(t)
	to.Folder = "/clusters/c1"
	b.create("w", "r1")
	wrong := to
	s3 := *to.S3
	s3.Secret = "another"
	wrong.S3 = &s3
	b.must(b.archiver().Archive(b.ctx(), c1.Of("w"), &wrong))
	st := b.untilWithin(3*time.Minute, "w", "may not archive", func(s port.Status) bool { return s.Archive.Repository == wrong.Hash() && s.Archive.Code != "" })
	if st.Archive.Code != "BACKUP_REPOSITORY_FAILED" || strings.Contains(st.Archive.Message, "another") || !strings.Contains(st.Archive.Message, "403") {
		t.Errorf("%+v", st.Archive)
	}
	b.archive(to, "w", "r1")
	b.exec("w", "CREATE TABLE rows (n text); INSERT INTO rows VALUES ('secret row 1')")
	b.backup("first", port.FullBackup)
	b.exec("w", "INSERT INTO rows VALUES ('secret row 2')")
	b.flush()
	if got, err := b.restored("from-s3", port.Restore{Repository: to}); err != nil || got != "secret row 1,secret row 2" {
		t.Errorf("%q: %v", got, err)
	}
	stored := 0
	err := filepath.WalkDir(files, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		stored++
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("backrest")) || bytes.Contains(text, []byte("secret row")) {
			t.Errorf("%s is not encrypted", path)
		}
		return err
	})
	if err != nil || stored < 10 {
		t.Errorf("%d objects are stored: %v", stored, err)
	}
}
