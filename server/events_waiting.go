package server

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// WaitingEvent is the data of the event `waiting`. It shows the state at the time of
// writing: a client that reconnects gets no earlier ones.
type WaitingEvent struct {
	ID      string           `json:"id,omitempty" doc:"of the run"`
	Cluster string           `json:"cluster,omitempty" doc:"id of the cluster that the run works on"`
	Waiting *service.Waiting `json:"waiting,omitempty" doc:"absent: the run does not wait any more"`
	Unseen  *service.Unseen  `json:"unseen,omitempty" doc:"the provider of the cluster cannot be read; only in the stream of a cluster"`
}

// waitingOf returns what a run waits for; for a run of a cluster with the present
// counts of nodes and resources.
func (s *Server) waitingOf(ctx context.Context, r *workflow.Run) (*service.Waiting, error) {
	if s.options.Clusters != nil {
		if _, ok := cluster.FromSubject(r.Subject); ok {
			return s.options.Clusters.Awaited(ctx, r)
		}
	}
	return view.WaitingOf(r, s.flow(r.Flow, r.Subject)), nil
}

// writeWaiting writes waiting events. A stream of one cluster or run gets one for each
// change, also for changes without an event, such as a node that became ready. Other
// streams get one for each run with a step that began to wait or to retry.
func (t *stream) writeWaiting(ctx context.Context) (reported bool, err error) {
	begun := t.startedWaiting
	t.startedWaiting = nil
	switch {
	case !t.wants("waiting"):
		return false, nil
	case t.cluster != "":
		standing, err := t.clusters.Explanation(ctx, t.cluster)
		if err != nil {
			return false, err
		}
		e := WaitingEvent{Cluster: t.cluster, Waiting: standing.Waiting, Unseen: standing.Unseen}
		if e.Waiting != nil {
			e.ID = e.Waiting.Run
		}
		return t.writeIfChanged(e, e.Waiting != nil || e.Unseen != nil)
	case t.run != "":
		r, err := t.s.options.Engine.Head(ctx, t.run)
		if errors.Is(err, workflow.RunNotFound) { // the run was removed
			return t.writeIfChanged(WaitingEvent{ID: t.run}, false)
		}
		if err != nil {
			return false, err
		}
		e, err := t.waitingEvent(ctx, r)
		if err != nil {
			return false, err
		}
		return t.writeIfChanged(e, e.Waiting != nil)
	case len(begun) == 0:
		return false, nil
	}
	runs, _, err := t.lister.List(ctx, workflow.Query{IDs: begun, Active: true, Limit: len(begun)})
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		e, err := t.waitingEvent(ctx, r)
		if err != nil {
			return reported, err
		}
		if e.Waiting == nil {
			continue
		}
		if err := t.writeEvent("waiting", e); err != nil {
			return reported, err
		}
		reported = true
	}
	return reported, nil
}

func (t *stream) waitingEvent(ctx context.Context, r *workflow.Run) (WaitingEvent, error) {
	w, err := t.s.waitingOf(ctx, r)
	e := WaitingEvent{ID: r.ID, Waiting: w}
	e.Cluster, _ = cluster.FromSubject(r.Subject)
	return e, err
}

// writeIfChanged writes the waiting event of one cluster or run if it differs from the last one.
func (t *stream) writeIfChanged(e WaitingEvent, waits bool) (bool, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	now := ""
	if waits {
		now = string(data)
	}
	if now == t.lastWaiting {
		return false, nil
	}
	t.lastWaiting = now
	return true, t.writeEvent("waiting", e)
}
