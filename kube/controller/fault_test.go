package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// Errors of the API server are faults with a remedy, and failures of the control plane are
// not charged (promise 12).
func TestErrorsOfTheAPIServerAreFaults(t *testing.T) {
	demos := schema.GroupResource{Group: "pawl.dev", Resource: "demos"}
	plain := errors.New("no call of the API")
	odd := func(code int) error { return apierrors.NewGenericServerResponse(code, "get", demos, "a", "", 0, true) }
	for name, c := range map[string]struct {
		err  error
		want *fault.Kind
	}{
		"conflict":                  {apierrors.NewConflict(demos, "a", errors.New("changed")), fault.WriteConflict},
		"wrapped conflict":          {fmt.Errorf("status: %w", apierrors.NewConflict(demos, "a", errors.New("changed"))), fault.WriteConflict},
		"exists":                    {apierrors.NewAlreadyExists(demos, "a"), control.Exists},
		"not found":                 {apierrors.NewNotFound(demos, "a"), control.NotFound},
		"the path is not found":     {odd(404), KindMissing},
		"no CRD":                    {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "pawl.dev", Kind: "Demo"}}, KindMissing},
		"invalid":                   {apierrors.NewInvalid(schema.GroupKind{Kind: "Demo"}, "a", nil), Refused},
		"bad request":               {apierrors.NewBadRequest("no"), Refused},
		"too large":                 {apierrors.NewRequestEntityTooLargeError("no"), Refused},
		"forbidden":                 {apierrors.NewForbidden(demos, "a", errors.New("rbac")), Forbidden},
		"unauthorized":              {apierrors.NewUnauthorized("who"), Forbidden},
		"too many requests":         {apierrors.NewTooManyRequests("slow", 1), fault.APIUnavailable},
		"internal error":            {apierrors.NewInternalError(plain), fault.APIUnavailable},
		"unavailable":               {apierrors.NewServiceUnavailable("gone"), fault.APIUnavailable},
		"server time-out":           {apierrors.NewServerTimeout(demos, "get", 1), fault.APIUnavailable},
		"time-out":                  {apierrors.NewTimeoutError("slow", 1), fault.APIUnavailable},
		"an expired continue token": {apierrors.NewResourceExpired("old"), fault.APIUnavailable},
		"an odd answer":             {odd(502), fault.APIUnavailable},
		"no connection":             {&url.Error{Op: "Get", URL: "https://x", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, fault.APIUnavailable},
		"a broken connection":       {fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), fault.APIUnavailable},
		"the caller's deadline":     {context.DeadlineExceeded, fault.APIUnavailable},
		"the caller's end":          {context.Canceled, fault.Unknown},
		"a fault already":           {control.NotFound.Errorf("mine: %w", apierrors.NewConflict(demos, "a", nil)), control.NotFound},
		"anything else":             {plain, fault.Unknown},
		"nothing":                   {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Fault(c.err)
			if fault.Of(got) != c.want || !errors.Is(got, c.err) {
				t.Errorf("%v is %v, want %v", c.err, got, c.want)
			}
			if apierrors.ReasonForError(got) != apierrors.ReasonForError(c.err) {
				t.Errorf("what apierrors reads of it has changed: %v", got)
			}
		})
	}
	if !isNotFound(apierrors.NewNotFound(demos, "a")) || isNotFound(odd(404)) || isNotFound(nil) {
		t.Error("only an object that is not there is gone, not one whose kind is unknown")
	}
	if err := faultOf(plain); err != plain {
		t.Errorf("an error of no API call became %v", err)
	}
	if !fault.Of(faultOf(apierrors.NewTooManyRequests("slow", 1))).Uncharged {
		t.Error("trouble of the control plane uses up retries")
	}
}
