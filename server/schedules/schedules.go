// Package schedules serves schedules under /v1/schedules: what their calendars say, and the verbs that steer them. Their
// specs are changed as those of all objects.
package schedules

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Service serves the schedules of a store of objects.
type Service struct {
	Engine  *workflow.Engine
	Objects control.Objects // nil: NOT_SERVED
}

// Routes are the routes of schedules.
func (s *Service) Routes() route.Table {
	const all, one = "/v1/schedules", "/v1/schedules/{namespace}/{name}"
	return route.Table{Tag: "schedules", Errors: []int{http.StatusNotImplemented}, Routes: []route.Route{
		{Method: http.MethodGet, Path: all, ID: "listSchedules", Role: route.Operator, Errors: []int{400}, Handle: route.Do(s.list),
			Summary: "List schedules with their next ticks"},
		{Method: http.MethodGet, Path: one, ID: "getSchedule", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.get),
			Summary: "Read a schedule with its next ticks", More: "Its runs have the label pawl.dev/schedule=NAMESPACE/NAME."},
		{Method: http.MethodPost, Path: one + "/pause", ID: "pauseSchedule", Role: route.Operator, Idempotent: true, Errors: []int{404, 409}, Handle: route.Do(s.pause),
			Summary: "Pause a schedule: it starts nothing until it is resumed"},
		{Method: http.MethodPost, Path: one + "/resume", ID: "resumeSchedule", Role: route.Operator, Idempotent: true, Errors: []int{404, 409}, Handle: route.Do(s.resume),
			Summary: "End the pause of a schedule", More: "The ticks of the pause are not made up for."},
		{Method: http.MethodPost, Path: one + "/trigger", ID: "triggerSchedule", Role: route.Operator, Idempotent: true, Status: http.StatusAccepted, Errors: []int{404, 429}, Handle: route.Do(s.trigger),
			Summary: "Start a run of a schedule now", More: "It waits in the queue of its subject, whatever the schedule says of overlap."},
		{Method: http.MethodPost, Path: one + "/backfill", ID: "backfillSchedule", Role: route.Operator, Idempotent: true, NeedsBody: true, Errors: []int{404, 429}, Handle: route.Do(s.backfill),
			Summary: "Start the runs of ticks of the past that have none", More: "At most 100 ticks, each once however often it is asked."},
	}}
}

func (s *Service) objects() (control.Objects, error) {
	if s.Objects == nil {
		return nil, route.NotServed.Errorf("this server has no objects, and so no schedules")
	}
	return s.Objects, nil
}

func (s *Service) list(ctx context.Context, in *struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*route.ListOf[view.Schedule], error) {
	objects, err := s.objects()
	if err != nil {
		return nil, err
	}
	page, err := objects.List(ctx, control.Query{Kind: schedule.Kind, Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return nil, route.CursorError(in.Cursor, err)
	}
	now := time.Now()
	list := route.NewList([]view.Schedule{})
	for _, o := range page.Items {
		list.Body.Items = append(list.Body.Items, view.OfSchedule(o, now))
	}
	list.Body.Next = page.Next
	return list, nil
}

// Path names the schedule of a request.
type Path struct {
	Namespace string `path:"namespace"`
	Name      string `path:"name"`
}

func (p Path) ref() control.Ref {
	return control.Ref{Kind: schedule.Kind, Namespace: p.Namespace, Name: p.Name}
}

func (s *Service) object(ctx context.Context, p Path) (control.Object, error) {
	objects, err := s.objects()
	if err != nil {
		return control.Object{}, err
	}
	return objects.Get(ctx, p.ref())
}

func (s *Service) get(ctx context.Context, in *Path) (*route.One[view.Schedule], error) {
	o, err := s.object(ctx, *in)
	return route.OneOf(view.OfSchedule(o, time.Now()), err)
}

type schedulePauseBody struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"why, for those who read the schedule"`
	DryRun bool   `json:"dryRun,omitempty" doc:"change nothing, and answer with the schedule as it would be"`
}

type changeRequest struct {
	Path
	Body *schedulePauseBody
}

func (s *Service) pause(ctx context.Context, in *changeRequest) (*route.One[view.Schedule], error) {
	why := "by " + route.CallOf(ctx).Who.Name
	if in.Body != nil && in.Body.Reason != "" {
		why += ": " + in.Body.Reason
	}
	return s.change(ctx, in, func(o *control.Object) { schedule.Pause(o, why) })
}

func (s *Service) resume(ctx context.Context, in *changeRequest) (*route.One[view.Schedule], error) {
	return s.change(ctx, in, schedule.Resume)
}

// change changes a schedule, or with DryRun a copy of it.
func (s *Service) change(ctx context.Context, in *changeRequest, change func(*control.Object)) (*route.One[view.Schedule], error) {
	o, err := s.object(ctx, in.Path)
	switch {
	case err != nil:
	case in.Body != nil && in.Body.DryRun:
		o = o.Copy()
		change(&o)
	default:
		o, err = control.Modify(ctx, s.Objects, in.ref(), func(o *control.Object) error { change(o); return nil })
	}
	return route.OneOf(view.OfSchedule(o, time.Now()), err)
}

type runAnswer struct {
	Location string `header:"Location"`
	Body     view.Run
}

func (s *Service) trigger(ctx context.Context, in *struct {
	Path
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"why, for the history of the run"`
	}
}) (*runAnswer, error) {
	o, err := s.object(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	c := route.CallOf(ctx)
	by := workflow.Actor{Name: c.Who.Name, RequestID: c.RequestID()}
	if in.Body != nil {
		by.Reason = in.Body.Reason
	}
	req, err := schedule.TriggerOf(o, cmp.Or(by.RequestID, control.NewUID()), by)
	if err != nil {
		return nil, err
	}
	r, err := s.Engine.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	c.Target = r.ID
	return &runAnswer{Location: "/v1/runs/" + r.ID, Body: view.OfRun(r, workflow.FlowFor(s.Engine.Flows(), r.Flow, ""))}, nil
}

func (s *Service) backfill(ctx context.Context, in *struct {
	Path
	Body struct {
		From   time.Time `json:"from" doc:"first tick"`
		To     time.Time `json:"to" doc:"last tick, not in the future"`
		DryRun bool      `json:"dryRun,omitempty" doc:"start nothing, and tell what would start"`
	}
}) (*route.ListOf[schedule.Backfilled], error) {
	o, err := s.object(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	list := route.NewList([]schedule.Backfilled{})
	wanted := schedule.Backfill{From: in.Body.From, To: in.Body.To, DryRun: in.Body.DryRun, By: route.CallOf(ctx).Who.Name}
	err = wanted.Run(ctx, o, starter{s.Engine}, time.Now(), func(one schedule.Backfilled) { list.Body.Items = append(list.Body.Items, one) })
	return list, err
}

// starter is a schedule.Starter on an engine.
type starter struct{ *workflow.Engine }

// Exists implements schedule.Starter.
func (s starter) Exists(ctx context.Context, run string) (bool, error) {
	_, _, err := s.Store().Load(ctx, run)
	if errors.Is(err, runstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Start implements schedule.Starter.
func (s starter) Start(ctx context.Context, r workflow.Request) error {
	_, err := s.Engine.Start(ctx, r)
	return err
}
