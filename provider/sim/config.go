package sim

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"github.com/pawl-dev/pawl/cluster/bootstrap"
)

// configKey identifies a CA and configuration; the seed is the same for all.
type configKey struct {
	cluster, endpoint string
	year              int
}

type configText struct{ ca, config string }

// configs are the configurations that control nodes have reported.
type configs struct {
	seed  uint64
	known map[configKey]configText
}

// maxConfigs limits the configurations in memory. Control nodes report theirs in each
// heartbeat.
const maxConfigs = 1000

// of returns the CA and configuration of a cluster: the same for the same seed,
// cluster and endpoint.
func (c *configs) of(uuid, endpoint string, now time.Time) (ca, config string) {
	key := configKey{uuid, endpoint, now.Year()}
	text, known := c.known[key]
	if !known {
		if c.known == nil || len(c.known) >= maxConfigs {
			c.known = map[configKey]configText{}
		}
		text.ca, text.config = c.build(uuid, endpoint, now)
		c.known[key] = text
	}
	return text.ca, text.config
}

func (c *configs) build(uuid, endpoint string, now time.Time) (ca, config string) {
	seed := sha256.Sum256(fmt.Appendf(nil, "%d/%s", c.seed, uuid))
	key := ed25519.NewKeyFromSeed(seed[:])
	from := time.Date(now.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(seed[:8]), Subject: pkix.Name{CommonName: uuid}, NotBefore: from, NotAfter: from.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		panic(err) // ed25519 needs no randomness, and the template is always the same
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	client, clientKey, err := bootstrap.ClientCredential(cert, key)
	if err != nil {
		panic(err)
	}
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return ca, bootstrap.ClientConfig{Cluster: uuid, Endpoint: endpoint, CA: ca, Certificate: client, Key: clientKey}.Encode().Reveal()
}
