package kube

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// CertificateMissing says that the operator cannot talk to sidecars by TLS.
var CertificateMissing = fault.Declare(fault.Kind{
	Code: "FDB_CERTIFICATE_MISSING", Class: fault.Blocked,
	Title:  "the operator has no certificate for the sidecars of FoundationDB pods",
	Remedy: "Set foundationdb.tlsSecret of the chart, or FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE and FDB_TLS_CA_FILE in the operator's environment, to files in PEM that belong together, and FDB_TLS_VERIFY_PEERS, if it is set, to rules as FoundationDB reads them.",
	Guide:  "foundationdb.md#tls-and-names",
})

// TLSFiles are the files for TLS, as FoundationDB's own programs have them.
type TLSFiles struct {
	Certificate, Key, CA string // PEM
	// VerifyPeers are rules for the certificates of others, in the form of FDB_TLS_VERIFY_PEERS. Empty: those that the
	// authority has signed are accepted.
	VerifyPeers string
}

// TLSFromEnvironment returns the files that FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE, FDB_TLS_CA_FILE and
// FDB_TLS_VERIFY_PEERS name.
func TLSFromEnvironment() TLSFiles {
	return TLSFiles{
		Certificate: os.Getenv("FDB_TLS_CERTIFICATE_FILE"), Key: os.Getenv("FDB_TLS_KEY_FILE"), CA: os.Getenv("FDB_TLS_CA_FILE"),
		VerifyPeers: os.Getenv("FDB_TLS_VERIFY_PEERS"),
	}
}

// credentials are what the files have held last. They are read again when a file has changed.
type credentials struct {
	files TLSFiles

	mu     sync.Mutex
	read   [3]stamp
	config *tls.Config // nil: they were never read
}

// stamp tells versions of a file apart.
type stamp struct {
	modified time.Time
	size     int64
}

// current returns the configuration of connections. While changed files do not belong together, as in the moment of
// their replacement, the one before stays in use.
func (c *credentials) current() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files.Certificate == "" || c.files.Key == "" || c.files.CA == "" {
		return nil, CertificateMissing.Errorf("a pod's sidecar uses TLS, and FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE or FDB_TLS_CA_FILE is not set")
	}
	var stamps [3]stamp
	for i, file := range []string{c.files.Certificate, c.files.Key, c.files.CA} {
		if info, err := os.Stat(file); err == nil {
			stamps[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	if c.config != nil && stamps == c.read {
		return c.config, nil
	}
	fresh, err := c.files.load()
	switch {
	case err == nil:
		c.config, c.read = fresh, stamps
	case c.config == nil:
		return nil, CertificateMissing.Errorf("%w", err)
	}
	return c.config, nil
}

func (f TLSFiles) load() (*tls.Config, error) {
	rules, err := parsePeerRules(f.VerifyPeers)
	if err != nil {
		return nil, fmt.Errorf("FDB_TLS_VERIFY_PEERS: %w", err)
	}
	own, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", f.CA)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		// The name of the host is not compared: certificates of pods do not have their addresses.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it
		VerifyConnection:   func(state tls.ConnectionState) error { return rules.verify(roots, state.PeerCertificates) },
	}, nil
}

// verify checks that an authority has signed the certificate of a peer, and that the rules accept it.
func (rules peerRules) verify(roots *x509.CertPool, peer []*x509.Certificate) error {
	switch {
	case rules.unchecked():
		return nil
	case len(peer) == 0:
		return errors.New("the sidecar has no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range peer[1:] {
		between.AddCert(cert)
	}
	chains, err := peer[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return err
	}
	for _, chain := range chains {
		if rules.accept(chain) {
			return nil
		}
	}
	return fmt.Errorf("no rule of FDB_TLS_VERIFY_PEERS accepts the certificate of %s", cmp.Or(peer[0].Subject.String(), "a sidecar without a name"))
}
