// Package events streams what was saved: server-sent events of runs, objects and clusters,
// from any position of an earlier stream.
package events

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/clusters"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/runs"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Options of a Service.
type Options struct {
	Runs     *runs.Service
	Clusters *clusters.Service
	Objects  control.Objects // nil: no events of objects
	// Changes tells of changes of objects, by the type of their events: rollout, foundationdb. A ref without a name is all
	// of them; a type that is missing has no events.
	Changes  map[string]func(ctx context.Context, ref control.Ref) <-chan struct{}
	Callers  auth.Callers
	Notifier *control.Notifier // wakes streams; the events of other processes are found by polling
	Identify func(*http.Request) (route.Principal, error)
	Log      *slog.Logger

	Heartbeat    time.Duration // between comments of an idle stream
	SlowReader   time.Duration // for one write to the reader
	PollInterval time.Duration // between polls without notifications
}

// Service serves event streams.
type Service struct {
	Options
	ended   chan struct{} // closed when streams must end
	endOnce sync.Once
	tails   tails
}

// New returns a service.
func New(o Options) *Service { return &Service{Options: o, ended: make(chan struct{})} }

// End ends all streams, now and later. Their readers reconnect.
func (s *Service) End() { s.endOnce.Do(func() { close(s.ended) }) }

// Hook returns a hook that notifies of each saved event.
func Hook(n *control.Notifier) workflow.Hook {
	return workflow.Hook{Name: "events", OnEvent: func(workflow.RunInfo, runtype.Event) { n.Notify() }}
}

// Routes are the routes of event streams. The document describes their events with the
// schemas of the API.
func (s *Service) Routes(schemas huma.Registry) route.Table {
	const about = " Last-Event-ID continues without a gap; after an id that is too old comes one event `reset`, and the client must read its data again. " +
		"`waiting` reports what a run waits for now, since when and until when: in the stream of a cluster or of a run at each change, else when a step begins to wait or to retry. " +
		"A comment comes every 15 s. The server disconnects a reader that is too slow; it reconnects."
	return route.Table{Tag: "events", Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/events", ID: "events", Role: route.User, Stream: true, Errors: []int{400, 404}, Responses: answers(schemas), Handle: route.Do(s.all),
			Summary: "Stream events", More: "Server-sent events. Callers get only events of objects that they may list: all but operators get those of their clusters and the runs of these." + about},
		{Method: http.MethodGet, Path: "/v1/clusters/{id}/events", ID: "clusterEvents", Role: route.User, Stream: true, Errors: []int{400, 404, 501}, Responses: answers(schemas), Handle: route.Do(s.ofCluster),
			Summary: "Stream the events of a cluster", More: "Server-sent events. Events of the cluster and of its runs." + about},
		{Method: http.MethodGet, Path: "/v1/runs/{id}/logs/stream", ID: "runLogStream", Role: route.Operator, Stream: true, Errors: []int{400, 404, 409, 422}, Responses: logAnswers(schemas), Handle: route.Do(s.ofLogs),
			Summary: "Stream what the steps of a run print", More: "Server-sent events: `log` has lines that are new, `end` says that the run, or the step that was asked for, has ended. " +
				"A line is there in less than 200 ms after it was printed. Last-Event-ID continues without a gap and without tail. A comment comes every 15 s."},
	}}
}

// logAnswers describes a stream of lines.
func logAnswers(schemas huma.Registry) map[string]*huma.Response {
	return streamOf(eventSchema("log", schemaOf(schemas, LogEvent{})), eventSchema("end", schemaOf(schemas, LogEndEvent{})))
}

// answers describes a stream of events.
func answers(schemas huma.Registry) map[string]*huma.Response {
	data, schema := eventSchema, func(v any) *huma.Schema { return schemaOf(schemas, v) }
	run, object, one, changed := schema(RunEvent{}), schema(ObjectEvent{}), schema(ClusterEvent{}), schema(ChangedEvent{})
	return streamOf(data("run", run), data("step", run), data("waiting", schema(WaitingEvent{})), data("object", object), data("cluster", one), data("drift", one), data("leak", one), data("rollout", changed), data("foundationdb", changed),
		data("reset", &huma.Schema{Type: huma.TypeObject}))
}

func schemaOf(schemas huma.Registry, v any) *huma.Schema {
	return huma.SchemaFromType(schemas, reflect.TypeOf(v))
}

func eventSchema(name string, v *huma.Schema) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Title: "event: " + name, Properties: map[string]*huma.Schema{
		"id": {Type: huma.TypeString}, "event": {Type: huma.TypeString, Enum: []any{name}}, "data": v}, Required: []string{"event", "data"}}
}

func streamOf(kinds ...*huma.Schema) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {Description: "Events", Content: map[string]*huma.MediaType{"text/event-stream": {
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{OneOf: kinds}}}}}}
}
