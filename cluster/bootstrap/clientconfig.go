package bootstrap

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"github.com/pawl-dev/pawl/cluster"
	"math/big"
)

// clientUser is the name of the user in a client configuration.
const clientUser = "admin"

// ClientConfig is what a client needs to reach a cluster.
type ClientConfig struct {
	Cluster     string         // its name in the configuration
	Endpoint    string         // URL
	CA          string         // PEM of the endpoint's CA
	Certificate string         // PEM of the user
	Key         cluster.Secret // PEM
}

// Encode returns the configuration as a kubeconfig: one cluster, one user with
// certificate and key, one context.
func (c ClientConfig) Encode() cluster.Secret {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return cluster.Secret(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: %[1]q
  cluster:
    server: %[2]q
    certificate-authority-data: %[3]s
contexts:
- name: %[1]q
  context:
    cluster: %[1]q
    user: %[4]q
current-context: %[1]q
users:
- name: %[4]q
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
`, c.Cluster, c.Endpoint, encode(c.CA), clientUser, encode(c.Certificate), encode(c.Key.Reveal())))
}

// ClientCredential creates the certificate and the key of the administrator of a
// cluster, both PEM. They depend only on the CA and its key: every control node
// that holds the CA returns the same configuration, also after a reboot.
func ClientCredential(ca *x509.Certificate, caKey crypto.Signer) (certificate string, key cluster.Secret, err error) {
	secret, err := x509.MarshalPKCS8PrivateKey(caKey)
	if err != nil {
		return "", "", err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("client " + clientUser))
	own := ed25519.NewKeyFromSeed(mac.Sum(nil))
	serial := sha256.Sum256(own.Public().(ed25519.PublicKey))
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:15]), Subject: pkix.Name{CommonName: clientUser, Organization: []string{"system:masters"}},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, template, ca, own.Public(), caKey) // without randomness the signature depends only on the content and the key
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return "", "", err
	}
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return certificate, cluster.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), nil
}
