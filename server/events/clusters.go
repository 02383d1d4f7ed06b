package events

import (
	"context"
	"strconv"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// clusterTypes returns the types of cluster events for this stream. Audited reads
// (type audit) change nothing, so no stream has them.
func (t *stream) clusterTypes() (types []string) {
	for _, kind := range []string{"cluster", "drift", "leak"} {
		if t.wants(kind) && (kind != "leak" || t.who.Operator) { // leaks are listed for operators only
			types = append(types, kind)
		}
	}
	return types
}

// writeClusterEvents writes the events of clusters that were saved since the last poll.
func (t *stream) writeClusterEvents(ctx context.Context) (reported bool, err error) {
	types := t.clusterTypes()
	if t.clusters == nil || len(types) == 0 {
		return false, nil
	}
	for {
		after, _ := strconv.ParseInt(t.pos.clusters, 10, 64) // written by this stream, or checked by parsePosition
		events, err := t.clusters.Events(ctx, t.who, cluster.EventQuery{Cluster: t.cluster, After: after, Types: types, Limit: eventPage})
		if err != nil {
			return reported, err
		}
		for i := range events {
			t.pos.clusters, reported = strconv.FormatInt(events[i].Seq, 10), true
			if err := t.writeEvent(events[i].Type, clusterEventOf(&events[i])); err != nil {
				return reported, err
			}
		}
		if len(events) < eventPage {
			return reported, nil
		}
	}
}

// hasGap reports a position in the history of clusters whose next events were removed,
// or that lies after its end: it is of another store, or the store was restored to an
// earlier state.
func (t *stream) hasGap(ctx context.Context) (bool, error) {
	if t.clusters == nil || t.pos.clusters == "" {
		return false, nil
	}
	floor, newest, err := t.clusters.Feed(ctx)
	at, bad := strconv.ParseInt(t.pos.clusters, 10, 64)
	return bad != nil || at < floor || at > newest, err
}

const maxVisible = 10_000 // runs in stream.visible

// maySee reports whether the events of a run belong into this stream. Operators see
// all runs, others those of clusters that they may see.
func (t *stream) maySee(ctx context.Context, run string) (bool, error) {
	if t.who.Operator && t.cluster == "" || run == t.run {
		return true, nil
	}
	if may, known := t.visible[run]; known {
		return may, nil
	}
	r, _, err := t.s.Runs.Engine.Store().Load(ctx, run)
	may := false
	switch {
	case fault.Of(err) == workflow.RunNotFound: // removed since
	case err != nil:
		return false, err
	default:
		if may, err = t.s.Runs.MaySee(ctx, t.who, r.Subject); err != nil {
			return false, err
		}
		if uuid, _ := cluster.FromSubject(r.Subject); t.cluster != "" && uuid != t.cluster {
			may = false
		}
	}
	if len(t.visible) >= maxVisible {
		clear(t.visible)
	}
	t.visible[run] = may
	return may, nil
}
