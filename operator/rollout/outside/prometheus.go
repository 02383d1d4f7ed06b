package outside

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action"
)

const longestAnswer = 1 << 20 // bytes

// Measure asks Prometheus once; words are replaced in the query. An answer without samples says why in its message; NoData is none.
func (c *Client) Measure(ctx context.Context, namespace string, m rollout.Metric, words *strings.Replacer) rollout.Answer {
	p := m.Provider.Prometheus
	if p == nil {
		return rollout.Answer{Message: "the metric has no provider"}
	}
	timeout := time.Duration(p.Timeout)
	if timeout <= 0 {
		timeout = rollout.PrometheusTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	query, err := c.query(ctx, namespace, m)
	if err != nil {
		return Failed(err)
	}
	guarded, err := c.prometheus(ctx, namespace, p)
	if err != nil {
		return Failed(err)
	}
	asked, err := promapi.NewClient(promapi.Config{Address: p.Address, Client: guarded})
	if err != nil {
		return Failed(Error(err))
	}
	value, _, _, err := prometheus.NewAPI(asked).Query(ctx, words.Replace(query), time.Time{})
	var (
		said *prometheus.Error
		long *http.MaxBytesError
	)
	switch {
	case errors.As(err, &long):
		return Failed(action.HTTPTooLarge.Errorf("the answer has more than %d bytes", longestAnswer))
	case errors.As(err, &said):
		return rollout.Answer{Message: string(said.Type) + ": " + said.Msg}
	case err != nil:
		return Failed(Error(err))
	}
	return samples(value)
}

// samples are the values of a scalar or a vector.
func samples(value model.Value) rollout.Answer {
	var a rollout.Answer
	switch v := value.(type) {
	case nil: // null, or an object without data
		return rollout.Answer{Message: "the answer has no result"}
	case *model.Scalar:
		a.Samples = []string{v.Value.String()}
	case model.Vector:
		for _, s := range v {
			if s.Histogram != nil {
				return rollout.Answer{Message: "the query gives a histogram, not numbers"}
			}
			a.Samples = append(a.Samples, s.Value.String())
		}
	default:
		return rollout.Answer{Message: "the query gives a " + value.Type().String() + ", not a scalar or a vector"}
	}
	return a
}

func (c *Client) query(ctx context.Context, namespace string, metric rollout.Metric) (string, error) {
	ref := metric.TemplateRef
	if ref == nil {
		return metric.Provider.Prometheus.Query, nil
	}
	m := &corev1.ConfigMap{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, m); err != nil {
		return "", Unreadable("ConfigMap", ref.Name, err)
	}
	query := m.Data[ref.Key]
	if query == "" {
		return "", Unreadable("ConfigMap", ref.Name, errors.New("it has no key "+ref.Key))
	}
	return query, nil
}

// prometheus is a client that reaches what the policy allows, with the credentials of the metric: token, or
// username and password.
func (c *Client) prometheus(ctx context.Context, namespace string, p *rollout.Prometheus) (*http.Client, error) {
	guarded, err := c.HTTP(ctx, namespace, p.TLS)
	if err != nil {
		return nil, err
	}
	with := transport{RoundTripper: guarded.Transport}
	guarded.Transport = &with
	if p.SecretRef == nil {
		return guarded, nil
	}
	data, err := c.secret(ctx, namespace, p.SecretRef.Name)
	if err != nil {
		return nil, err
	}
	switch token, user := strings.TrimSpace(string(data["token"])), strings.TrimSpace(string(data["username"])); {
	case token != "":
		with.authorization = "Bearer " + token
	case user != "":
		with.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+strings.TrimSpace(string(data["password"]))))
	default:
		return nil, Unreadable("Secret", p.SecretRef.Name, errors.New("it has neither token nor username"))
	}
	return guarded, nil
}

// transport adds a header, and ends answers that are too long.
type transport struct {
	http.RoundTripper
	authorization string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.authorization != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", t.authorization)
	}
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, longestAnswer)
	}
	return response, err
}
