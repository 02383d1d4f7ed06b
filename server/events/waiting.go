package events

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// WaitingEvent is the data of the event `waiting`. It shows the state at the time of
// writing: a client that reconnects gets no earlier ones.
type WaitingEvent struct {
	ID      string       `json:"id,omitempty" doc:"of the run"`
	Cluster string       `json:"cluster,omitempty" doc:"id of the cluster that the run works on"`
	Waiting *api.Waiting `json:"waiting,omitempty" doc:"absent: the run does not wait any more"`
	Unseen  *api.Unseen  `json:"unseen,omitempty" doc:"the provider of the cluster cannot be read; only in the stream of a cluster"`
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
		r, err := t.s.Runs.Engine.Head(ctx, t.run)
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
	runs, _, err := t.lister.List(ctx, runstore.Query{IDs: begun, Active: true, Limit: len(begun)})
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

func (t *stream) waitingEvent(ctx context.Context, r *runtype.Run) (WaitingEvent, error) {
	w, err := t.s.Runs.Waiting(ctx, r)
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
