package wfengine

import (
	"errors"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The faults of this package.
var (
	Interrupted = fault.Declare(fault.Kind{
		Code: "STEP_INTERRUPTED", Class: fault.Blocked,
		Title:  "a step has interrupted its flow",
		Remedy: recoverRemedy,
	})
	ManyRetry = fault.Declare(fault.Kind{
		Code: "MANY_RETRY", Class: fault.Blocked,
		Title:  "a step has failed as often as it may",
		Remedy: recoverRemedy,
	})
	UnknownTask = fault.Declare(fault.Kind{
		Code: "UNKNOWN_TASK", Class: fault.Blocked,
		Title:  "a flow names a type of step that is not registered",
		Remedy: "Register the type that the message names (WfManager.RegisterStep), or correct className in the flow file; start the operator, then set the resource's annotation interrupt.recover to true.",
	})
	Unfinished = fault.Declare(fault.Kind{
		Code: "FLOW_UNFINISHED", Class: fault.Transient, Uncharged: true,
		Title:  "an earlier flow of the resource has not ended",
		Remedy: "Wait until it has ended; if it waits for something, see to that.",
	})
	Busy = fault.Declare(fault.Kind{
		Code: "FLOW_BUSY", Class: fault.Transient, Uncharged: true,
		Title:  "another worker has the flow",
		Remedy: "Nothing to do: it goes on when that worker gives it back, or when its lease has ended.",
	})
)

const recoverRemedy = "Read the reason and the message, fix the cause, then set the resource's annotation interrupt.recover to true."

// detailReason keeps the reason of an InterruptError that cannot be a code.
const detailReason = "reason"

// codeForm is the form of a reason that can be the code of its interruption.
var codeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,99}$`)

// outcomeOf translates the error of a step. If the reason of an interruption is the code of a
// declared fault, its remedy is reported. A problem of the API server is not charged to the step.
func outcomeOf(err error) outcome.Outcome {
	if define.IsWaitingError(err) {
		return outcome.Wait(0, "Waiting", "%s", err.Error())
	}
	if is, stop := define.IsInterruptError(err); is {
		return outcome.Fail(stopped(stop))
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

// stopped returns the fault of an interruption. Its reason is the code, so that the annotation and
// pawl report the same one. It carries title and remedy, because another program may show the run.
func stopped(stop *define.InterruptError) *fault.Error {
	kind, known := fault.Lookup(stop.Reason)
	switch {
	case known && kind.Class != fault.Transient:
	case !codeForm.MatchString(stop.Reason):
		return withTexts(Interrupted.Errorf("%s", stop.ErrorMsg)).With(detailReason, stop.Reason)
	default:
		kind = &fault.Kind{Code: fault.Code(stop.Reason), Class: fault.Blocked, Title: Interrupted.Title, Remedy: Interrupted.Remedy}
	}
	return withTexts(kind.Errorf("%s", stop.ErrorMsg))
}

func withTexts(err *fault.Error) *fault.Error {
	return err.With(runtype.DetailTitle, err.Kind.Title).With(runtype.DetailRemedy, err.Kind.Remedy)
}

// troubleLasts is how long an answer of the own API server explains the error of a step: a client
// repeats requests that got 429 or 503 before it gives up.
const troubleLasts = time.Minute

// troubleOf returns the fault if an error is a problem of the operator's own API server and not of
// the step.
func troubleOf(err error) *fault.Kind {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := int(status.Status().Code)
		switch {
		case apierrors.IsAlreadyExists(err):
			return nil
		case apierrors.IsConflict(err):
			return fault.WriteConflict
		case !k8sutil.IsTrouble(code):
			return nil
		}
		if own, known := k8sutil.Answered(code, troubleLasts); known && !own {
			return nil // another API server answered, on which the step depends
		}
		return fault.APIUnavailable
	}
	if brokenConnection(err) && toAPIServer(err) {
		return fault.APIUnavailable
	}
	return nil
}

// brokenConnection reports a request without an answer: the connection was refused or lost, or it
// timed out.
func brokenConnection(err error) bool {
	var network *net.OpError
	var request *url.Error
	return errors.As(err, &network) ||
		errors.As(err, &request) && (request.Timeout() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// toAPIServer reports whether a request went to the API server of k8sutil. Other dependencies of a
// step (databases, agents, clouds) fail with the same texts, and their failures are charged to the
// step.
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

// hostPort returns the host:port of a URL, with the default port of its scheme.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// interruption returns the InterruptError of a paused run.
func interruption(run *runtype.Run) *define.InterruptError {
	f := run.Fault
	if f == nil {
		return &define.InterruptError{Reason: string(workflow.PausedByPerson.Code), ErrorMsg: "flow " + run.Flow + " is paused"}
	}
	stop := &define.InterruptError{Reason: string(f.Code), ErrorMsg: f.Message}
	if reason, ok := f.Details[detailReason].(string); ok && reason != "" {
		stop.Reason = reason
	}
	if f.Code == ManyRetry.Code {
		stop.ErrorMsg = "flow " + run.Flow + ": step " + f.Step + " has failed too often: " + f.Message
	}
	if stop.ErrorMsg == "" {
		stop.ErrorMsg = "flow " + run.Flow + " is paused"
	}
	return stop
}
