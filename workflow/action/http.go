package action

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

// The faults of http.
var (
	HTTPUnavailable = fault.Declare(fault.Kind{
		Code: "HTTP_UNAVAILABLE", Class: fault.Transient,
		Title:  "the HTTP server does not answer, or asks to come again",
		Remedy: "Check that the server runs and can be reached from here, then resume.",
	})
	HTTPUnexpected = fault.Declare(fault.Kind{
		Code: "HTTP_UNEXPECTED", Class: fault.Blocked,
		Title:  "the HTTP server's answer is not one the step expects",
		Remedy: "Read the status and the body; fix the request, the permissions or the server, or add the status to expect or retryOn, then resume.",
	})
	HTTPUntrusted = fault.Declare(fault.Kind{
		Code: "HTTP_UNTRUSTED", Class: fault.Blocked,
		Title:  "the certificate of the HTTP server is not trusted",
		Remedy: "Correct the host name or the server's certificate, or give the step the certificate authority in ca, then resume.",
	})
	HTTPTooLarge = fault.Declare(fault.Kind{
		Code: "HTTP_TOO_LARGE", Class: fault.Blocked,
		Title:  "the HTTP response is larger than its limit",
		Remedy: "Ask for less, or raise maxResponse, then resume.",
	})
)

// Limits and defaults of http.
const (
	httpDefaultResponse = 1 << 20
	httpResponseLimit   = 16 << 20
	httpSnippet         = 512
)

type httpWith struct {
	Method      string            `json:"method"`
	URL         string            `json:"url"`
	Query       map[string]values `json:"query"`
	Headers     map[string]value  `json:"headers"`
	JSON        json.RawMessage   `json:"json"`
	Body        scalar            `json:"body"`
	Expect      *statuses         `json:"expect"`
	RetryOn     *statuses         `json:"retryOn"`
	MaxResponse size              `json:"maxResponse"`
	CA          string            `json:"ca"`
	Redirects   int               `json:"redirects"`
	Poll        *pollWith         `json:"poll"`
}

type pollWith struct {
	Every    duration `json:"every"`
	Until    string   `json:"until"`
	Deadline duration `json:"deadline"`
}

const statusSchema = `{"type": ["integer", "string", "array"], "minimum": 100, "maximum": 599, "pattern": "^([1-5]xx|[1-5][0-9][0-9]|connection)$",
	"items": {"type": ["integer", "string"], "minimum": 100, "maximum": 599, "pattern": "^([1-5]xx|[1-5][0-9][0-9]|connection)$"}, `

var httpParams = newParams(`{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "additionalProperties": false, "required": ["url"],
	"properties": {
		"method": {"type": "string", "pattern": "^[A-Z]+$", "default": "GET"},
		"url": {"type": "string", "minLength": 1, "description": "http or https"},
		"query": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "array"], "items": `+scalarSchema+`}},
		"headers": {"type": "object", "additionalProperties": false, "patternProperties": {"^[A-Za-z0-9!#$%&'*+.^_|~-]+$": `+valueSchema+`}},
		"json": {"description": "body, sent as application/json"},
		"body": {"type": ["string", "number", "boolean"]},
		"expect": `+statusSchema+`"default": ["2xx"]},
		"retryOn": `+statusSchema+`"default": [408, 425, 429, "5xx", "connection"]},
		"maxResponse": `+sizeSchema("default 1MiB", httpResponseLimit)+`,
		"ca": {"type": "string", "minLength": 1, "description": "certificate authorities in PEM; replaces those of the server"},
		"redirects": {"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
		"poll": {"type": "object", "additionalProperties": false, "required": ["every", "until"], "properties": {
			"every": `+durationSchema+`,
			"until": {"type": "string", "minLength": 1, "description": "CEL over response {status, headers, json, body}"},
			"deadline": `+durationSchema+`}}
	}}`,
	[]string{"/poll/until"}, checkHTTP).
	publish(`"not": {"required": ["json", "body"]}`)

// ownHeaders are set by the action or by the protocol.
var ownHeaders = []string{"Idempotency-Key", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te"}

func checkHTTP(with map[string]any, wrong report) {
	if text, ok := with["url"].(string); ok && !isTemplate(text) {
		if err := egress.CheckURL(text); err != nil {
			wrong([]string{"url"}, "%v", err)
		}
	}
	if headers, ok := with["headers"].(map[string]any); ok {
		for name := range headers {
			if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
				wrong([]string{"headers", name}, "the header is set by the action")
			}
		}
	}
	if _, ok := with["json"]; ok && with["body"] != nil {
		wrong([]string{"body"}, "json and body exclude each other")
	}
	if pem, ok := with["ca"].(string); ok && !isTemplate(pem) && !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
		wrong([]string{"ca"}, "holds no certificate in PEM")
	}
	if ballot, ok := with["poll"].(map[string]any); ok {
		if until, ok := ballot["until"].(string); ok {
			if _, err := compileUntil(until); err != nil {
				wrong([]string{"poll", "until"}, "%v", err)
			}
		}
	}
	if connection(with["expect"]) {
		wrong([]string{"expect"}, "connection is for retryOn")
	}
	checkSize(with, "maxResponse", httpResponseLimit, wrong)
}

