package outside

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

const resolveLimit = 5 * time.Second

// HTTP is a client that reaches what the policy allows, and trusts what t says.
func (c *Client) HTTP(ctx context.Context, namespace string, t *rollout.TLS) (*http.Client, error) {
	trust, err := c.trust(ctx, namespace, t)
	if err != nil {
		return nil, err
	}
	return c.Egress.Client(egress.ClientOptions{TLS: trust}), nil
}

// trust is how the other side of a call is known. Secrets are read in the namespace of the Rollout.
func (c *Client) trust(ctx context.Context, namespace string, t *rollout.TLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return config, nil
	}
	config.ServerName = t.ServerName
	if t.CABundle != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CABundle)) {
			return nil, action.HTTPUntrusted.Errorf("tls.caBundle: there is no certificate in PEM")
		}
	}
	if t.SecretRef == nil {
		return config, nil
	}
	data, err := c.secret(ctx, namespace, t.SecretRef.Name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, action.HTTPUntrusted.Errorf("Secret %s: its %s and %s are no certificate and key", t.SecretRef.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// secret reads the data of a Secret.
func (c *Client) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	s := &corev1.Secret{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		return nil, Unreadable("Secret", name, err)
	}
	return s.Data, nil
}

// Unreadable is a call that is made again: what is missing may be made.
func Unreadable(kind, name string, err error) error {
	return action.HTTPUnavailable.Errorf("%s %s: %s", kind, name, fault.Message(err))
}

// WithoutAPIServer is a policy that also refuses the addresses of the API server.
func WithoutAPIServer(p *egress.Policy, config *rest.Config) *egress.Policy {
	ctx, cancel := context.WithTimeout(context.Background(), resolveLimit)
	defer cancel()
	if p == nil {
		p = &egress.Policy{}
	}
	hosts := []string{os.Getenv("KUBERNETES_SERVICE_HOST")}
	if u, err := url.Parse(config.Host); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	} else if host, _, err := net.SplitHostPort(config.Host); err == nil {
		hosts = append(hosts, host)
	}
	return p.Refusing(ctx, hosts...)
}
