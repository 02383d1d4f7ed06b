package flows

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

var (
	stopBounds = resources.Bounds{Timeout: 5 * time.Minute, Tries: 2}
	stopDrain  = 2 * time.Minute
)

// stopFlow stops all VMs. A VM that does not stop does not prevent the others
// from stopping.
func (s *flows) stopFlow() workflow.Flow {
	return workflow.Flow{
		Name: cluster.FlowStop, Version: 1, Description: "stops the VMs of a cluster", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			s.step("drain", "tell the workers to drain, best effort", resources.Bounds{Timeout: stopDrain, Tries: 0}, drainAll),
			s.step("workers", "stop the workers, in the end by force", stopBounds, stopOf(cluster.Worker)),
			s.step("control", "stop the control nodes", stopBounds, stopOf(cluster.Control)),
			s.step("confirm", "every VM is stopped", checkBounds, confirmStopped),
		},
	}
}

func drainAll(_ context.Context, w *work) outcome.Outcome {
	if w.Input.Deleting || w.Input.Request != nil && w.Input.Request.Forced {
		return outcome.Done()
	}
	return w.awaitDrained(w.Nodes(cluster.Worker), stopDrain, false)
}

// awaitDrained waits until nodes are drained. The answers to their heartbeats
// tell them to drain. A node without fresh heartbeats counts as drained. blocks:
// a node that does not drain in time is a failure.
func (w *work) awaitDrained(nodes []*cluster.Node, limit time.Duration, blocks bool) outcome.Outcome {
	w.ConsumeSignals()
	if !w.Caps.SendsHeartbeats {
		return outcome.Done()
	}
	busy := resources.Filter(nodes, func(n *cluster.Node) bool {
		return n.NotReady == "" && !n.ReadyAt.IsZero() && w.Now.Sub(n.HeartbeatAt) < cluster.DefaultHeartbeatTimeout
	})
	switch {
	case len(busy) == 0:
		return outcome.Done()
	case w.Waited() < limit:
		return outcome.Wait(min(5*time.Second, limit-w.Waited()), "Drain", "nodes drain")
	case blocks:
		names := strings.Join(namesOf(busy), ", ")
		return outcome.Fail(cluster.NodesNotReady.Errorf("not drained within %s: %s", limit, names).With("resource", names))
	}
	return outcome.Done()
}

func stopOf(role cluster.Role) stepBody {
	return func(ctx context.Context, w *work) outcome.Outcome {
		b, force := stopBounds, !w.s.options.Settings.NoForceStop
		switch {
		case w.Input.Request != nil && w.Input.Request.Forced:
			b, force = resources.Bounds{Timeout: stopBounds.Timeout, Tries: 0}, true
		case w.Input.Deleting:
			b, force = resources.Bounds{Timeout: cluster.ForceStopTime, Tries: 1}, true
		}
		return w.deferFailure(w.StopNodes(ctx, w.Nodes(role), b, force))
	}
}

// confirmStopped fails with the names of all VMs that are missing or not
// stopped.
func confirmStopped(ctx context.Context, w *work) outcome.Outcome {
	for _, step := range []string{"workers", "control"} {
		if err := w.deferredFailure(step); err != nil {
			return outcome.Fail(err)
		}
	}
	var mu sync.Mutex
	var running, missing []string
	var failure error
	providers.Each(w.Nodes(""), w.s.options.Settings.PerCluster, func(n *cluster.Node) {
		r, err := w.Provider.Get(ctx, cluster.Ref{Kind: cluster.VM, ID: n.VMID, Name: n.Name, Zone: w.Cluster.Zone.ID})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, cluster.ErrGone):
			missing = append(missing, n.Name)
		case err != nil:
			failure = err
		case r.Power != cluster.PoweredOff:
			running = append(running, n.Name)
		}
	})
	switch {
	case failure != nil:
		return outcome.Fail(failure)
	case len(missing) > 0:
		return outcome.Fail(cluster.NodeMissing.Errorf("gone: %s", strings.Join(missing, ", ")).With("resource", strings.Join(missing, ",")))
	case len(running) > 0:
		return outcome.Fail(cluster.NodeNotStopped.Errorf("not stopped: %s", strings.Join(running, ", ")).With("resource", strings.Join(running, ",")))
	}
	return outcome.Done()
}