func connection(v any) bool {
	list, ok := v.([]any)
	return v == "connection" || ok && slices.Contains(list, any("connection"))
}

func httpAction(policy *egress.Policy, roots *x509.CertPool) workflow.Action {
	return workflow.Action{
		Name:        "http",
		Description: "sends an HTTP request, once or until the answer is as wanted",
		With:        httpParams,
		Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			return call(ctx, t, policy, roots)
		},
	}
}

// call is one attempt: read the parameters, send the request, handle the response.
func call(ctx context.Context, t *workflow.Task, policy *egress.Policy, roots *x509.CertPool) outcome.Outcome {
	with, err := read[httpWith](t, httpParams)
	if err != nil {
		return outcome.Fail(err)
	}
	hidden := &secrets{task: t}
	request, err := with.request(ctx, t, hidden)
	if err != nil {
		return outcome.Fail(err)
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if with.CA != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(with.CA)) {
			return outcome.Fail(ParametersInvalid.Errorf("with.ca: holds no certificate in PEM"))
		}
	}
	client := policy.Client(egress.ClientOptions{TLS: trust, Redirects: with.Redirects, Sensitive: with.sensitive(), Conn: leased(t)})
	defer client.CloseIdleConnections()
	got, err := send(client, request, with.limit())
	if err != nil {
		err = with.sendError(ctx, err, hidden)
		if errors.Is(err, HTTPUnavailable) {
			return with.retryLater(t, 0, err)
		}
		return outcome.Fail(err)
	}
	return with.handleResponse(ctx, t, got, hidden)
}

func (w httpWith) limit() int {
	if w.MaxResponse > 0 {
		return int(w.MaxResponse)
	}
	return httpDefaultResponse
}

// request resolves the parameters to an HTTP request.
func (w httpWith) request(ctx context.Context, t *workflow.Task, hidden *secrets) (*http.Request, error) {
	if err := egress.CheckURL(w.URL); err != nil {
		return nil, ParametersInvalid.Errorf("with.url: %w", err)
	}
	method := w.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	switch {
	case w.JSON != nil:
		body = bytes.NewReader(w.JSON)
	case w.Body != "":
		body = strings.NewReader(string(w.Body))
	}
	r, err := http.NewRequestWithContext(ctx, method, w.URL, body)
	if err != nil {
		return nil, ParametersInvalid.Errorf("with: %w", err)
	}
	if len(w.Query) > 0 {
		query := r.URL.Query()
		for name, list := range w.Query {
			query.Del(name)
			for _, v := range list {
				query.Add(name, string(v))
			}
		}
		r.URL.RawQuery = query.Encode()
	}
	r.Header.Set("User-Agent", "pawl")
	r.Header.Set("Accept", "application/json, */*;q=0.5")
	if w.JSON != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, v := range w.Headers {
		text, err := hidden.text(v)
		if err != nil {
			return nil, err
		}
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, ParametersInvalid.Errorf("with.headers.%s: holds a line break or another control character", name)
		}
		r.Header.Set(name, text)
	}
	r.Header.Set("Idempotency-Key", t.Key())
	return r, nil
}

