package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/provider/local/internal/disk"
)

// authority is the CA of a control node.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string

	client    string         // PEM of the administrator's certificate
	clientKey cluster.Secret // PEM
}

// newAuthority returns a CA with the client certificate of its administrator.
func newAuthority(cert *x509.Certificate, key *ecdsa.PrivateKey, text string) (a *authority, err error) {
	a = &authority{cert: cert, key: key, pem: text}
	a.client, a.clientKey, err = bootstrap.ClientCredential(cert, key)
	return a, err
}

const caLife = 10 * 365 * 24 * time.Hour

// openAuthority reads the CA of a directory, or creates it. It writes the key first: a
// crash in between creates a new CA, and nobody has seen the old one.
func openAuthority(dir, name string, now time.Time) (*authority, error) {
	text, err := os.ReadFile(filepath.Join(dir, caFile))
	if errors.Is(err, fs.ErrNotExist) {
		return makeAuthority(dir, name, now)
	}
	if err != nil {
		return nil, err
	}
	keyText, err := os.ReadFile(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, keyText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caFile, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: no ECDSA key", caKeyFile)
	}
	return newAuthority(pair.Leaf, key, string(text))
}

func makeAuthority(dir, name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "CA of " + name, Organization: []string{"pawl"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := disk.WriteFile(filepath.Join(dir, caKeyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})); err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := disk.WriteFile(filepath.Join(dir, caFile), text); err != nil {
		return nil, err
	}
	return newAuthority(cert, key, string(text))
}

// keepAuthority writes the CA that the server has sent, the key first, as makeAuthority
// does.
func keepAuthority(dir, cert, key string) error {
	if _, err := tls.X509KeyPair([]byte(cert), []byte(key)); err != nil {
		return fmt.Errorf("the CA from the server: %w", err)
	}
	if err := disk.WriteFile(filepath.Join(dir, caKeyFile), []byte(key)); err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(dir, caFile), []byte(cert))
}

// leaseKey returns the key that signs leases. All control nodes with the same CA have the
// same key, so that each accepts the leases of the others.
func (a *authority) leaseKey() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, der)
	mac.Write([]byte("leases"))
	return mac.Sum(nil), nil
}

// serve returns the TLS configuration for some addresses: a certificate created at each
// boot, with the CA appended, so that clients can check its hash. A client certificate
// must be from this CA.
func (a *authority) serve(now time.Time, addresses ...string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	var ips []net.IP
	for _, address := range addresses {
		ips = append(ips, net.ParseIP(address))
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: addresses[0]}, IPAddresses: ips,
		NotBefore: now.Add(-time.Hour), NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}},
	}, nil
}

// pinned accepts only a control node at host whose CA has the hash.
func pinned(host, caHash string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host,
		InsecureSkipVerify: true, // the machine's roots do not apply: VerifyConnection decides
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the control node shows no certificate")
			}
			roots := x509.NewCertPool()
			for _, c := range s.PeerCertificates {
				sum := sha256.Sum256(c.Raw)
				if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(caHash)) == 1 && c.IsCA {
					roots.AddCert(c)
				}
			}
			if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
				return fmt.Errorf("the CA of the control node is not the pinned one: %w", err)
			}
			return nil
		},
	}
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return big.NewInt(time.Now().UnixNano())
	}
	return n
}
