package cloudstack

import (
	"net/http"
	"strings"
	"unicode"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Error codes of the API. Codes up to 599 are also the HTTP status.
const (
	codeParam       = 431
	codeUnsupported = 432
	codeInternal    = 530
	codeAccount     = 531
	codeLimit       = 532
	codeCapacity    = 533
	codeUnavailable = 534
	codeAllocation  = 535
	codeInUse       = 536
	codeConflict    = 537
)

// refusal is an error answer of the API.
type refusal struct {
	Command string
	Status  int // HTTP status; 0: the refusal is from a job
	Code    int
	Text    string
}

// Error returns the server's text, cleaned and shortened.
func (r *refusal) Error() string {
	text := clean(r.Text)
	if text == "" {
		text = "no reason given"
	}
	return r.Command + ": " + text
}

// maxErrorText limits the shown part of the server's text.
const maxErrorText = 500

func clean(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > maxErrorText {
		text = string(runes[:maxErrorText]) + "…"
	}
	return strings.TrimSpace(text)
}

// redact removes secrets from the text.
func (r *refusal) redact(secrets ...string) {
	for _, s := range secrets {
		if s != "" {
			r.Text = strings.ReplaceAll(r.Text, s, "*****")
		}
	}
}

// unknownID reports whether the refusal is that of an unknown id or of another parameter:
// it does not prove that the resource is gone.
func (r *refusal) unknownID() bool { return r.Status == codeParam && r.Code == codeParam }

func (r *refusal) fault() error { return r.kind().Errorf("%w", r).With("code", r.Code) }

// kind returns the declared fault of a code. 530 of a call is a server error, which may
// pass; 530 of a job is final.
func (r *refusal) kind() *fault.Kind {
	switch r.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return cluster.CredentialsRefused
	case http.StatusTooManyRequests:
		return cluster.ProviderThrottled
	case codeLimit, codeAllocation:
		return cluster.QuotaExceeded
	case codeCapacity:
		return cluster.CapacityExhausted
	case codeUnavailable:
		return cluster.ProviderUnreachable
	case codeInUse:
		return cluster.ResourceInUse
	case codeConflict:
		return cluster.RuleConflict
	case codeInternal:
		if strings.Contains(strings.ToLower(r.Text), "insufficient capacity") {
			return cluster.CapacityExhausted
		}
		if r.Status == 0 {
			return cluster.ProviderRefused
		}
		return cluster.ProviderUnreachable
	case http.StatusBadRequest, codeParam, codeUnsupported, codeAccount:
		return cluster.ProviderRefused
	}
	if r.Status == 0 {
		return cluster.ProviderRefused
	}
	return cluster.ProviderUnreachable // 5xx, or an answer that is not from the API
}
