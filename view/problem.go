package view

import (
	"errors"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Problem is the JSON form of every error of the API and of `-o json`: RFC 9457 with
// the fault's code, class and remedy.
type Problem struct {
	Type      string         `json:"type" format:"uri-reference" doc:"path of the explanation of the fault" example:"/v1/faults/RUN_NOT_FOUND"`
	Title     string         `json:"title"`
	Status    int            `json:"status" doc:"of the HTTP answer"`
	Detail    string         `json:"detail,omitempty"`
	Instance  string         `json:"instance,omitempty" format:"uri-reference" doc:"path of the request"`
	Code      fault.Code     `json:"code"`
	Class     fault.Class    `json:"class" enum:"transient,blocked,invalid"`
	Remedy    string         `json:"remedy"`
	Details   map[string]any `json:"details,omitempty"`
	Cluster   string         `json:"cluster,omitempty"`
	Operation string         `json:"operation,omitempty"`
	Run       string         `json:"run,omitempty"`
	Step      string         `json:"step,omitempty"`
	Errors    []ProblemError `json:"errors,omitempty" doc:"all mistakes that were found"`
}

// ProblemError is one of several mistakes.
type ProblemError struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"such as body.retry.first, or file:line:column"`
	Value    any    `json:"value,omitempty"`
}

// Error returns the line for logs and terminals.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code) + ": " + p.Title
	}
	return string(p.Code) + ": " + p.Detail
}

// Unwrap returns the declared kind, so that fault.Of works on a decoded problem.
func (p *Problem) Unwrap() error {
	if kind, ok := fault.Lookup(string(p.Code)); ok {
		return kind
	}
	return nil
}

// GetStatus returns the status of the HTTP answer, for huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the content type of problem details instead of JSON, for huma.
func (p *Problem) ContentType(asked string) string {
	if asked == "application/json" {
		return "application/problem+json"
	}
	return asked
}

// ProblemOf returns the problem of an error. It returns a *Problem unchanged, and nil for nil.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	kind := KindOf(err)
	p = &Problem{
		Type: "/v1/faults/" + string(kind.Code), Title: kind.Title, Status: Status(kind), Detail: fault.Message(err),
		Code: kind.Code, Class: kind.Class, Remedy: kind.Remedy, Details: fault.Details(err),
	}
	if list, ok := p.Details["problems"].([]string); ok {
		for _, message := range list {
			p.Errors = append(p.Errors, ProblemError{Message: message})
		}
		delete(p.Details, "problems")
	}
	return p
}

// KindOf is fault.Of, but also maps the plain errors of stores.
func KindOf(err error) *fault.Kind {
	if kind := fault.Of(err); kind != fault.Unknown {
		return kind
	}
	switch {
	case errors.Is(err, runstore.ErrNotFound):
		return workflow.RunNotFound
	case errors.Is(err, runstore.ErrFinal):
		return workflow.RunFinished
	case errors.Is(err, runstore.ErrConflict), errors.Is(err, runstore.ErrOwned):
		return fault.WriteConflict
	case errors.Is(err, runstore.ErrFenced):
		return workflow.Fenced
	}
	return fault.Unknown
}

// statuses are the exceptions from the rule in Status.
var statuses = map[fault.Code]int{
	"UNKNOWN": http.StatusInternalServerError, "PANIC": http.StatusInternalServerError,
	"FLOW_UNKNOWN": http.StatusNotFound, "REQUEST_REFUSED": http.StatusConflict,
	"RUN_FINISHED": http.StatusConflict, "OBJECT_EXISTS": http.StatusConflict, "NO_RETURN": http.StatusConflict,
	"SKIP_REFUSED": http.StatusConflict, "WRITE_CONFLICT": http.StatusConflict, "FENCED": http.StatusConflict,
	"QUEUE_FULL": http.StatusTooManyRequests, "STORE_CORRUPT": http.StatusServiceUnavailable,
	"OUTPUT_TOO_LARGE": http.StatusUnprocessableEntity, "OUTPUT_INVALID": http.StatusUnprocessableEntity,
	"SECRET_MISSING": http.StatusUnprocessableEntity, "EXPRESSION_FAILED": http.StatusUnprocessableEntity,
}

// Status returns the HTTP status of a fault: 404 for codes that end in _NOT_FOUND, 422
// for class invalid, 409 for class blocked, 503 for uncharged faults, 500 for the rest;
// statuses has the exceptions.
func Status(k *fault.Kind) int {
	if status, ok := statuses[k.Code]; ok {
		return status
	}
	switch {
	case strings.HasSuffix(string(k.Code), "_NOT_FOUND"):
		return http.StatusNotFound
	case k.Class == fault.Invalid:
		return http.StatusUnprocessableEntity
	case k.Class == fault.Blocked:
		return http.StatusConflict
	case k.Uncharged:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
