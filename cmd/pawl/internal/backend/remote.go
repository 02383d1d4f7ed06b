package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Remote is a server. Verbs of clusters call its API directly.
type Remote struct {
	API   *client.Client
	token bool
}

var _ Backend = (*Remote)(nil)

// OpenRemote returns the backend of a server without connecting to it.
func OpenRemote(o client.Options) (*Remote, error) {
	api, err := client.New(o)
	if err != nil {
		return nil, err
	}
	return &Remote{API: api, token: o.Token != ""}, nil
}

// Close implements Backend.
func (r *Remote) Close() error { return r.API.Close() }

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
	return r.API.StartRun(ctx, client.StartRunRequest{
		Flow: req.Flow, Subject: req.Subject, RequestID: req.RequestID, Input: req.Input, Labels: req.Labels, Priority: new(req.Priority),
		Actor: req.Actor.Name, Reason: req.Actor.Reason,
	}, client.StartRunParams{})
}

// Run implements Runs.
func (r *Remote) Run(ctx context.Context, id string) (view.Run, error) { return r.API.GetRun(ctx, id) }

// Steps implements Runs.
func (r *Remote) Steps(ctx context.Context, id string, after int) (view.Steps, error) {
	params := client.RunStepsParams{Limit: view.StepPage}
	if after > 0 {
		params.Cursor = strconv.Itoa(after)
	}
	return r.API.RunSteps(ctx, id, params)
}

// largestPage is the largest page that a server returns.
const largestPage = 500

// List implements Runs.
func (r *Remote) List(ctx context.Context, q runstore.Query) (view.Runs, error) {
	phases := make([]string, len(q.Phases))
	for i, p := range q.Phases {
		phases[i] = string(p)
	}
	return r.API.ListRuns(ctx, client.ListRunsParams{
		Phase: phases, Flow: q.Flow, Subject: q.Subject, Prefix: q.Prefix, Hash: q.Hash, Parent: q.Parent,
		Fault: string(q.Fault), Text: q.Text, Since: q.Since, Until: q.Until, Selector: view.Selector(q.Labels), Cursor: q.Cursor, Active: q.Active, Oldest: q.OldestFirst, Limit: min(q.Limit, largestPage),
	})
}

// History implements Runs.
func (r *Remote) History(ctx context.Context, id string, after int64, limit int) ([]view.Event, error) {
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	params := client.RunHistoryParams{Limit: limit}
	if after > 0 {
		params.Cursor = strconv.FormatInt(after, 10)
	}
	page, err := r.API.RunHistory(ctx, id, params)
	return page.Items, err
}

