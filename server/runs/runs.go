package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// runAnswer is a run with its revision as ETag.
type runAnswer struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     view.Run
}

func (s *Service) answer(ctx context.Context, r *runtype.Run) *runAnswer {
	v := view.OfRun(r, s.Flow(r.Flow, r.Subject)).Newest(view.StepPage)
	if w, err := s.Waiting(ctx, r); err == nil { // without it if it cannot be read, as below
		v.Waiting = w
	}
	if limiter, ok := s.Engine.Store().(runstore.RunLimiter); ok && len(r.Limits) > 0 && !r.Phase.Final() {
		if limits, err := limiter.RunLimitsOf(ctx, r.ID); err == nil && len(limits) > 0 {
			v.Limits = view.OfLimits(limits)
		}
	}
	if waits, err := s.Engine.StepLimitsOf(ctx, r); err == nil {
		v.Limits = append(v.Limits, view.OfStepLimits(waits)...)
	}
	if v.Phase == runtype.Queued && !v.WaitsForLimits() {
		if ahead, err := s.active(ctx, r.Subject); err == nil {
			v.Behind = ahead
		}
	}
	return &runAnswer{ETag: route.ETag(r.Revision), Body: v}
}

// active returns the id of the active run of a subject; empty: none.
func (s *Service) active(ctx context.Context, subject string) (string, error) {
	lister, err := s.Lister()
	if err != nil {
		return "", err
	}
	active := []runtype.Phase{runtype.Running, runtype.Waiting, runtype.Paused, runtype.Cancelling}
	runs, _, err := lister.List(ctx, runstore.Query{Subject: subject, Phases: active, Limit: 10})
	for _, r := range runs {
		if r.Parent == "" {
			return r.ID, err
		}
	}
	return "", err
}

// RunPath names the run of a request.
type RunPath struct {
	ID string `path:"id" maxLength:"26" doc:"id of the run, or a unique prefix of it"`
}

