package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs the certificates by which nodes and an API server know each other.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	text []byte
}

// NewAuthority returns an authority with a new key.
func NewAuthority() (*Authority, error) {
	a := &Authority{}
	template := certificate("kubelets")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	text, key, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	a.text, a.key = text, key
	a.cert, err = x509.ParseCertificate(block.Bytes)
	return a, err
}

func certificate(name string) *x509.Certificate {
	number, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// sign signs a certificate with a new key; the first one with its own.
func (a *Authority) sign(template *x509.Certificate) (cert []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), key, err
}

// Flags writes the certificate of an API server into a folder, and returns the flags with
// which the API server reaches the nodes.
func (a *Authority) Flags(dir string) (map[string]string, error) {
	template := certificate("kube-apiserver-kubelet-client")
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	cert, key, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	return map[string]string{
			"kubelet-client-certificate":      path("kubelet-client.crt"),
			"kubelet-client-key":              path("kubelet-client.key"),
			"kubelet-certificate-authority":   path("kubelet-ca.crt"),
			"kubelet-preferred-address-types": "InternalIP", // no name of a node can be resolved
		}, errors.Join(
			os.WriteFile(path("kubelet-client.crt"), cert, 0o600),
			os.WriteFile(path("kubelet-client.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600),
			os.WriteFile(path("kubelet-ca.crt"), a.text, 0o600),
		)
}

// server returns the configuration of a node, which takes only clients of this authority.
func (a *Authority) server(address string) (*tls.Config, error) {
	template := certificate("node")
	template.ExtKeyUsage, template.IPAddresses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []net.IP{net.ParseIP(address)}
	cert, key, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(cert)
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS12,
	}, nil
}
