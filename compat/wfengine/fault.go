package wfengine

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// The faults of this room.
var (
	Interrupted = fault.Declare(fault.Kind{
		Code: "STEP_INTERRUPTED", Class: fault.Blocked,
		Title:  "a step has interrupted its flow",
		Remedy: "Read the reason and the message, mend the cause, then set the resource's annotation interrupt.recover to true.",
	})
	Unfinished = fault.Declare(fault.Kind{
		Code: "FLOW_UNFINISHED", Class: fault.Transient, Free: true,
		Title:  "an earlier flow of the resource has not ended",
		Remedy: "Wait until it has ended; if it waits for something, see to that.",
	})
	Busy = fault.Declare(fault.Kind{
		Code: "FLOW_BUSY", Class: fault.Transient, Free: true,
		Title:  "another worker has the flow",
		Remedy: "Nothing to do: it goes on when that worker gives it back, or when its lease has ended.",
	})
)

// The reasons with which this room interrupts a flow by itself.
const (
	reasonManyRetry = "MANY_RETRY"
	reasonNoStep    = "UNKNOWN_TASK"
)

// detailReason keeps the reason of an InterruptError in a fault.
const detailReason = "reason"

// outcomeOf reads the error of a step. The reason of an interruption may be the
// code of a declared fault: its remedy is shown then. Trouble of the API server
// is charged to no step.
func outcomeOf(err error) outcome.Outcome {
	if define.IsWaitingError(err) {
		return outcome.Wait(0, "Waiting", "%s", err.Error())
	}
	if is, stop := define.IsInterruptError(err); is {
		kind, known := fault.Lookup(stop.Reason)
		if !known || kind.Class == fault.Transient {
			kind = Interrupted
		}
		return outcome.Fail(kind.Errorf("%s", stop.ErrorMsg).With(detailReason, stop.Reason))
	}
	var declared *fault.Error
	if errors.As(err, &declared) {
		return outcome.Fail(err)
	}
	if kind := troubleOf(err); kind != nil {
		return outcome.Fail(kind.Errorf("%w", err))
	}
	return outcome.Fail(err)
}

// troubleOf tells whether an error is one of the operator's own API server, and
// not of the step.
func troubleOf(err error) *fault.Kind {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch code := int(status.Status().Code); {
		case apierrors.IsAlreadyExists(err):
			return nil
		case apierrors.IsConflict(err):
			return fault.WriteConflict
		case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
			return fault.APIUnavailable
		}
		return nil
	}
	if brokenConnection(err) && toAPIServer(err) {
		return fault.APIUnavailable
	}
	return nil
}

// brokenConnection reports a request without an answer: the connection was
// refused or lost, or the time was over.
func brokenConnection(err error) bool {
	var network *net.OpError
	var request *url.Error
	return errors.As(err, &network) ||
		errors.As(err, &request) && (request.Timeout() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// toAPIServer reports whether a request was sent to the API server that k8sutil
// names. A step's other dependencies (databases, agents, clouds) fail in the
// same words, and their failures are the step's.
func toAPIServer(err error) bool {
	_, config, unknown := k8sutil.GetKubeClient()
	if unknown != nil {
		return false
	}
	server, _, unknown := rest.DefaultServerUrlFor(config)
	if unknown != nil {
		return false
	}
	var request *url.Error
	if errors.As(err, &request) {
		to, bad := url.Parse(request.URL)
		return bad == nil && hostPort(to) == hostPort(server)
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Addr != nil && network.Addr.String() == hostPort(server)
}

// hostPort is where a URL's requests go: host:port, with the port of its scheme.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// interruption is a paused run in the words of this room.
func interruption(run *workflow.Run) *define.InterruptError {
	f := run.Fault
	if f == nil {
		return &define.InterruptError{Reason: string(workflow.PausedByPerson.Code), ErrorMsg: "flow " + run.Flow + " is paused"}
	}
	stop := &define.InterruptError{Reason: string(f.Code), ErrorMsg: f.Message}
	if reason, ok := f.Details[detailReason].(string); ok && reason != "" {
		stop.Reason = reason
	}
	if f.Exhausted {
		stop.Reason = reasonManyRetry
		stop.ErrorMsg = "flow " + run.Flow + ": step " + f.Step + " has failed too often: " + string(f.Code) + ": " + f.Message
	}
	if stop.ErrorMsg == "" {
		stop.ErrorMsg = "flow " + run.Flow + " is paused"
	}
	return stop
}
