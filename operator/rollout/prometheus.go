package rollout

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action"
)

const longestAnswer = 1 << 20 // bytes

// words replaces the names of a query. Nothing else of it is a template.
func words(r *api.Rollout, at rollout.Position, batch int) *strings.Replacer {
	return strings.NewReplacer("{{rollout}}", r.Name, "{{namespace}}", r.Namespace, "{{workload}}", workloadName(r),
		"{{revision}}", at.TargetRevision, "{{batch}}", strconv.Itoa(batch))
}

// measure asks Prometheus once. An answer without samples says why in its message; NoData is none.
func (o *Operator) measure(ctx context.Context, q question) rollout.Answer {
	p := q.Metric.Provider.Prometheus
	if p == nil {
		return rollout.Answer{Message: "the metric has no provider"}
	}
	timeout := time.Duration(p.Timeout)
	if timeout <= 0 {
		timeout = rollout.PrometheusTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	query, err := o.query(ctx, q)
	if err != nil {
		return failed(err)
	}
	guarded, err := o.prometheusClient(ctx, q.rollout.Namespace, p)
	if err != nil {
		return failed(err)
	}
	asked, err := promapi.NewClient(promapi.Config{Address: p.Address, Client: guarded})
	if err != nil {
		return failed(callError(err))
	}
	value, _, _, err := prometheus.NewAPI(asked).Query(ctx, q.words.Replace(query), time.Time{})
	var (
		said *prometheus.Error
		long *http.MaxBytesError
	)
	switch {
	case errors.As(err, &long):
		return failed(action.HTTPTooLarge.Errorf("the answer has more than %d bytes", longestAnswer))
	case errors.As(err, &said):
		return rollout.Answer{Message: string(said.Type) + ": " + said.Msg}
	case err != nil:
		return failed(callError(err))
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

func (o *Operator) query(ctx context.Context, q question) (string, error) {
	ref := q.Metric.TemplateRef
	if ref == nil {
		return q.Metric.Provider.Prometheus.Query, nil
	}
	m := &corev1.ConfigMap{}
	if err := o.live.Get(ctx, client.ObjectKey{Namespace: q.rollout.Namespace, Name: ref.Name}, m); err != nil {
		return "", unreadable("ConfigMap", ref.Name, err)
	}
	query := m.Data[ref.Key]
	if query == "" {
		return "", unreadable("ConfigMap", ref.Name, errors.New("it has no key "+ref.Key))
	}
	return query, nil
}

// prometheusClient reaches what the policy allows, with the credentials of the metric: token, or
// username and password.
func (o *Operator) prometheusClient(ctx context.Context, namespace string, p *rollout.Prometheus) (*http.Client, error) {
	guarded, err := o.client(ctx, namespace, p.TLS)
	if err != nil {
		return nil, err
	}
	with := transport{RoundTripper: guarded.Transport}
	guarded.Transport = &with
	if p.SecretRef == nil {
		return guarded, nil
	}
	data, err := o.secret(ctx, namespace, p.SecretRef.Name)
	if err != nil {
		return nil, err
	}
	switch token, user := strings.TrimSpace(string(data["token"])), strings.TrimSpace(string(data["username"])); {
	case token != "":
		with.authorization = "Bearer " + token
	case user != "":
		with.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+strings.TrimSpace(string(data["password"]))))
	default:
		return nil, unreadable("Secret", p.SecretRef.Name, errors.New("it has neither token nor username"))
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
