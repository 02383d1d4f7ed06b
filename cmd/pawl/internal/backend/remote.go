package backend

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// RemoteOptions name a server and the caller.
type RemoteOptions struct {
	URL   string
	Token string // empty: none
	Actor string // on whose behalf
}

// Remote is a server.
type Remote struct {
	options RemoteOptions
	base    *url.URL
	client  *http.Client
}

var _ Backend = (*Remote)(nil)

const (
	answerWithin = 30 * time.Second // for all requests but event streams
	tries        = 4                // of a request that may be repeated
)

// OpenRemote returns the backend of a server without connecting to it.
func OpenRemote(_ context.Context, o RemoteOptions) (*Remote, error) {
	if !strings.Contains(o.URL, "://") {
		o.URL = "http://" + o.URL
	}
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, workflow.InputInvalid.Errorf("--server %s is no URL: it is http://HOST:PORT or https://HOST:PORT", o.URL)
	}
	// A client without redirects: the token goes to the server that was named.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Remote{options: o, base: base, client: client}, nil
}

// Close implements Backend.
func (r *Remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// call is one request.
type call struct {
	method string
	path   []string // segments behind /v1
	query  url.Values
	header map[string]string
	body   any
	kind   string // content type of the body; default application/json
}

// do sends a request and decodes its answer. Every request but one is safe to
// repeat: it reads, or carries an Idempotency-Key or a revision.
func (r *Remote) do(ctx context.Context, c call, out any) error {
	var body []byte
	if c.body != nil {
		var err error
		if body, err = json.Marshal(c.body); err != nil {
			return err
		}
	}
	delay := 100 * time.Millisecond
	for try := 1; ; try++ {
		err := r.once(ctx, c, body, out)
		if err == nil || try == tries || ctx.Err() != nil || !temporary(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
			delay *= 2
		}
	}
}

// temporary reports a temporary error.
func temporary(err error) bool {
	var p *view.Problem
	if errors.As(err, &p) {
		return p.Status == http.StatusServiceUnavailable || p.Code == "IDEMPOTENCY_KEY_BUSY"
	}
	return fault.Of(err) == Unreachable
}

func (r *Remote) once(ctx context.Context, c call, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	answer, err := r.send(ctx, c, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return Unreachable.Errorf("%s broke off: %w", r.base, err)
	}
	if out == nil || answer.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer of %s: %w", r.base, err)
	}
	return nil
}

// send returns the answer, or its problem document as an error.
func (r *Remote) send(ctx context.Context, c call, body []byte) (*http.Response, error) {
	u := r.base.JoinPath(append([]string{"v1"}, escaped(c.path)...)...)
	u.RawQuery = c.query.Encode()
	req, err := http.NewRequestWithContext(ctx, c.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		if c.kind != "" {
			req.Header.Set("Content-Type", c.kind)
		}
	}
	req.Header.Set("Accept", "application/json, application/problem+json, text/event-stream")
	if r.options.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.options.Token)
	}
	for key, value := range c.header {
		req.Header.Set(key, value)
	}
	answer, err := r.client.Do(req)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, ctx.Err()
		}
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, Unreachable.Errorf("%s: %w", r.base, err)
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20)) // what cannot be read is no problem document
	var p view.Problem
	if json.Unmarshal(data, &p) != nil || p.Code == "" {
		return nil, Unreachable.Errorf("%s answers %s: is it a pawl server?", r.base, answer.Status)
	}
	return nil, &p
}

func escaped(path []string) []string {
	out := make([]string, len(path))
	for i, segment := range path {
		out[i] = url.PathEscape(segment)
	}
	return out
}

func (r *Remote) get(ctx context.Context, out any, query url.Values, path ...string) error {
	return r.do(ctx, call{method: http.MethodGet, path: path, query: query}, out)
}

func key(id string) map[string]string {
	if id == "" {
		id = rand.Text()
	}
	return map[string]string{"Idempotency-Key": id}
}

// Alone implements Runs: the server works on the runs.
func (r *Remote) Alone() bool { return false }