// By holds the reason and the actor of a request to a run.
type By struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"why, for history"`
	Actor  string `json:"actor,omitempty" maxLength:"200" doc:"operators only: the person behind the request; default: the account"`
}

// actor returns the actor of a request, with its revision and its request id.
func (s *Service) actor(ctx context.Context, by By) (workflow.Actor, error) {
	c := route.CallOf(ctx)
	if by.Actor != "" && c.Who.Role < route.Operator {
		return workflow.Actor{}, route.Forbidden.Errorf("%s is %s and may not set the actor", c.Who.Name, c.Who.Role)
	}
	return workflow.Actor{Name: cmp.Or(by.Actor, c.Who.Name), Reason: by.Reason, Revision: c.Revision, RequestID: c.RequestID()}, nil
}

type startRun struct {
	Body struct {
		Flow      string            `json:"flow" minLength:"1"`
		Subject   string            `json:"subject" minLength:"1" doc:"kind/namespace/name of the object that the run works on"`
		RequestID string            `json:"requestID,omitempty" maxLength:"300" doc:"requests with the same subject, flow and request id are one run; default: the Idempotency-Key"`
		Input     json.RawMessage   `json:"input,omitempty"`
		Labels    map[string]string `json:"labels,omitempty"`
		Priority  int               `json:"priority,omitempty" doc:"among the runs that wait for the same limit, from -1000 to 1000: higher first; one point is worth a minute of waiting"`
		By
	}
}

type verbRequest[B any] struct {
	RunPath
	Body *B
}

type (
	pauseBody  struct{ By }
	resumeBody struct {
		By
		From       workflow.From `json:"from,omitempty" doc:"failed, first, or the instance name of a step; default: that of the flow"`
		Definition string        `json:"definition,omitempty" enum:"old,new" doc:"after FLOW_CHANGED"`
	}
	cancelBody struct {
		By
		Mode   runtype.Mode `json:"mode,omitempty" enum:"hold,undo,drop" doc:"hold (default): keep the done steps, end paused; undo: undo them; drop: keep them and end"`
		GiveUp bool         `json:"giveUp,omitempty" doc:"do not retry a failed undo"`
	}
	skipBody struct {
		By
		Step   string          `json:"step" minLength:"1" doc:"instance name"`
		Output json.RawMessage `json:"output,omitempty" doc:"replaces the step's own output"`
		Force  bool            `json:"force,omitempty" doc:"also if the step is not skippable"`
	}
	signalBody struct {
		Name  string          `json:"name" pattern:"^[A-Za-z][A-Za-z0-9_.-]{0,62}$"`
		ID    string          `json:"id,omitempty" maxLength:"300" doc:"the same id counts once; default: the Idempotency-Key, or a new one"`
		Data  json.RawMessage `json:"data,omitempty" doc:"at most 64 KiB"`
		Actor string          `json:"actor,omitempty" maxLength:"200"`
	}
	progressBody struct {
		Step  string `json:"step" minLength:"1" doc:"instance name"`
		Done  int64  `json:"done" minimum:"0"`
		Total int64  `json:"total,omitempty" minimum:"0"`
		Text  string `json:"text,omitempty" maxLength:"1000"`
	}
)

// verbOf handles a request to a run. It loads the run once: the condition is checked
// on it, and it is the answer when the request is durable.
func verbOf[B any](s *Service, do func(ctx context.Context, l runstore.Loaded, body B) error) route.Handler {
	return route.Do(func(ctx context.Context, in *verbRequest[B]) (*runAnswer, error) {
		l, err := s.Visible(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		r, c := l.Run, route.CallOf(ctx)
		if c.Revision != route.AnyRevision && c.Revision != r.Revision {
			return nil, nameRun(ctx, r.ID, conflictOf(r, c.Revision))
		}
		var body B
		if in.Body != nil {
			body = *in.Body
		}
		answer := s.answer(ctx, r) // before the engine changes the run
		if err := do(ctx, l, body); err != nil {
			return nil, nameRun(ctx, r.ID, err)
		}
		return answer, nil
	})
}

// nameRun returns the problem of a request to a run; it names the run.
func nameRun(ctx context.Context, run string, err error) error {
	p := route.ProblemOf(ctx, err)
	p.Run = run
	return p
}

func conflictOf(r *runtype.Run, expected int64) error {
	return fault.WriteConflict.Errorf("run %s is at revision %d, not %d", r.ID, r.Revision, expected).With("revision", r.Revision)
}

func (s *Service) pause(ctx context.Context, l runstore.Loaded, b pauseBody) error {
	by, err := s.actor(ctx, b.By)
	if err != nil {
		return err
	}
	return s.Engine.SendRequest(ctx, l, runtype.VerbPause, workflow.RunRequest{Actor: by})
}

func (s *Service) resume(ctx context.Context, l runstore.Loaded, b resumeBody) error {
	by, err := s.actor(ctx, b.By)
	if err != nil {
		return err
	}
	return s.Engine.SendRequest(ctx, l, runtype.VerbResume, workflow.RunRequest{Actor: by, From: b.From, Definition: b.Definition})
}

func (s *Service) cancel(ctx context.Context, l runstore.Loaded, b cancelBody) error {
	by, err := s.actor(ctx, b.By)
	if err != nil {
		return err
	}
	return s.Engine.SendRequest(ctx, l, runtype.VerbCancel, workflow.RunRequest{Actor: by, Mode: cmp.Or(b.Mode, runtype.Hold), GiveUp: b.GiveUp})
}

func (s *Service) skip(ctx context.Context, l runstore.Loaded, b skipBody) error {
	by, err := s.actor(ctx, b.By)
	if err != nil {
		return err
	}
	return s.Engine.SendRequest(ctx, l, runtype.VerbSkip, workflow.RunRequest{Actor: by, Step: b.Step, Output: b.Output, Force: b.Force})
}

func (s *Service) progress(ctx context.Context, l runstore.Loaded, b progressBody) error {
	p := runtype.Progress{Done: b.Done, Total: b.Total, Text: b.Text, At: time.Now().UTC()}
	return s.Engine.SendRequest(ctx, l, runtype.VerbProgress, workflow.RunRequest{Step: b.Step, Progress: &p})
}

func (s *Service) signal(ctx context.Context, l runstore.Loaded, b signalBody) error {
	c := route.CallOf(ctx)
	return s.Engine.Post(ctx, l, runtype.Signal{ID: cmp.Or(b.ID, c.RequestID()), Name: b.Name, Payload: b.Data, Actor: cmp.Or(b.Actor, c.Who.Name), At: time.Now().UTC()})
}

func (s *Service) start(ctx context.Context, in *startRun) (*runAnswer, error) {
	by, err := s.actor(ctx, in.Body.By)
	if err != nil {
		return nil, err
	}
	r, err := s.Engine.Start(ctx, workflow.Request{
		Flow: in.Body.Flow, Subject: in.Body.Subject, RequestID: cmp.Or(in.Body.RequestID, by.RequestID),
		Input: in.Body.Input, Labels: in.Body.Labels, Priority: in.Body.Priority, Actor: by,
	})
	if err != nil {
		return nil, err
	}
	route.CallOf(ctx).Target = r.ID
	answer := s.answer(ctx, r)
	answer.Location = "/v1/runs/" + r.ID
	return answer, nil
}

func (s *Service) get(ctx context.Context, in *struct {
	RunPath
	IfNoneMatch string `header:"If-None-Match" doc:"304 if this is still its ETag"`
}) (*runAnswer, error) {
	l, err := s.Visible(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, l.Run), nil
}

func (s *Service) steps(ctx context.Context, in *struct {
	RunPath
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"500"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*route.One[view.Steps], error) {
	var after int
	if in.Cursor != "" {
		var err error
		if after, err = strconv.Atoi(in.Cursor); err != nil || after < 0 {
			return nil, route.CursorInvalid.Errorf("cursor %q", in.Cursor)
		}
	}
	l, err := s.Visible(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return route.OneOf(view.OfSteps(l.Run, s.Flow(l.Run.Flow, l.Run.Subject), after, in.Limit), nil)
}

func (s *Service) stepStates(ctx context.Context, in *struct{ RunPath }) (*route.One[view.StepStates], error) {
	l, err := s.Visible(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return route.OneOf(view.OfStepStates(l.Run), nil)
}

func (s *Service) history(ctx context.Context, in *struct {
	RunPath
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"500"`
	Cursor string `query:"cursor" doc:"next of the previous page, or the seq of the last known event"`
}) (*route.One[view.History], error) {
	lister, err := s.Lister()
	if err != nil {
		return nil, err
	}
	r, err := s.Head(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var after int64
	if in.Cursor != "" {
		if after, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || after < 0 {
			return nil, route.CursorInvalid.Errorf("cursor %q", in.Cursor)
		}
	}
	events, err := lister.History(ctx, r.ID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	page := view.History{Items: view.OfEvents(events)}
	if len(events) == in.Limit {
		page.Next = strconv.FormatInt(events[len(events)-1].Seq, 10)
	}
	return route.OneOf(page, nil)
}
