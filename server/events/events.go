package events

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/server/clusters"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// RunEvent is the data of the events `run` and `step`.
type RunEvent struct {
	ID string `json:"id" doc:"of the run"`
	view.Event
	State runtype.Phase `json:"state,omitempty" doc:"phase of the run, if the event has one"`
}

// ObjectEvent is the data of the event `object`.
type ObjectEvent struct {
	ID       string `json:"id" doc:"kind/namespace/name"`
	Revision int64  `json:"revision"`
	State    string `json:"state,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
}

// ChangedEvent is the data of the events `rollout` and `foundationdb`: a Rollout, its workload or a pod has changed; or a
// FoundationDBCluster, a backup or a restore of it. It is to be read again.
type ChangedEvent struct {
	ID string `json:"id,omitempty" doc:"namespace/name; absent: any"`
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
	Run     string `query:"run" doc:"only events of this run"`
	Rollout string `query:"rollout" doc:"only changes of this Rollout (namespace/name), of its workload and of its pods"`
	// FoundationDB names a FoundationDBCluster.
	FoundationDB string   `query:"foundationdb" doc:"only changes of this FoundationDBCluster (namespace/name), of its backups and of its restores"`
	Types        []string `query:"type" enum:"run,step,waiting,object,cluster,drift,leak,rollout,foundationdb" doc:"only these types"`
}

type clusterStream struct {
	clusters.ClusterPath
	StreamFrom
	Types []string `query:"type" enum:"run,step,waiting,cluster,drift,leak" doc:"only these types"`
}

func (s *Service) all(ctx context.Context, in *eventStream) (*huma.StreamResponse, error) {
	stream, err := s.stream(ctx, in.StreamFrom, in.Types)
	if err != nil {
		return nil, err
	}
	if in.Run != "" {
		r, err := s.Runs.Head(ctx, in.Run)
		if err != nil {
			return nil, err
		}
		stream.run, stream.clusters = r.ID, nil
	}
	if err := stream.watch(in); err != nil {
		return nil, err
	}
	if stream.run == "" && stream.who.Operator && stream.wants("object") {
		stream.objects = s.Objects
	}
	return stream.response(), nil
}

func (s *Service) ofCluster(ctx context.Context, in *clusterStream) (*huma.StreamResponse, error) {
	record, err := s.Clusters.Record(ctx, in.ID)
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
func (s *Service) stream(ctx context.Context, from StreamFrom, types []string) (*stream, error) {
	lister, err := s.Runs.Lister()
	if err != nil {
		return nil, err
	}
	at, err := parsePosition(cmp.Or(from.LastEventID, from.After))
	t := &stream{s: s, lister: lister, pos: at, mustReset: err != nil, fromReader: at.cursor != "", who: s.Callers.Of(ctx), clusters: s.Clusters.Clusters, visible: map[string]bool{}}
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
		who := route.CallOf(r.Context()).Who
		t.authorized = func() bool {
			again, err := t.s.Identify(r)
			return err == nil && again == who
		}
		t.serve(r.Context(), w)
	}}
}

// kindOfEvent returns step or run.
func kindOfEvent(e runtype.Event) string {
	if strings.HasPrefix(string(e.Kind), "Step") {
		return "step"
	}
	return "run"
}

// phaseOf returns the phase of a run after an event; empty: the event does not change it.
func phaseOf(kind runtype.EventKind) runtype.Phase {
	switch kind {
	case runtype.RunStarted, runtype.RunResumed:
		return runtype.Running
	case runtype.RunWaiting:
		return runtype.Waiting
	case runtype.RunPaused:
		return runtype.Paused
	case runtype.RunCancelling:
		return runtype.Cancelling
	case runtype.RunCancelled:
		return runtype.Cancelled
	case runtype.RunSucceeded:
		return runtype.Succeeded
	default:
		return ""
	}
}