// Work implements Runs.
func (r *Remote) Work(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Advance implements Runs.
func (r *Remote) Advance(context.Context, string) error { return nil }

// Start implements Runs.
func (r *Remote) Start(ctx context.Context, req workflow.Request) (view.Run, error) {
	var run view.Run
	err := r.do(ctx, call{method: http.MethodPost, path: []string{"runs"}, header: key(""), body: map[string]any{
		"flow": req.Flow, "subject": req.Subject, "requestID": req.RequestID, "input": req.Input, "labels": req.Labels,
		"actor": req.Actor.Name, "reason": req.Actor.Reason,
	}}, &run)
	return run, err
}

// Run implements Runs.
func (r *Remote) Run(ctx context.Context, id string) (view.Run, error) {
	var run view.Run
	err := r.get(ctx, &run, nil, "runs", id)
	return run, err
}

// Steps implements Runs.
func (r *Remote) Steps(ctx context.Context, id string, after int) (view.Steps, error) {
	query := url.Values{"limit": {strconv.Itoa(view.StepPage)}}
	if after > 0 {
		query.Set("cursor", strconv.Itoa(after))
	}
	var page view.Steps
	err := r.get(ctx, &page, query, "runs", id, "steps")
	return page, err
}

// largestPage is the largest page that a server returns.
const largestPage = 500

// List implements Runs.
func (r *Remote) List(ctx context.Context, q workflow.Query) (view.Runs, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	var phases []string
	for _, p := range q.Phases {
		phases = append(phases, string(p))
	}
	set("phase", strings.Join(phases, ","))
	set("flow", q.Flow)
	set("subject", q.Subject)
	set("prefix", q.Prefix)
	set("hash", q.Hash)
	set("parent", q.Parent)
	set("selector", view.Selector(q.Labels))
	set("cursor", q.Cursor)
	if q.Active {
		set("active", "true")
	}
	if q.OldestFirst {
		set("oldest", "true")
	}
	if q.Limit > 0 {
		set("limit", strconv.Itoa(min(q.Limit, largestPage)))
	}
	var page view.Runs
	err := r.get(ctx, &page, query, "runs")
	return page, err
}

// History implements Runs.
func (r *Remote) History(ctx context.Context, id string, after int64, limit int) ([]view.Event, error) {
	query := url.Values{}
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	query.Set("limit", strconv.Itoa(limit))
	if after > 0 {
		query.Set("cursor", strconv.FormatInt(after, 10))
	}
	var page view.History
	err := r.get(ctx, &page, query, "runs", id, "history")
	return page.Items, err
}

// Request implements Runs.
func (r *Remote) Request(ctx context.Context, id string, verb workflow.Verb, ask workflow.RunRequest) error {
	body := map[string]any{"actor": ask.Name, "reason": ask.Reason}
	switch verb {
	case workflow.VerbResume:
		body["from"], body["definition"] = ask.From, ask.Definition
	case workflow.VerbCancel:
		body["mode"], body["giveUp"] = ask.Mode, ask.GiveUp
	case workflow.VerbSkip:
		body["step"], body["force"] = ask.Step, ask.Force
		if ask.Output != nil {
			body["output"] = ask.Output
		}
	case workflow.VerbProgress:
		body = map[string]any{"step": ask.Step, "done": ask.Progress.Done, "total": ask.Progress.Total, "text": ask.Progress.Text}
	}
	for name, value := range body { // absent, not empty: some have a choice of values
		if value == "" || value == workflow.From("") {
			delete(body, name)
		}
	}
	header := key(ask.RequestID)
	if ask.Revision != 0 {
		header["If-Match"] = etag(ask.Revision)
	}
	return r.do(ctx, call{method: http.MethodPost, path: []string{"runs", id, string(verb)}, header: header, body: body}, nil)
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// Send implements Runs.
func (r *Remote) Send(ctx context.Context, id string, s workflow.Signal) error {
	body := map[string]any{"name": s.Name, "id": s.ID, "actor": s.Actor}
	if s.Payload != nil {
		body["data"] = s.Payload
	}
	return r.do(ctx, call{method: http.MethodPost, path: []string{"runs", id, "signal"}, header: key(""), body: body}, nil)
}

// Flows implements Definitions.
func (r *Remote) Flows(ctx context.Context) ([]view.Flow, error) {
	var list view.Flows
	err := r.get(ctx, &list, nil, "flows")
	return list.Items, err
}

// Flow implements Definitions.
func (r *Remote) Flow(ctx context.Context, name string) (view.Flow, error) {
	var f view.Flow
	kind, kindsWithoutSpec := flowName(name)
	var query url.Values
	if kind != "" {
		query = url.Values{"kind": {kind}}
	}
	err := r.get(ctx, &f, query, "flows", kindsWithoutSpec)
	return f, err
}

// Faults implements Definitions.
func (r *Remote) Faults(ctx context.Context) ([]view.Kind, error) {
	var list view.Kinds
	err := r.get(ctx, &list, nil, "faults")
	return list.Items, err
}

// Fault implements Definitions.
func (r *Remote) Fault(ctx context.Context, code string) (view.Kind, error) {
	var k view.Kind
	err := r.get(ctx, &k, nil, "faults", code)
	return k, err
}

// Machines implements Definitions. The API of a server has no list of them.
func (r *Remote) Machines(context.Context) ([]machine.Standalone, error) {
	return nil, MachineUnknown.Errorf("the API of a server does not list machines: look at its files with pawl get machines --machines DIR")
}

type planAnswer struct {
	Plan    *view.Plan    `json:"plan"`
	Machine *machine.Plan `json:"machine"`
}

// PlanFlow implements Definitions.
func (r *Remote) PlanFlow(ctx context.Context, flow string, input []byte) (view.Plan, error) {
	body := map[string]any{"flow": flow}
	if input != nil {
		body["input"] = json.RawMessage(input)
	}
	var answer planAnswer
	err := r.do(ctx, call{method: http.MethodPost, path: []string{"plans"}, header: key(""), body: body}, &answer)
	if err != nil || answer.Plan == nil {
		return view.Plan{}, err
	}
	return *answer.Plan, nil
}

// PlanObject implements Definitions.
func (r *Remote) PlanObject(ctx context.Context, ref control.Ref, manifest *control.Object) (machine.Plan, error) {
	body := map[string]any{"object": ref}
	if manifest != nil {
		body = map[string]any{"manifest": desired(*manifest)}
	}
	var answer planAnswer
	err := r.do(ctx, call{method: http.MethodPost, path: []string{"plans"}, header: key(""), body: body}, &answer)
	if err != nil || answer.Machine == nil {
		return machine.Plan{}, err
	}
	return *answer.Machine, nil
}

// desired is the part of an object that people write.
func desired(o control.Object) map[string]any {
	m := map[string]any{"kind": o.Kind, "namespace": o.Namespace, "name": o.Name}
	if o.Labels != nil {
		m["labels"] = o.Labels
	}
	if o.Annotations != nil {
		m["annotations"] = o.Annotations
	}
	if o.Spec != nil {
		m["spec"] = o.Spec
	}
	return m
}
