package controller

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// The faults of a Kubernetes API server.
var (
	Forbidden = fault.Declare(fault.Kind{
		Code: "API_FORBIDDEN", Class: fault.Blocked,
		Title:  "the API server denies a request",
		Remedy: "Read the message: grant the operator's role the verb it names, raise the quota, or wait for the namespace to be gone.",
	})
	Refused = fault.Declare(fault.Kind{
		Code: "API_REFUSED", Class: fault.Invalid,
		Title:  "the API server refuses a request as invalid",
		Remedy: "Mend the field that the message names; if you have not set it, report a defect of the operator.",
	})
	KindMissing = fault.Declare(fault.Kind{
		Code: "KIND_MISSING", Class: fault.Blocked,
		Title:  "the API server does not know a kind",
		Remedy: "Install the CustomResourceDefinitions that came with this version of Pawl (`kubectl apply -f deploy/crds`).",
	})
)

// Fault converts an error of an API call to a declared fault:
//
//	409 conflict, failed precondition            fault.WriteConflict
//	404                                          control.NotFound
//	409 exists already                           control.Exists
//	408, 410, 429, 5xx, time-outs, no connection fault.APIUnavailable
//	401, 403                                     Forbidden
//	other 4xx                                    Refused
//	a kind without a CRD                         KindMissing
//
// The fault wraps the error, so apierrors.IsNotFound and the like still work. Errors that
// are faults already, the end of the caller's context, and errors that do not come from an
// API call are returned unchanged.
func Fault(err error) error {
	var declared *fault.Error
	if err == nil || errors.As(err, &declared) || errors.Is(err, context.Canceled) {
		return err
	}
	kind := kindOf(err)
	if kind == nil {
		return err
	}
	return kind.Errorf("%w", err)
}

func kindOf(err error) *fault.Kind {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return kindOfStatus(err, int(status.Status().Code))
	}
	var discovery *apiutil.ErrResourceDiscoveryFailed
	var network net.Error
	var request *url.Error
	switch {
	case meta.IsNoMatchError(err):
		return KindMissing
	case errors.As(err, &discovery), errors.As(err, &network), errors.As(err, &request),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.APIUnavailable
	}
	return nil
}

func kindOfStatus(err error, code int) *fault.Kind {
	switch {
	case apierrors.IsAlreadyExists(err):
		return control.Exists
	case apierrors.IsConflict(err), code == http.StatusConflict, code == http.StatusPreconditionFailed:
		return fault.WriteConflict
	case apierrors.IsNotFound(err):
		if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			return KindMissing // the server does not know the path
		}
		return control.NotFound
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return Forbidden
	case code == http.StatusRequestTimeout, code == http.StatusGone, code == http.StatusTooManyRequests, code >= 500, code == 0:
		return fault.APIUnavailable
	}
	return Refused
}

// faultOf converts the error of a pass to a fault if it comes from an API call that did
// not use the manager's client.
func faultOf(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) || meta.IsNoMatchError(err) {
		return Fault(err)
	}
	return err
}

// isNotFound reports whether an error says that an object does not exist.
func isNotFound(err error) bool { return fault.Of(Fault(err)) == control.NotFound }
