package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
)

// errRefused is the answer to an invalid token.
var errRefused = errors.New("the token is refused")

// caller is a node's client of the server or of a control node.
type caller struct {
	base   string
	client *http.Client
}

func newCaller(base string, config *tls.Config) *caller {
	return &caller{base: strings.TrimRight(base, "/"), client: &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: config, MaxIdleConns: 2, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token must not go to another host
	}}
}

// homeCaller returns the client of the server. It pins the CA if there is one.
func homeCaller(b bootstrap.Data) (*caller, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if b.HomeCA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(b.HomeCA)) {
			return nil, errors.New("homeCA holds no certificate")
		}
	}
	return newCaller(b.Home, config), nil
}

// controlCaller returns the client of a control node, whose CA must have the hash.
func controlCaller(control, caHash string) (*caller, error) {
	u, err := url.Parse(control)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("control node %s: only https", control)
	}
	return newCaller(control, pinned(u.Hostname(), caHash)), nil
}

func (c *caller) close() { c.client.CloseIdleConnections() }

// heartbeat sends a heartbeat to the server.
func (c *caller) heartbeat(ctx context.Context, token string, h cluster.Heartbeat) (a cluster.HeartbeatAnswer, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/nodes/heartbeat", token, h, &a)
	return a, err
}

// join joins a control node or renews the membership; leave ends it.
func (c *caller) join(ctx context.Context, token string, m Member) (a joinAnswer, err error) {
	err = c.call(ctx, http.MethodPost, "/join", token, m, &a)
	return a, err
}

func (c *caller) leave(ctx context.Context, token string, m Member) error {
	return c.call(ctx, http.MethodDelete, "/join", token, m, nil)
}

func (c *caller) call(ctx context.Context, method, path, token string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: %s answers %s", errRefused, c.base, response.Status)
	case response.StatusCode/100 != 2:
		return fmt.Errorf("%s answers %s", c.base, response.Status)
	case err != nil:
		return err
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s returns invalid JSON: %w", c.base, err)
	}
	return nil
}
