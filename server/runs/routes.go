// Package runs serves runs under /v1/runs: their state, their history and the requests to
// them. Other resources find the runs that a caller may see through its Service.
package runs

import (
	"net/http"

	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/workflow"
)

// Service serves the runs of an engine.
type Service struct {
	Engine   *workflow.Engine
	Clusters *service.Service // nil: no run is that of a cluster
	Objects  control.Objects  // nil: no subject is an object
	Callers  auth.Callers
}

// Routes are the routes of runs. Verbs that depend on the internals of steps are for
// operators.
func (s *Service) Routes() route.Table {
	const all, one, limits, counts = "/v1/runs", "/v1/runs/{id}", "/v1/limits", "/v1/run-counts"
	const seen = "Callers may use the runs of clusters that they may see; other runs are for operators."
	verb := []int{404, 409, 412, 429}
	revision := &route.Condition{For: "ETag the request is for; absent: any"}
	return route.Table{Tag: "runs", Routes: []route.Route{
		{Method: http.MethodGet, Path: all, ID: "listRuns", Role: route.Operator, Errors: []int{400, 422}, Handle: route.Do(s.list),
			Summary: "List runs"},
		{Method: http.MethodGet, Path: counts, ID: "countRuns", Role: route.Operator, Errors: []int{400, 422}, Handle: route.Do(s.count),
			Summary: "Count runs by phase, by flow and by fault"},
		{Method: http.MethodPost, Path: all, ID: "startRun", Role: route.Operator, Idempotent: true, Status: 202, Errors: []int{404, 429}, Handle: route.Do(s.start),
			Summary: "Start a run", More: "The run is durable before the answer. A repeated request returns the existing run."},
		{Method: http.MethodGet, Path: one, ID: "getRun", Role: route.User, Errors: []int{404}, Handle: route.Do(s.get),
			Summary: "Read a run", More: seen},
		{Method: http.MethodGet, Path: one + "/steps", ID: "runSteps", Role: route.User, Errors: []int{400, 404}, Handle: route.Do(s.steps),
			Summary: "Read the steps of a run", More: "All steps that were reached, page by page, in the order in which they were opened. " + seen},
		{Method: http.MethodGet, Path: one + "/step-states", ID: "runStepStates", Role: route.User, Errors: []int{404}, Handle: route.Do(s.stepStates),
			Summary: "Count the steps of a run by path and phase", More: "All steps that were reached, those of a loop counted together. " + seen},
		{Method: http.MethodGet, Path: one + "/history", ID: "runHistory", Role: route.User, Errors: []int{400, 404}, Handle: route.Do(s.history),
			Summary: "Read the events of a run", More: seen},
		{Method: http.MethodGet, Path: one + "/logs", ID: "runLogs", Role: route.Operator, Errors: []int{400, 404, 409, 422}, Handle: route.Do(s.logs),
			Summary: "Read what the steps of a run have printed", More: "Lines of one attempt in the order of writing, those of several in the order of time. Of an attempt the first and the last 128 KiB are kept, of a run the newest 4 MiB; a line says how much is left out."},
		{Method: http.MethodPost, Path: one + "/pause", ID: "pauseRun", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: verb, Handle: verbOf(s, s.pause),
			Summary: "Pause a run: running attempts finish", More: seen},
		{Method: http.MethodPost, Path: one + "/resume", ID: "resumeRun", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: verb, Handle: verbOf(s, s.resume),
			Summary: "Resume a paused run", More: seen},
		{Method: http.MethodPost, Path: one + "/cancel", ID: "cancelRun", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: verb, Handle: verbOf(s, s.cancel),
			Summary: "Stop a run: hold, undo or drop", More: seen},
		{Method: http.MethodPost, Path: one + "/skip", ID: "skipRun", Role: route.Operator, Idempotent: true, IfMatch: revision, NeedsBody: true, Status: 202, Errors: verb, Handle: verbOf(s, s.skip),
			Summary: "Skip a failed or waiting step"},
		{Method: http.MethodPost, Path: one + "/progress", ID: "progressRun", Role: route.Operator, Idempotent: true, IfMatch: revision, NeedsBody: true, Status: 202, Errors: verb, Handle: verbOf(s, s.progress),
			Summary: "Report the progress of a step that works outside"},
		{Method: http.MethodPost, Path: one + "/signal", ID: "signalRun", Role: route.Operator, Idempotent: true, IfMatch: revision, NeedsBody: true, Status: 202, Errors: verb, Handle: verbOf(s, s.signal),
			Summary: "Send a signal to a run: durable before the answer, delivered once per id"},
		{Method: http.MethodGet, Path: limits, ID: "listLimits", Role: route.Operator, Errors: []int{400, 422}, Handle: route.Do(s.listLimits),
			Summary: "List the keys that limit how many runs run at once", More: "The keys of active runs, and those whose number was set, in their order."},
		{Method: http.MethodPut, Path: limits, ID: "setLimit", Role: route.Operator, Errors: []int{400, 422}, Handle: route.Do(s.setLimit),
			Summary: "Set how many runs of a key run at once, in place of what flows say", More: "Runs that run already go on."},
		{Method: http.MethodDelete, Path: limits, ID: "resetLimit", Role: route.Operator, Errors: []int{400, 422}, Handle: route.Do(s.resetLimit),
			Summary: "Let the numbers of the flows count again for a key"},
	}}
}
