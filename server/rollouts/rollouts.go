// Package rollouts serves the Rollouts of a Kubernetes cluster under /v1/rollouts: list, read, preview,
// history, and what a person asks for.
package rollouts

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
)

// Source is a cluster with Rollouts.
type Source interface {
	// List returns a page of Rollouts without their pods; an empty namespace is the source's own, or all.
	List(ctx context.Context, namespace string, limit int, cursor string) (view.Rollouts, error)
	Get(ctx context.Context, ref control.Ref) (view.Rollout, error)
	// History returns all records, the oldest first.
	History(ctx context.Context, ref control.Ref) ([]rollout.Record, error)
	Plan(ctx context.Context, ref control.Ref) (view.RolloutPlan, error)
	// Ask writes a request and waits for its answer; a refusal is an error.
	Ask(ctx context.Context, ref control.Ref, r Request) error
	// Changes tells of changes of a Rollout, its workload and its pods until ctx ends; without a name,
	// of all Rollouts.
	Changes(ctx context.Context, ref control.Ref) <-chan struct{}
}

// Request is what a person asks of a Rollout.
type Request struct {
	Verb   string // approve, pause, resume, retry, undo, abandon
	Batch  string // of approve
	Reason string
	By     string // the caller
}

// Service serves the Rollouts of a source.
type Service struct{ Source Source } // nil: NOT_SERVED

// Verbs are the requests, each a route below that of its Rollout.
var Verbs = []struct{ Name, Summary string }{
	{"approve", "Let the next batch run, whatever batchPartition says"},
	{"pause", "Hold a rollout at the next safe point"},
	{"resume", "End a pause, and go past what paused it"},
	{"retry", "End a pause, and ask again what paused it"},
	{"undo", "Take the pods back to the old template, in batches"},
	{"abandon", "End a rollout; the pods stay as they are"},
}

// Routes are the routes of Rollouts.
func (s *Service) Routes(schemas huma.Registry) route.Table {
	// The position is the status of the object: its CustomResourceDefinition describes it.
	schemas.RegisterTypeAlias(reflect.TypeFor[rollout.Position](), reflect.TypeFor[map[string]any]())
	const one = "/v1/rollouts/{namespace}/{name}"
	t := route.Table{Tag: "rollouts", Errors: []int{501}, Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/rollouts", ID: "listRollouts", Role: route.Operator, Errors: []int{422}, Handle: route.Do(s.list),
			Summary: "List Rollouts", More: "Without their pods."},
		{Method: http.MethodGet, Path: one, ID: "getRollout", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.get),
			Summary: "Read a Rollout with its pods", More: "Batches with their pods, what the present one waits for, gates and metrics with their values, and which requests are of use now."},
		{Method: http.MethodGet, Path: one + "/history", ID: "rolloutHistory", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.history),
			Summary: "Return the history of a Rollout", More: "All records that are kept, the oldest first."},
		{Method: http.MethodGet, Path: one + "/plan", ID: "planRollout", Role: route.Operator, Errors: []int{404, 409, 422}, Handle: route.Do(s.plan),
			Summary: "Say what a Rollout will do from here on", More: "Nothing is written. A plan that would be refused is a problem with its remedy."},
	}}
	for _, v := range Verbs {
		t.Routes = append(t.Routes, route.Route{Method: http.MethodPost, Path: one + "/" + v.Name, ID: v.Name + "Rollout", Role: route.Operator, Idempotent: true,
			Errors: []int{404, 409, 422}, Summary: v.Summary, More: "The answer is the Rollout after its operator has accepted the request.", Handle: route.Do(s.ask(v.Name))})
	}
	return t
}

func (s *Service) source() (Source, error) {
	if s.Source == nil {
		return nil, route.NotServed.Errorf("this server has no Rollouts: pawl console serves those of a Kubernetes cluster")
	}
	return s.Source, nil
}

type listAnswer struct{ Body view.Rollouts }

func (s *Service) list(ctx context.Context, in *struct {
	Namespace string `query:"namespace" doc:"only those of this namespace"`
	Limit     int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor    string `query:"cursor" doc:"next of the previous page"`
}) (*listAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	page, err := from.List(ctx, in.Namespace, in.Limit, in.Cursor)
	if err != nil {
		return nil, route.CursorError(in.Cursor, err)
	}
	if page.Items == nil {
		page.Items = []view.Rollout{}
	}
	return &listAnswer{page}, nil
}

// Path names the Rollout of a request.
type Path struct {
	Namespace string `path:"namespace"`
	Name      string `path:"name"`
}

func (p Path) ref() control.Ref {
	return control.Ref{Kind: view.RolloutKind, Namespace: p.Namespace, Name: p.Name}
}

type oneAnswer struct{ Body view.Rollout }

func (s *Service) get(ctx context.Context, in *Path) (*oneAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	r, err := from.Get(ctx, in.ref())
	if err != nil {
		return nil, err
	}
	return &oneAnswer{r}, nil
}

type historyAnswer struct {
	Body struct {
		Items []rollout.Record `json:"items"`
	}
}

func (s *Service) history(ctx context.Context, in *Path) (*historyAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	answer := &historyAnswer{}
	if answer.Body.Items, err = from.History(ctx, in.ref()); err != nil {
		return nil, err
	}
	if answer.Body.Items == nil {
		answer.Body.Items = []rollout.Record{}
	}
	return answer, nil
}

type planAnswer struct{ Body view.RolloutPlan }

func (s *Service) plan(ctx context.Context, in *Path) (*planAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	p, err := from.Plan(ctx, in.ref())
	if err != nil {
		return nil, err
	}
	return &planAnswer{p}, nil
}

type askInput struct {
	Path
	Body *struct {
		Batch  string `json:"batch,omitempty" maxLength:"10" doc:"of approve: the last batch that may run, its index from 0, next or all; absent: next"`
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"why, for history"`
	}
}

func (s *Service) ask(verb string) func(context.Context, *askInput) (*oneAnswer, error) {
	return func(ctx context.Context, in *askInput) (*oneAnswer, error) {
		from, err := s.source()
		if err != nil {
			return nil, err
		}
		r := Request{Verb: verb, By: route.CallOf(ctx).Who.Name}
		if in.Body != nil {
			r.Batch, r.Reason = in.Body.Batch, in.Body.Reason
		}
		if r.Batch != "" && verb != "approve" {
			return nil, route.Refused.Errorf("batch is for approve")
		}
		if err := from.Ask(ctx, in.ref(), r); err != nil {
			return nil, err
		}
		return s.get(ctx, &in.Path)
	}
}
