package api

import (
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// admitDecision is what happens with a request.
type admitDecision int

const (
	refused admitDecision = iota // the state does not allow it
	already                      // nothing to do: the job ends at once
	joins                        // an active run does it: the job ends with that run
	changes                      // desired state and Request are written
)

// admissionTable is the decision for each operation and state. A state without an
// entry refuses.
var admissionTable = map[cluster.RequestKind]map[machine.State]admitDecision{
	cluster.RequestStart: {
		cluster.Created: joins, cluster.Starting: joins, cluster.Running: already,
		cluster.Stopped: changes, cluster.Alert: changes,
	},
	cluster.RequestStop: {
		cluster.Stopping: joins, cluster.Stopped: already,
		cluster.Running: changes, cluster.Alert: changes,
	},
	cluster.RequestScale:   {cluster.Running: changes, cluster.Alert: changes},
	cluster.RequestUpgrade: {cluster.Running: changes, cluster.Alert: changes},
	cluster.RequestRecover: {cluster.Running: already, cluster.Recovering: joins, cluster.Alert: changes},
	cluster.RequestDelete: {
		cluster.Created: changes, cluster.Starting: changes, cluster.Running: changes, cluster.Stopping: changes,
		cluster.Stopped: changes, cluster.Scaling: changes, cluster.Alert: changes, cluster.Recovering: changes,
		cluster.Expunge: changes, cluster.Expunging: joins,
	},
}

// admit decides on a request. STATE_REFUSED names the state or the obstacle.
func admit(c *cluster.Cluster, kind cluster.RequestKind) (admitDecision, error) {
	v := admissionTable[kind][c.State]
	final := c.Desired == cluster.WantDestroyed && kind != cluster.RequestDelete
	switch {
	case v == refused:
		return refused, cluster.StateRefused.Errorf("%s of cluster %s: it is %s", kind, c.Name, c.State).With("state", string(c.State))
	case final:
		return refused, cluster.StateRefused.Errorf("%s of cluster %s: it is being deleted", kind, c.Name).With("state", string(c.State))
	case kind == cluster.RequestDelete && c.Desired == cluster.WantDestroyed && c.State != cluster.Expunge:
		return joins, nil
	case v == already && kind == cluster.RequestStart && c.Desired != cluster.WantRunning,
		v == already && kind == cluster.RequestStop && c.Desired != cluster.WantStopped:
		return refused, cluster.StateRefused.Errorf("%s of cluster %s: it is %s, but another state is desired", kind, c.Name, c.State).With("state", string(c.State))
	case v == changes && c.Request != nil && kind != cluster.RequestDelete:
		if c.Request.Kind == kind && slices.Contains([]cluster.RequestKind{cluster.RequestStart, cluster.RequestStop, cluster.RequestRecover}, kind) {
			return joins, nil
		}
		return refused, cluster.StateRefused.Errorf("%s of cluster %s: job %s (%s) is not finished yet", kind, c.Name, c.Request.Job, c.Request.Kind).With("state", string(c.State))
	}
	return v, nil
}
