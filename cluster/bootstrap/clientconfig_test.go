package bootstrap_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cluster/bootstrap"
)

// The client configuration contains certificate and key, which other tools read.
// Both fit the CA of the cluster, and the same CA always returns the same ones.
func TestFinding19ClientConfigHasCertificateAndKey(t *testing.T) {
	of := func(key crypto.Signer) (*x509.Certificate, string) {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		ca, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"P-256": p256, "ed25519": edwards} {
		ca, caPEM := of(key)
		configs := make([]string, 2)
		for i := range configs {
			certificate, secret, err := bootstrap.ClientCredential(ca, key)
			if err != nil {
				t.Fatal(err)
			}
			c := bootstrap.ClientConfig{Cluster: "6f1c", Endpoint: "https://192.0.2.1:6443", CA: caPEM, Certificate: certificate, Key: secret}
			if configs[i] = c.Encode().Reveal(); strings.Contains(fmt.Sprint(c), secret.Reveal()) || strings.Contains(fmt.Sprint(c.Encode()), "data") {
				t.Errorf("%s: the key prints", name)
			}
		}
		if configs[0] != configs[1] {
			t.Errorf("%s: two configurations of one CA differ", name)
		}
		var c struct {
			Clusters []struct {
				Name    string
				Cluster struct {
					Server string
					CA     string `yaml:"certificate-authority-data"`
				}
			}
			Contexts []struct {
				Name    string
				Context struct{ Cluster, User string }
			}
			Users []struct {
				Name string
				User struct {
					Certificate string `yaml:"client-certificate-data"`
					Key         string `yaml:"client-key-data"`
				}
			}
			Current string `yaml:"current-context"`
		}
		if err := yaml.Unmarshal([]byte(configs[0]), &c); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, configs[0])
		}
		if len(c.Clusters) != 1 || len(c.Users) != 1 || len(c.Contexts) != 1 || c.Contexts[0].Name != c.Current ||
			c.Contexts[0].Context.User != c.Users[0].Name || c.Contexts[0].Context.Cluster != c.Clusters[0].Name || c.Clusters[0].Cluster.Server != "https://192.0.2.1:6443" {
			t.Fatalf("%s: %+v", name, c)
		}
		decode := func(text string) []byte {
			plain, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			return plain
		}
		pair, err := tls.X509KeyPair(decode(c.Users[0].User.Certificate), decode(c.Users[0].User.Key))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(decode(c.Clusters[0].Cluster.CA)) {
			t.Fatalf("%s: no CA", name)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
