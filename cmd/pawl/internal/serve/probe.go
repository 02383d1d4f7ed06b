package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

const probeWithin = 5 * time.Second

// probe asks the endpoint of a cluster whether it answers: its simulated cloud
// if it has one, else the endpoint itself.
func (p *parts) probe(ctx context.Context, c *cluster.Cluster, d *cluster.Details) error {
	if cloud, ok := p.clusters.sims[c.Provider]; ok {
		return cloud.Probe(ctx, c.Endpoint)
	}
	caPEM := ""
	if d != nil {
		caPEM = d.CACert
	}
	return probeVersion(ctx, c.Endpoint, caPEM)
}

// probeVersion asks endpoint/version. The certificate must be of the cluster's
// own CA; without one, of a CA that this system trusts. Every answer below 500
// counts: a server that refuses access is up.
func probeVersion(ctx context.Context, endpoint, caPEM string) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caPEM != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(caPEM)) {
			return errors.New("what is recorded as the cluster's CA is no certificate")
		}
	}
	url, ok := strings.CutPrefix(endpoint, "https://")
	if !ok {
		return fmt.Errorf("%s: an endpoint is asked over https only", endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+strings.TrimSuffix(url, "/")+"/version", nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, // no proxy: nodes use none either
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // the body does not matter
	if answer.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%s answers %s", request.URL, answer.Status)
	}
	return nil
}
