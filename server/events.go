package server

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// RunEvent is the data of the events `run` and `step`.
type RunEvent struct {
	ID string `json:"id" doc:"of the run"`
	view.Event
	State workflow.Phase `json:"state,omitempty" doc:"phase of the run, if the event has one"`
}

// ObjectEvent is the data of the event `object`.
type ObjectEvent struct {
	ID       string `json:"id" doc:"kind/namespace/name"`
	Revision int64  `json:"revision"`
	State    string `json:"state,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
}

// ClusterEvent is the data of the events `cluster`, `drift` and `leak`.
type ClusterEvent struct {
	ID        string    `json:"id" doc:"of the cluster"`
	Revision  int64     `json:"revision"`
	State     string    `json:"state,omitempty"`
	From      string    `json:"from,omitempty" doc:"previous state of a transition"`
	Event     string    `json:"event,omitempty" doc:"event of the lifecycle, or the request"`
	Code      string    `json:"code,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Run       string    `json:"run,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Seq       int64     `json:"seq" doc:"of the cluster's history"`
	At        time.Time `json:"at"`
}

func clusterEventOf(e *cluster.Event) ClusterEvent {
	return ClusterEvent{ID: e.Cluster, Revision: e.Revision, State: e.State, From: e.From, Event: e.Event, Code: string(e.Reason.Code), Reason: e.Reason.Text,
		Run: e.RunID, Operation: e.Job, Seq: e.Seq, At: e.At}
}

// StreamFrom is the position at which a stream continues.
type StreamFrom struct {
	LastEventID string `header:"Last-Event-ID" doc:"continue after this event; absent: from now on"`
	After       string `query:"after" doc:"the same for clients that cannot set headers"`
}

type eventStream struct {
	StreamFrom
	Run   string   `query:"run" doc:"only events of this run"`
	Types []string `query:"type" enum:"run,step,waiting,object,cluster,drift,leak" doc:"only these types"`
}

type clusterStream struct {
	ClusterPath
	StreamFrom
	Types []string `query:"type" enum:"run,step,waiting,cluster,drift,leak" doc:"only these types"`
}

func (s *Server) eventRoutes() {
	schema := func(v any) *huma.Schema {
		return huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, reflect.TypeOf(v))
	}
	data := func(name string, v *huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Title: "event: " + name, Properties: map[string]*huma.Schema{
			"id": {Type: huma.TypeString}, "event": {Type: huma.TypeString, Enum: []any{name}}, "data": v}, Required: []string{"event", "data"}}
	}
	run, object, one := schema(RunEvent{}), schema(ObjectEvent{}), schema(ClusterEvent{})
	kinds := []*huma.Schema{data("run", run), data("step", run), data("waiting", schema(WaitingEvent{})), data("object", object), data("cluster", one), data("drift", one), data("leak", one),
		data("reset", &huma.Schema{Type: huma.TypeObject})}
	op := func(id, path, summary, more string, errs ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"events"}, Errors: errs,
			Description: "Server-sent events. " + more + " Last-Event-ID continues without a gap; after an id that is too old comes one event `reset`, and the client must read its data again. " +
				"`waiting` reports what a run waits for now, since when and until when: in the stream of a cluster or of a run at each change, else when a step begins to wait or to retry. " +
				"A comment comes every 15 s. The server disconnects a reader that is too slow; it reconnects.",
			Responses: map[string]*huma.Response{"200": {Description: "Events", Content: map[string]*huma.MediaType{"text/event-stream": {
				Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{OneOf: kinds}}}}}}}
	}
	registerRoute(s, op("events", "/v1/events", "Stream events",
		"Callers get only events of objects that they may list: all but operators get those of their clusters and the runs of these.", 400, 404), User, s.events)
	registerRoute(s, op("clusterEvents", "/v1/clusters/{id}/events", "Stream the events of a cluster", "Events of the cluster and of its runs.", 400, 404, http.StatusNotImplemented), User, s.clusterEvents)
}

func (s *Server) events(ctx context.Context, in *eventStream) (*huma.StreamResponse, error) {
	stream, err := s.stream(ctx, in.StreamFrom, in.Types)
	if err != nil {
		return nil, err
	}
	if in.Run != "" {
		r, err := s.visibleHead(ctx, in.Run)
		if err != nil {
			return nil, err
		}
		stream.run, stream.clusters = r.ID, nil
	}
	if stream.run == "" && stream.who.Operator && stream.wants("object") {
		stream.objects = s.options.Objects
	}
	return stream.response(), nil
}

func (s *Server) clusterEvents(ctx context.Context, in *clusterStream) (*huma.StreamResponse, error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	stream, err := s.stream(ctx, in.StreamFrom, in.Types)
	if err != nil {
		return nil, err
	}
	stream.cluster = record.Cluster.UUID
	return stream.response(), nil
}

// stream returns a stream of all events that the caller may see, without those of objects.
func (s *Server) stream(ctx context.Context, from StreamFrom, types []string) (*stream, error) {
	lister, err := s.lister()
	if err != nil {
		return nil, err
	}
	at, err := parsePosition(cmp.Or(from.LastEventID, from.After))
	t := &stream{s: s, lister: lister, pos: at, mustReset: err != nil, fromReader: at.cursor != "", who: s.caller(ctx), clusters: s.options.Clusters, visible: map[string]bool{}}
	t.wants = func(kind string) bool { return len(types) == 0 || slices.Contains(types, kind) }
	return t, nil
}

func (t *stream) response() *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if r.Method == http.MethodHead { // the answer has no body
			w.Header().Set("Content-Type", "text/event-stream")
			return
		}
		who := callOf(r.Context()).who
		t.authorized = func() bool {
			again, err := t.s.identify(r)
			return err == nil && again == who
		}
		t.serve(r.Context(), w)
	}}
}

// kindOfEvent returns step or run.
func kindOfEvent(e workflow.Event) string {
	if strings.HasPrefix(string(e.Kind), "Step") {
		return "step"
	}
	return "run"
}

// phaseOf returns the phase of a run after an event; empty: the event does not change it.
func phaseOf(kind workflow.EventKind) workflow.Phase {
	switch kind {
	case workflow.RunStarted, workflow.RunResumed:
		return workflow.Running
	case workflow.RunWaiting:
		return workflow.Waiting
	case workflow.RunPaused:
		return workflow.Paused
	case workflow.RunCancelling:
		return workflow.Cancelling
	case workflow.RunCancelled:
		return workflow.Cancelled
	case workflow.RunSucceeded:
		return workflow.Succeeded
	default:
		return ""
	}
}
