package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// runAnswer is a run with its revision as ETag.
type runAnswer struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     view.Run
}

func (s *Server) runAnswer(ctx context.Context, r *workflow.Run) *runAnswer {
	v := view.OfRun(r, s.flow(r.Flow, r.Subject)).Newest(view.StepPage)
	if w, err := s.waitingOf(ctx, r); err == nil { // without it if it cannot be read, as below
		v.Waiting = w
	}
	if v.Phase == workflow.Queued {
		if ahead, err := s.activeRun(ctx, r.Subject); err == nil {
			v.Behind = ahead
		}
	}
	return &runAnswer{ETag: etag(r.Revision), Body: v}
}

// activeRun returns the id of the active run of a subject; empty: none.
func (s *Server) activeRun(ctx context.Context, subject string) (string, error) {
	lister, err := s.lister()
	if err != nil {
		return "", err
	}
	active := []workflow.Phase{workflow.Running, workflow.Waiting, workflow.Paused, workflow.Cancelling}
	runs, _, err := lister.List(ctx, workflow.Query{Subject: subject, Phases: active, Limit: 10})
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
func (s *Server) actor(ctx context.Context, by By, ifMatch string) (workflow.Actor, error) {
	revision, _, err := revisionOf(ifMatch)
	c := callOf(ctx)
	if by.Actor != "" && c.who.Role < Operator {
		return workflow.Actor{}, Forbidden.Errorf("%s is %s and may not set the actor", c.who.Name, c.who.Role)
	}
	a := workflow.Actor{Name: cmp.Or(by.Actor, c.who.Name), Reason: by.Reason, Revision: revision}
	if c.key != "" {
		a.RequestID = requestID(c)
	}
	return a, err
}

// requestID returns the engine's request id for an Idempotency-Key. Repetitions are one
// request of the engine too, even if the server dies after the engine's write and
// before the answer is stored.
func requestID(c *call) string { return "key:" + cmp.Or(c.who.Account, c.who.Name) + ":" + c.key }

type listRuns struct {
	Phase    []workflow.Phase `query:"phase" enum:"Queued,Running,Waiting,Paused,Cancelling,Cancelled,Succeeded" doc:"any of these, separated by commas"`
	Active   bool             `query:"active" doc:"only those that have not ended"`
	Flow     string           `query:"flow"`
	Subject  string           `query:"subject"`
	Prefix   string           `query:"prefix" doc:"prefix of the id"`
	Hash     string           `query:"hash" doc:"content hash of the definition"`
	Parent   string           `query:"parent" doc:"id of the run that started them"`
	Selector string           `query:"selector" doc:"labels: key=value, key!=value, key, !key, separated by commas"`
	Oldest   bool             `query:"oldest" doc:"oldest first; default: newest first"`
	Limit    int              `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor   string           `query:"cursor" doc:"next of the previous page"`
}

type startRun struct {
	Body struct {
		Flow      string            `json:"flow" minLength:"1"`
		Subject   string            `json:"subject" minLength:"1" doc:"kind/namespace/name of the object that the run works on"`
		RequestID string            `json:"requestID,omitempty" maxLength:"300" doc:"requests with the same subject, flow and request id are one run; default: the Idempotency-Key"`
		Input     json.RawMessage   `json:"input,omitempty"`
		Labels    map[string]string `json:"labels,omitempty"`
		By
	}
}

type verbRequest[B any] struct {
	RunPath
	IfMatch string `header:"If-Match" doc:"ETag the request is for; absent: any"`
	Body    *B
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
		Mode   workflow.Mode `json:"mode,omitempty" enum:"hold,undo,drop" doc:"hold (default): keep the done steps, end paused; undo: undo them; drop: keep them and end"`
		GiveUp bool          `json:"giveUp,omitempty" doc:"do not retry a failed undo"`
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

// clusterRunsNote documents the routes for runs of clusters, which are not for operators only.
const clusterRunsNote = "Callers may use the runs of clusters that they may see; other runs are for operators."

func (s *Server) runRoutes() {
	tags := []string{"runs"}
	registerRoute(s, huma.Operation{OperationID: "listRuns", Method: http.MethodGet, Path: "/v1/runs", Summary: "List runs", Tags: tags,
		Errors: []int{400, 422}}, Operator, s.listRuns)
	registerRoute(s, huma.Operation{OperationID: "startRun", Method: http.MethodPost, Path: "/v1/runs", Summary: "Start a run", Tags: tags,
		Description: "The run is durable before the answer. A repeated request returns the existing run.",
		Errors:      []int{404, 429}, DefaultStatus: http.StatusAccepted}, Operator, s.startRun)
	registerRoute(s, huma.Operation{OperationID: "getRun", Method: http.MethodGet, Path: "/v1/runs/{id}", Summary: "Read a run", Tags: tags,
		Description: clusterRunsNote, Errors: []int{404}}, User, s.getRun)
	registerRoute(s, huma.Operation{OperationID: "runSteps", Method: http.MethodGet, Path: "/v1/runs/{id}/steps", Summary: "Read the steps of a run", Tags: tags,
		Description: "All steps that were reached, page by page, in the order in which they were opened. " + clusterRunsNote, Errors: []int{400, 404}}, User, s.steps)
	registerRoute(s, huma.Operation{OperationID: "runHistory", Method: http.MethodGet, Path: "/v1/runs/{id}/history", Summary: "Read the events of a run", Tags: tags,
		Description: clusterRunsNote, Errors: []int{400, 404}}, User, s.history)

	verbRoute(s, "pause", "Pause a run: running attempts finish", func(ctx context.Context, l workflow.Loaded, b pauseBody, ifMatch string) error {
		by, err := s.actor(ctx, b.By, ifMatch)
		if err != nil {
			return err
		}
		return s.options.Engine.SendRequest(ctx, l, workflow.VerbPause, workflow.RunRequest{Actor: by})
	})
	verbRoute(s, "resume", "Resume a paused run", func(ctx context.Context, l workflow.Loaded, b resumeBody, ifMatch string) error {
		by, err := s.actor(ctx, b.By, ifMatch)
		if err != nil {
			return err
		}
		return s.options.Engine.SendRequest(ctx, l, workflow.VerbResume, workflow.RunRequest{Actor: by, From: b.From, Definition: b.Definition})
	})
	verbRoute(s, "cancel", "Stop a run: hold, undo or drop", func(ctx context.Context, l workflow.Loaded, b cancelBody, ifMatch string) error {
		by, err := s.actor(ctx, b.By, ifMatch)
		if err != nil {
			return err
		}
		return s.options.Engine.SendRequest(ctx, l, workflow.VerbCancel, workflow.RunRequest{Actor: by, Mode: cmp.Or(b.Mode, workflow.Hold), GiveUp: b.GiveUp})
	})
	verbRoute(s, "skip", "Skip a failed or waiting step", func(ctx context.Context, l workflow.Loaded, b skipBody, ifMatch string) error {
		by, err := s.actor(ctx, b.By, ifMatch)
		if err != nil {
			return err
		}
		return s.options.Engine.SendRequest(ctx, l, workflow.VerbSkip, workflow.RunRequest{Actor: by, Step: b.Step, Output: b.Output, Force: b.Force})
	})
	verbRoute(s, "progress", "Report the progress of a step that works outside", func(ctx context.Context, l workflow.Loaded, b progressBody, _ string) error {
		p := workflow.Progress{Done: b.Done, Total: b.Total, Text: b.Text, At: time.Now().UTC()}
		return s.options.Engine.SendRequest(ctx, l, workflow.VerbProgress, workflow.RunRequest{Step: b.Step, Progress: &p})
	})
	verbRoute(s, "signal", "Send a signal to a run: durable before the answer, delivered once per id", s.signal)
}

// verbRoute registers a verb of a run. It loads the run once: the conditions are checked
// on it, and it is the answer when the request is durable. Verbs that name a step or a
// signal need a body.
func verbRoute[B any](s *Server, name, summary string, do func(ctx context.Context, l workflow.Loaded, body B, ifMatch string) error) {
	path, least, more := "/v1/runs/{id}/"+name, Operator, ""
	switch name {
	case "pause", "resume", "cancel": // the others depend on the internals of steps
		least, more = User, clusterRunsNote
	}
	registerRoute(s, huma.Operation{OperationID: name + "Run", Method: http.MethodPost, Path: path, Summary: summary, Description: more, Tags: []string{"runs"},
		Errors: []int{404, 409, 412, 429}, DefaultStatus: http.StatusAccepted}, least,
		func(ctx context.Context, in *verbRequest[B]) (*runAnswer, error) {
			l, err := s.visibleRun(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			r := l.Run
			revision, given, err := revisionOf(in.IfMatch)
			if err != nil {
				return nil, err
			}
			if given && revision != anyRevision && revision != r.Revision {
				return nil, failRun(ctx, r.ID, true, conflictOf(r, revision))
			}
			var body B
			if in.Body != nil {
				body = *in.Body
			}
			answer := s.runAnswer(ctx, r) // before the engine changes the run
			if err := do(ctx, l, body, in.IfMatch); err != nil {
				return nil, failRun(ctx, r.ID, given, err)
			}
			return answer, nil
		})
	if name == "skip" || name == "signal" || name == "progress" {
		s.api.OpenAPI().Paths[path].Post.RequestBody.Required = true
	}
}

func (s *Server) signal(ctx context.Context, l workflow.Loaded, b signalBody, _ string) error {
	c := callOf(ctx)
	id := b.ID
	if id == "" && c.key != "" {
		id = requestID(c)
	}
	return s.options.Engine.Post(ctx, l, workflow.Signal{ID: id, Name: b.Name, Payload: b.Data, Actor: cmp.Or(b.Actor, c.who.Name), At: time.Now().UTC()})
}

func (s *Server) listRuns(ctx context.Context, in *listRuns) (*struct{ Body view.Runs }, error) {
	lister, err := s.lister()
	if err != nil {
		return nil, err
	}
	labels, err := view.Labels(in.Selector)
	if err != nil {
		return nil, err
	}
	runs, next, err := lister.List(ctx, workflow.Query{
		Labels: labels,
		Phases: in.Phase, Active: in.Active, Flow: in.Flow, Subject: in.Subject, Prefix: in.Prefix, Hash: in.Hash, Parent: in.Parent,
		OldestFirst: in.Oldest, Limit: in.Limit, Cursor: in.Cursor,
	})
	if err != nil {
		return nil, cursorError(in.Cursor, err)
	}
	page := view.OfRuns(runs, next, s.options.Engine.Flows())
	known := map[string]string{}
	for i := range page.Items {
		r := &page.Items[i]
		if r.Phase != workflow.Queued || r.Behind != "" {
			continue
		}
		if _, ok := known[r.Subject]; !ok {
			if known[r.Subject], err = s.activeRun(ctx, r.Subject); err != nil {
				return nil, err
			}
		}
		r.Behind = known[r.Subject]
	}
	return &struct{ Body view.Runs }{page}, nil
}

func (s *Server) startRun(ctx context.Context, in *startRun) (*runAnswer, error) {
	by, err := s.actor(ctx, in.Body.By, "")
	if err != nil {
		return nil, err
	}
	r, err := s.options.Engine.Start(ctx, workflow.Request{
		Flow: in.Body.Flow, Subject: in.Body.Subject, RequestID: cmp.Or(in.Body.RequestID, by.RequestID),
		Input: in.Body.Input, Labels: in.Body.Labels, Actor: by,
	})
	if err != nil {
		return nil, err
	}
	callOf(ctx).target = r.ID
	answer := s.runAnswer(ctx, r)
	answer.Location = "/v1/runs/" + r.ID
	return answer, nil
}

func (s *Server) getRun(ctx context.Context, in *struct {
	RunPath
	IfNoneMatch string `header:"If-None-Match" doc:"304 if this is still its ETag"`
}) (*runAnswer, error) {
	l, err := s.visibleRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.runAnswer(ctx, l.Run), nil
}

func (s *Server) steps(ctx context.Context, in *struct {
	RunPath
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"500"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*struct{ Body view.Steps }, error) {
	var after int
	if in.Cursor != "" {
		var err error
		if after, err = strconv.Atoi(in.Cursor); err != nil || after < 0 {
			return nil, CursorInvalid.Errorf("cursor %q", in.Cursor)
		}
	}
	l, err := s.visibleRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &struct{ Body view.Steps }{view.OfSteps(l.Run, s.flow(l.Run.Flow, l.Run.Subject), after, in.Limit)}, nil
}

func (s *Server) history(ctx context.Context, in *struct {
	RunPath
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"500"`
	Cursor string `query:"cursor" doc:"next of the previous page, or the seq of the last known event"`
}) (*struct{ Body view.History }, error) {
	lister, err := s.lister()
	if err != nil {
		return nil, err
	}
	r, err := s.visibleHead(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var after int64
	if in.Cursor != "" {
		if after, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || after < 0 {
			return nil, CursorInvalid.Errorf("cursor %q", in.Cursor)
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
	return &struct{ Body view.History }{page}, nil
}