// Request implements Runs.
func (r *Remote) Request(ctx context.Context, id string, verb runtype.Verb, ask workflow.RunRequest) (err error) {
	key, match := ask.RequestID, ""
	if ask.Revision != 0 {
		match = etag(ask.Revision)
	}
	switch verb {
	case runtype.VerbPause:
		_, err = r.API.PauseRun(ctx, id, client.PauseRunRequest{Actor: ask.Name, Reason: ask.Reason}, client.PauseRunParams{IdempotencyKey: key, IfMatch: match})
	case runtype.VerbResume:
		_, err = r.API.ResumeRun(ctx, id, client.ResumeRunRequest{Actor: ask.Name, Reason: ask.Reason, From: string(ask.From), Definition: ask.Definition},
			client.ResumeRunParams{IdempotencyKey: key, IfMatch: match})
	case runtype.VerbCancel:
		_, err = r.API.CancelRun(ctx, id, client.CancelRunRequest{Actor: ask.Name, Reason: ask.Reason, Mode: string(ask.Mode), GiveUp: ask.GiveUp},
			client.CancelRunParams{IdempotencyKey: key, IfMatch: match})
	case runtype.VerbSkip:
		_, err = r.API.SkipRun(ctx, id, client.SkipRunRequest{Actor: ask.Name, Reason: ask.Reason, Step: ask.Step, Force: ask.Force, Output: ask.Output},
			client.SkipRunParams{IdempotencyKey: key, IfMatch: match})
	case runtype.VerbProgress:
		p := ask.Progress
		_, err = r.API.ProgressRun(ctx, id, client.ProgressRunRequest{Step: ask.Step, Done: int(p.Done), Total: new(int(p.Total)), Text: p.Text},
			client.ProgressRunParams{IdempotencyKey: key, IfMatch: match})
	default:
		err = fmt.Errorf("a server has no request %s", verb)
	}
	return err
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// Send implements Runs.
func (r *Remote) Send(ctx context.Context, id string, s runtype.Signal) error {
	_, err := r.API.SignalRun(ctx, id, client.SignalRunRequest{Name: s.Name, ID: s.ID, Actor: s.Actor, Data: s.Payload}, client.SignalRunParams{})
	return err
}

const (
	reconnectPause = time.Second     // between connections of an event stream
	safetyInterval = 5 * time.Second // between notifications without an event
)

// Changes implements Runs by the server's event stream.
func (r *Remote) Changes(ctx context.Context, id string) <-chan struct{} {
	notifier, c := &control.Notifier{}, make(chan struct{}, 1)
	go func() { // ends with ctx, which ends its request
		last := ""
		for ctx.Err() == nil {
			for e, err := range r.API.Events(ctx, client.EventsParams{Run: id, After: last}) {
				if last = e.ID; err == nil {
					notifier.Notify()
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(reconnectPause):
			}
		}
	}()
	go func() {
		defer close(c)
		safety := time.NewTicker(safetyInterval)
		defer safety.Stop()
		for next := notifier.Next(); ; {
			select {
			case <-ctx.Done():
				return
			case <-next:
				next = notifier.Next()
			case <-safety.C:
			}
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}()
	return c
}

// Flows implements Definitions.
func (r *Remote) Flows(ctx context.Context) ([]view.Flow, error) {
	list, err := r.API.ListFlows(ctx)
	return list.Items, err
}

// flowName splits KIND/FLOW, the flow that serves subjects of that kind.
func flowName(name string) (kind, flow string) {
	if kind, flow, ok := strings.Cut(name, "/"); ok {
		return kind, flow
	}
	return "", name
}

// Flow implements Definitions.
func (r *Remote) Flow(ctx context.Context, name string) (view.Flow, error) {
	kind, name := flowName(name)
	return r.API.GetFlow(ctx, name, client.GetFlowParams{Kind: kind})
}

// Faults implements Definitions.
func (r *Remote) Faults(ctx context.Context) ([]view.Kind, error) {
	list, err := r.API.ListFaults(ctx)
	return list.Items, err
}

// Fault implements Definitions.
func (r *Remote) Fault(ctx context.Context, code string) (view.Kind, error) {
	return r.API.GetFault(ctx, code)
}

// Machines implements Definitions.
func (r *Remote) Machines(ctx context.Context) ([]view.Machine, error) {
	list, err := r.API.ListMachines(ctx)
	return list.Items, err
}

// Machine implements Definitions.
func (r *Remote) Machine(ctx context.Context, name string) (view.Machine, error) {
	machines, err := r.Machines(ctx)
	if err != nil {
		return view.Machine{}, err
	}
	m, err := machineOf(machines, name)
	if err != nil {
		return m, err
	}
	return r.API.GetMachine(ctx, m.Kind, client.GetMachineParams{})
}

// Served implements Definitions. A server of an older version has no list of them.
func (r *Remote) Served(ctx context.Context) ([]driver.ServedKind, error) {
	list, err := r.API.ListKinds(ctx)
	if err != nil && fault.Of(err).Code == "NOT_FOUND" {
		return nil, nil
	}
	return compiled(list.Items), err
}

// PlanFlow implements Definitions.
func (r *Remote) PlanFlow(ctx context.Context, flow string, input []byte) (view.Plan, error) {
	answer, err := r.API.Plan(ctx, client.PlanRequest{Flow: flow, Input: input}, client.PlanParams{})
	if err != nil || answer.Plan == nil {
		return view.Plan{}, err
	}
	return *answer.Plan, nil
}

// PlanObject implements Definitions.
func (r *Remote) PlanObject(ctx context.Context, ref control.Ref, manifest *control.Object) (plan machine.Plan, err error) {
	req := client.PlanRequest{Object: &ref}
	if manifest != nil {
		req = client.PlanRequest{Manifest: &client.ObjectManifest{
			Kind: manifest.Kind, Namespace: manifest.Namespace, Name: manifest.Name, Labels: manifest.Labels,
			Annotations: manifest.Annotations, Spec: manifest.Spec,
		}}
	}
	answer, err := r.API.Plan(ctx, req, client.PlanParams{})
	if err != nil || answer.Machine == nil {
		return plan, err
	}
	err = json.Unmarshal(answer.Machine, &plan)
	return plan, err
}

// Objects implements Backend.
func (r *Remote) Objects() (control.Objects, error) { return remoteObjects{r.API}, nil }

// remoteObjects are those of a server.
type remoteObjects struct{ api *client.Client }

// Get implements control.Objects.
func (o remoteObjects) Get(ctx context.Context, ref control.Ref) (control.Object, error) {
	return o.api.GetObject(ctx, ref.Kind, ref.Namespace, ref.Name)
}

// List implements control.Objects.
func (o remoteObjects) List(ctx context.Context, q control.Query) (page control.Page, err error) {
	params := client.ListObjectsParams{Limit: min(q.Limit, largestPage), Cursor: q.Cursor}
	if len(q.Selector) > 0 {
		params.Selector = q.Selector.String()
	}
	switch {
	case q.Kind != "" && q.Namespace != "":
		return o.api.ListObjectsOfNamespace(ctx, q.Kind, q.Namespace, client.ListObjectsOfNamespaceParams(params))
	case q.Kind != "":
		return o.api.ListObjectsOfKind(ctx, q.Kind, client.ListObjectsOfKindParams(params))
	}
	page, err = o.api.ListObjects(ctx, params)
	if q.Namespace != "" { // the API has no list of a namespace over all kinds
		var kept []control.Object
		for _, item := range page.Items {
			if item.Namespace == q.Namespace {
				kept = append(kept, item)
			}
		}
		page.Items = kept
	}
	return page, err
}

// Apply implements control.Objects.
func (o remoteObjects) Apply(ctx context.Context, want control.Object) (control.Object, error) {
	var params client.ApplyObjectParams
	switch want.Revision {
	case 0:
	case control.MustNotExist:
		params.IfNoneMatch = "*"
	default:
		params.IfMatch = etag(want.Revision)
	}
	body := client.ApplyObjectRequest{
		Kind: want.Kind, Namespace: want.Namespace, Name: want.Name, Labels: want.Labels, Annotations: want.Annotations,
		Spec: want.Spec, Finalizers: want.Finalizers, Owner: want.Owner,
	}
	return o.api.ApplyObject(ctx, want.Kind, want.Namespace, want.Name, body, params)
}

// objectPatch is the merge patch of an update; what is null is removed.
type objectPatch struct {
	Labels      map[string]*string `json:"labels"`
	Annotations map[string]*string `json:"annotations"`
	Spec        json.RawMessage    `json:"spec"`
	Status      json.RawMessage    `json:"status"`
	Finalizers  []string           `json:"finalizers"`
	Owner       *control.Owner     `json:"owner"`
}

// Update implements control.Objects.
func (o remoteObjects) Update(ctx context.Context, next control.Object) (control.Object, error) {
	was, err := o.Get(ctx, next.Ref)
	if err != nil {
		return control.Object{}, err
	}
	return o.api.PatchObject(ctx, next.Kind, next.Namespace, next.Name, objectPatch{
		Labels: replacing(was.Labels, next.Labels), Annotations: replacing(was.Annotations, next.Annotations),
		Spec: next.Spec, Status: next.Status, Finalizers: next.Finalizers, Owner: next.Owner,
	}, client.PatchObjectParams{IfMatch: etag(next.Revision)})
}

// replacing is the merge patch that turns was into next.
func replacing(was, next map[string]string) map[string]*string {
	patch := map[string]*string{}
	for key := range was {
		patch[key] = nil
	}
	for key, value := range next {
		patch[key] = &value
	}
	return patch
}

// Delete implements control.Objects.
func (o remoteObjects) Delete(ctx context.Context, ref control.Ref, revision int64) (control.Object, error) {
	match := "*"
	if revision != 0 {
		match = etag(revision)
	}
	return o.api.DeleteObject(ctx, ref.Kind, ref.Namespace, ref.Name, client.DeleteObjectParams{IfMatch: match})
}

// Feed implements control.Objects for backends that only wait for changes; see Changes.
func (remoteObjects) Feed(string) control.Source[control.Object] { return noFeed{} }

type noFeed struct{}

var errNoFeed = errors.New("the API of a server has no feed of whole objects: wait for Changes and read")

func (noFeed) List(context.Context) ([]control.Item[control.Object], string, error) {
	return nil, "", errNoFeed
}

func (noFeed) Watch(context.Context, string) iter.Seq2[control.Change[control.Object], error] {
	return func(yield func(control.Change[control.Object], error) bool) {
		yield(control.Change[control.Object]{}, errNoFeed)
	}
}
