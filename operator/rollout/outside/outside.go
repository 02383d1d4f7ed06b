// Package outside asks what a rollout asks beyond the API server: pods, Prometheus, and the client of
// webhooks. One call is one attempt; when it is made again is the operator's concern.
package outside

import (
	"crypto/tls"
	"errors"
	"net/url"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

// KeyHeader has the key that is the same for every attempt of one question.
const KeyHeader = "Idempotency-Key"

// Client makes calls.
type Client struct {
	// Live reads Secrets and ConfigMaps.
	Live client.Reader
	// Egress decides which addresses may be reached.
	Egress *egress.Policy
	// Config is that of the API server, which runs commands in pods.
	Config *rest.Config
}

// Pod is where a pod is asked.
type Pod struct {
	Namespace, Name, UID, IP, Container string
	Ready                               bool
}

// Failed is the answer to a call that got none.
func Failed(err error) rollout.Answer {
	return rollout.Answer{Code: fault.Of(err).Code, Message: fault.Message(err)}
}

// Error is why there is no response, as a fault of the http action.
func Error(err error) error {
	var (
		known     *fault.Error
		untrusted *tls.CertificateVerificationError
		sent      *url.Error
	)
	if errors.As(err, &known) {
		return known
	}
	if errors.As(err, &sent) {
		err = sent.Err
	}
	if errors.As(err, &untrusted) {
		return action.HTTPUntrusted.Errorf("%w", err)
	}
	return action.HTTPUnavailable.Errorf("%w", err)
}
