package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The files of Config.TLSDir, as the operator writes them. CertificateFile and KeyFile are those of a Secret of
// type kubernetes.io/tls; TrustFile has the authorities of the instances, the former one among them while it changes.
const (
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
	TrustFile       = "trust.crt"
)

// certificate is the certificate with which an engine serves. The engine reads copies of the files of
// Config.TLSDir: those are not its user's, and a kubelet replaces them while the engine may read them.
type certificate struct {
	srv *server

	mu     sync.Mutex
	readAt time.Time
	hash   string // of the files in use; empty: none
}

// current returns a hash of the certificate in use; empty: there is none. Files that are missing or do not fit
// together are not taken: the engine keeps what it has.
func (c *certificate) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.readAt.IsZero() && now.Sub(c.readAt) < rereadInterval {
		return c.hash
	}
	if c.readAt.IsZero() {
		if files, err := ReadCertificate(c.srv.path(confName), CertificateFile, KeyFile); err == nil { // of an earlier agent
			c.hash = short(strings.Join(files[:], ""))
		}
	}
	c.readAt = now
	if c.srv.cfg.TLSDir == "" {
		return c.hash
	}
	files, err := ReadCertificate(c.srv.cfg.TLSDir, CertificateFile, KeyFile)
	if err != nil {
		return c.hash
	}
	next := short(strings.Join(files[:], ""))
	if next == c.hash {
		return c.hash
	}
	for n, name := range []string{CertificateFile, KeyFile, TrustFile} {
		if err := c.srv.write(c.srv.path(confName, name), files[n]); err != nil {
			c.srv.log.Warn("storing the certificate", "err", err)
			return c.hash
		}
	}
	c.hash = next
	return c.hash
}

// trust returns the file with the authorities by which other instances are verified; empty: they are not yet, because one
// of them may have no certificate.
func (c *certificate) trust() string {
	if c.current() == "" || !c.srv.tls.Required() {
		return ""
	}
	return c.srv.path(confName, TrustFile)
}

// hba returns pg_hba.conf. Without a certificate nobody could log in with TLS, so nobody must.
func (c *certificate) hba() string { return hba(c.current() != "" && c.srv.tls.ClientsRequired()) }

// ReadCertificate reads the files of a certificate and its key, and TrustFile, from a folder, if they fit together.
func ReadCertificate(dir, certificate, key string) (files [3]string, err error) {
	for n, name := range []string{certificate, key, TrustFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return files, err
		}
		files[n] = string(text)
	}
	if _, err := tls.X509KeyPair([]byte(files[0]), []byte(files[1])); err != nil {
		return files, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(files[2])) {
		return files, fmt.Errorf("%s has no certificate", TrustFile)
	}
	return files, nil
}
