package route

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/view"
)

// huma creates its own errors through two variables; both return problems.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return libraryProblem("", status, message, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		url := ctx.URL()
		return libraryProblem(url.Path, status, message, errs)
	}
}

func libraryProblem(path string, status int, message string, errs []error) *view.Problem {
	kind := kindOfStatus(status)
	p := &view.Problem{
		Type: "/v1/faults/" + string(kind.Code), Title: kind.Title, Status: status, Detail: message, Instance: path,
		Code: kind.Code, Class: kind.Class, Remedy: kind.Remedy,
	}
	for _, err := range errs {
		var detailer huma.ErrorDetailer
		switch {
		case err == nil:
		case errors.As(err, &detailer):
			d := detailer.ErrorDetail()
			p.Errors = append(p.Errors, view.ProblemError{Message: d.Message, Location: d.Location, Value: brief(d.Value)})
		default:
			p.Errors = append(p.Errors, view.ProblemError{Message: err.Error()})
		}
	}
	return p
}

// brief shortens long strings and drops values that are no scalars: a whole body does not help its sender.
func brief(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > 100 {
			return v[:100] + "…"
		}
		return v
	case bool, float64, int, int64, json.Number:
		return v
	}
	return nil
}

// ProblemOf returns the problem of an error as the answer to the request of ctx.
func ProblemOf(ctx context.Context, err error) *view.Problem {
	p := *view.ProblemOf(err)
	if reported := (*view.Problem)(nil); !errors.As(err, &reported) {
		p.Status = StatusOf(view.KindOf(err))
	}
	if p.Instance == "" {
		p.Instance = CallOf(ctx).Path
	}
	CallOf(ctx).Code = p.Code
	return &p
}

// retryAfter returns the Retry-After of an answer in seconds; "" if it has none.
func retryAfter(p *view.Problem) string {
	switch {
	case p.Status == http.StatusTooManyRequests, p.Status == http.StatusServiceUnavailable:
		return "5"
	case p.Code == KeyBusy.Code:
		return "1"
	default:
		return ""
	}
}

// fail returns the error that huma writes for err: its problem, with headers.
func fail(ctx context.Context, err error) error {
	p := ProblemOf(ctx, err)
	if after := retryAfter(p); after != "" {
		return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {after}})
	}
	return p
}

// WriteProblem answers requests that do not reach huma.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := ProblemOf(r.Context(), err)
	h := w.Header()
	if after := retryAfter(p); after != "" {
		h.Set("Retry-After", after)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Del("ETag")
	w.WriteHeader(p.Status)
	if r.Method == http.MethodHead {
		return
	}
	if err := json.NewEncoder(w).Encode(p); err != nil {
		return // the caller has disconnected
	}
}
