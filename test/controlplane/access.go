package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Config returns a configuration with all rights, for one client: a copy. No
// request made with it outlives the plane.
func (p *Plane) Config() *rest.Config { return p.bound(p.config) }

// Client returns a client with all rights.
func (p *Plane) Client() kubernetes.Interface { return p.client }

// Kubeconfig returns the path of a kubeconfig file with all rights.
func (p *Plane) Kubeconfig() string { return p.kubeconfig }

// User returns a configuration for a user with the rights that RBAC gives to that name and
// those groups, and the path of a kubeconfig file for the same.
func (p *Plane) User(name string, groups ...string) (*rest.Config, string, error) {
	user, err := p.env.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: 1000, Burst: 2000})
	if err != nil {
		return nil, "", err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return nil, "", err
	}
	file, err := os.CreateTemp(p.slot.dir, "user-*.kubeconfig")
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	if _, err := file.Write(text); err != nil {
		return nil, "", fmt.Errorf("writing %s: %w", filepath.Base(file.Name()), err)
	}
	return p.bound(user.Config()), file.Name(), nil
}

// bound returns a copy of a configuration whose requests and watches end with the plane: a
// forgotten one would delay the API server's stop.
func (p *Plane) bound(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // warnings about Endpoints would fill the log
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bound{next: next, until: p.ctx} })
	return config
}

type bound struct {
	next  http.RoundTripper
	until context.Context
}

// RoundTrip implements http.RoundTripper.
func (b *bound) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(b.until, cancel)
	release := func() {
		stop()
		cancel()
	}
	resp, err := b.next.RoundTrip(req.WithContext(ctx))
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		release()
		return resp, err
	}
	resp.Body = &boundBody{ReadCloser: resp.Body, release: sync.OnceFunc(release)}
	return resp, nil
}

// WrappedRoundTripper returns the underlying transport for client-go.
func (b *bound) WrappedRoundTripper() http.RoundTripper { return b.next }

type boundBody struct {
	io.ReadCloser
	release func()
}

func (b *boundBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
