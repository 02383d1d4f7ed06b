package cluster

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
	"math/big"
)

// ClientUser is the user of a client configuration.
const ClientUser = "admin"

// ClientConfig is how a cluster is reached.
type ClientConfig struct {
	Cluster     string // its name in the configuration
	Endpoint    string // URL
	CA          string // PEM of the endpoint's CA
	Certificate string // PEM of the user
	Key         Secret // PEM
}

// Encode gives the configuration in the form that tools of clusters read: one
// cluster, one user with certificate and key, one context.
func (c ClientConfig) Encode() Secret {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return Secret(fmt.Sprintf(`apiVersion: v1
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
`, c.Cluster, c.Endpoint, encode(c.CA), ClientUser, encode(c.Certificate), encode(c.Key.Reveal())))
}

// ClientCredential makes certificate and key of a cluster's administrator, both
// PEM. They follow from the CA and its key alone: every control node that holds
// the CA gives the same configuration, and so does each of its boots.
func ClientCredential(ca *x509.Certificate, caKey crypto.Signer) (certificate string, key Secret, err error) {
	secret, err := x509.MarshalPKCS8PrivateKey(caKey)
	if err != nil {
		return "", "", err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("client " + ClientUser))
	own := ed25519.NewKeyFromSeed(mac.Sum(nil))
	serial := sha256.Sum256(own.Public().(ed25519.PublicKey))
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:15]), Subject: pkix.Name{CommonName: ClientUser, Organization: []string{"system:masters"}},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, template, ca, own.Public(), caKey) // without randomness: the signature follows from what is signed
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return "", "", err
	}
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return certificate, Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), nil
}