// sensitive returns the headers that are removed when a redirect leads to another host.
func (w httpWith) sensitive() []string {
	names := []string{"Authorization", "Cookie", "Proxy-Authorization", "Www-Authenticate"}
	for name, v := range w.Headers {
		if v.secret != "" {
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	return names
}

// answer is a response in the form that expressions and later steps read.
type answer struct {
	status     int
	headers    map[string]string // by name in lower case
	retryAfter string
	raw        []byte
	json       json.RawMessage // nil: no JSON
}

func send(client *http.Client, request *http.Request, limit int) (answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err != nil {
		return answer{}, err
	}
	if len(raw) > limit {
		return answer{}, HTTPTooLarge.Errorf("the response has more than %d bytes", limit).With("status", response.StatusCode)
	}
	got := answer{status: response.StatusCode, headers: map[string]string{}, retryAfter: response.Header.Get("Retry-After"), raw: raw}
	for name, list := range response.Header {
		if name != "Set-Cookie" { // a credential
			got.headers[strings.ToLower(name)] = strings.Join(list, ", ")
		}
	}
	media, _, _ := strings.Cut(got.headers["content-type"], ";")
	media = strings.TrimSpace(strings.ToLower(media))
	if (media == "application/json" || strings.HasSuffix(media, "+json")) && json.Valid(raw) {
		got.json = raw
	}
	return got, nil
}

// sendError returns why there is no response.
func (w httpWith) sendError(ctx context.Context, err error, hidden *secrets) error {
	var (
		known     *fault.Error
		untrusted *tls.CertificateVerificationError
		failed    *url.Error
	)
	switch {
	case errors.Is(err, workflow.ErrLeaseLost):
		return fmt.Errorf("the request was not sent: %w", workflow.ErrLeaseLost)
	case ctx.Err() != nil:
		return fmt.Errorf("the request was ended: %w", context.Cause(ctx))
	case errors.As(err, &known):
		return known
	case errors.As(err, &failed):
		err = failed.Err // the step defines the URL, and it may be long
	}
	text := hidden.clean(err.Error())
	switch {
	case errors.As(err, &untrusted):
		return HTTPUntrusted.Errorf("%s", text)
	case w.retryOn().connection:
		return HTTPUnavailable.Errorf("%s", text)
	}
	return HTTPUnexpected.Errorf("%s", text)
}

// handleResponse turns a response into an outcome.
func (w httpWith) handleResponse(ctx context.Context, t *workflow.Task, got answer, hidden *secrets) outcome.Outcome {
	switch {
	case w.expect().holds(got.status):
		if w.Poll == nil {
			return outcome.Fail(got.report(t, hidden))
		}
		return w.checkPoll(ctx, t, got, hidden)
	case w.retryOn().holds(got.status):
		return w.retryLater(t, retryAfter(got.retryAfter, time.Now()), got.fault(HTTPUnavailable, hidden))
	}
	return outcome.Fail(got.fault(HTTPUnexpected, hidden))
}

// checkPoll checks whether the response to a poll is the expected one.
func (w httpWith) checkPoll(ctx context.Context, t *workflow.Task, got answer, hidden *secrets) outcome.Outcome {
	met, err := evaluateUntil(ctx, w.Poll.Until, got)
	if err != nil {
		return outcome.Fail(workflow.ExpressionFailed.Errorf("with.poll.until: %s", hidden.clean(err.Error())))
	}
	if met {
		return outcome.Fail(got.report(t, hidden))
	}
	return w.pollAgain(t, "until "+w.Poll.Until)
}

// pollAgain waits for the next poll, or ends the wait.
func (w httpWith) pollAgain(t *workflow.Task, message string) outcome.Outcome {
	p := waitLimitOf(t, w.Poll.Deadline, workflow.TimeoutFail)
	left, over := p.left(time.Now())
	if over {
		return p.expired(t, "the response")
	}
	next := max(time.Duration(w.Poll.Every), 100*time.Millisecond)
	if left > 0 {
		next = min(next, left)
	}
	return outcome.Wait(next, "Polling", "%s", message)
}

// retryLater returns a transient failure. It honours Retry-After once per attempt with a wait,
// limited by the longest delay of the step's policy; if the failure repeats after that wait, it
// counts. So a server that always asks to wait uses up the attempts. A failure during a poll that
// has a deadline does not end the poll before the deadline.
func (w httpWith) retryLater(t *workflow.Task, after time.Duration, err error) outcome.Outcome {
	waited := t.Waited()
	mine := fmt.Sprintf("attempt %d: ", t.Attempt())
	switch {
	case waited != nil && waited.Reason == "Polling" && w.Poll != nil && w.Poll.Deadline > 0:
		return w.pollAgain(t, "until "+w.Poll.Until)
	case after > 0 && !(waited != nil && waited.Reason == "RetryAfter" && strings.HasPrefix(waited.Message, mine)):
		return outcome.Wait(min(after, t.Retry().Longest), "RetryAfter", "%sthe server asks to come again: %s", mine, fault.Message(err))
	}
	return outcome.Fail(err)
}

// retryAfter decodes a header in seconds or as a date.
func retryAfter(text string, now time.Time) time.Duration {
	if text == "" {
		return 0
	}
	if seconds, err := time.ParseDuration(text + "s"); err == nil {
		return max(seconds, 0)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

func (a answer) fault(kind *fault.Kind, hidden *secrets) error {
	snippet := hidden.clean(strings.TrimSpace(readable(a.raw)))
	if len(snippet) > httpSnippet {
		snippet = strings.ToValidUTF8(hidden.cutEnd(snippet[:httpSnippet]), "") + "…"
	}
	text := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	if snippet != "" {
		text += ": " + snippet
	}
	return kind.Errorf("%s", strings.TrimSpace(text)).With("status", a.status).With("body", snippet)
}

// report sets the output: {status, headers, json} or {status, headers, body}.
func (a answer) report(t *workflow.Task, hidden *secrets) error {
	headers := maps.Clone(a.headers)
	for name, text := range headers {
		headers[name] = hidden.clean(text)
	}
	out := map[string]any{"status": a.status, "headers": headers}
	if clean := json.RawMessage(hidden.clean(string(a.json))); a.json != nil && json.Valid(clean) {
		out["json"] = clean
	} else {
		out["body"] = hidden.clean(readable(a.raw))
	}
	return t.Set(out)
}
