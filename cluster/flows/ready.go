package flows

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/heartbeat"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// unready returns the nodes that have not reported ready since a time.
func (w *work) unready(nodes []*cluster.Node, since time.Time) []*cluster.Node {
	return resources.Filter(nodes, func(n *cluster.Node) bool {
		return n.ReadyAt.IsZero() || n.NotReady != "" || n.HeartbeatAt.Before(since)
	})
}

// heartbeatsSince returns the time from which heartbeats count. A VM that was
// stopped must report again.
func (w *work) heartbeatsSince() time.Time {
	if w.Cluster.State == cluster.Starting && !w.Input.First || w.Cluster.State == cluster.Recovering {
		return w.Cluster.StateSince
	}
	return time.Time{}
}

// endpoint waits for the control node and for the cluster's endpoint.
func endpoint(ctx context.Context, w *work) outcome.Outcome {
	w.ConsumeSignals()
	limit := w.s.options.Settings.EndpointWait
	if w.Caps.SendsHeartbeats {
		nodes := w.Nodes(cluster.Control)
		if silent := w.unready(nodes, w.heartbeatsSince()); len(silent) == len(nodes) {
			if w.Waited() >= limit {
				return outcome.Fail(cluster.EndpointSilent.Errorf("no control node was ready within %s: %s", limit, strings.Join(namesOf(silent), ", ")).
					With("resource", strings.Join(namesOf(silent), ",")))
			}
			return outcome.Wait(min(resources.NodePollInterval, limit-w.Waited()), resources.WaitsForNodes, "the control node has not said that it is ready")
		}
	}
	url, err := w.url(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	if url == "" || w.s.options.Probe == nil {
		return outcome.Done()
	}
	c := *w.Cluster
	c.Endpoint = url
	d, err := w.Details(ctx)
	if err == nil {
		err = w.s.options.Probe(ctx, &c, d)
	}
	switch {
	case err == nil:
		return outcome.Done()
	case w.Waited() >= limit:
		return outcome.Fail(cluster.EndpointSilent.Errorf("%s: %w", url, err).With("resource", url))
	}
	return outcome.Wait(min(max(w.s.options.Settings.Pause(w.Waited()), time.Second), limit), "Endpoint", "%s does not answer yet: %s", url, connectionText(err))
}

// url returns the URL of the cluster: that of its address, or else the one that
// its control node reports.
func (w *work) url(ctx context.Context) (string, error) {
	row := w.Live(cluster.Address)
	if row == nil || row.Phase != cluster.Present || !w.Supports(cluster.Address) {
		return w.Cluster.Endpoint, nil
	}
	r, err := w.Provider.Get(ctx, w.Ref(row))
	if err != nil {
		return "", resources.EntityGone(err, cluster.Address, row.ProviderID)
	}
	if r.Address == "" {
		return w.Cluster.Endpoint, nil
	}
	return cluster.EndpointURL(r.Address), nil
}

// join waits until every node is ready.
func join(_ context.Context, w *work) outcome.Outcome {
	return w.awaitReady(w.Nodes(""), w.heartbeatsSince())
}

func (w *work) awaitReady(nodes []*cluster.Node, since time.Time) outcome.Outcome {
	w.ConsumeSignals()
	if !w.Caps.SendsHeartbeats {
		return outcome.Done()
	}
	missing := w.unready(nodes, since)
	limit := w.s.options.Settings.JoinWait
	switch {
	case len(missing) == 0:
		return outcome.Done()
	case w.Waited() >= limit:
		names := namesOf(missing)
		return outcome.Fail(cluster.NodesNotReady.Errorf("not ready within %s: %s", limit, strings.Join(names, ", ")).With("resource", strings.Join(names, ",")))
	}
	return outcome.Wait(min(resources.NodePollInterval, limit-w.Waited()), resources.WaitsForNodes, "nodes have not said that they are ready")
}

// publish writes endpoint, totals and version of the cluster, and revokes the
// join token.
func publish(ctx context.Context, w *work) outcome.Outcome {
	url, err := w.url(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	cores, memory := w.totals(ctx)
	run, upgraded := w.Task.RunID(), w.Input.Event == cluster.OnUpgrade
	err = w.Amend(ctx, func(c *cluster.Cluster, d *cluster.Details) bool {
		before := *c
		c.Cores, c.MemoryMB = cores, memory
		if url != "" && url != w.Cluster.Endpoint { // an endpoint that a control node has reported since then stays
			c.Endpoint = url
		}
		if upgraded && w.Input.Request != nil {
			c.Version, c.Template = w.Input.Request.Version, w.template()
		}
		revoked := heartbeat.Revoke(d, run)
		return revoked || c.Cores != before.Cores || c.MemoryMB != before.MemoryMB || c.Endpoint != before.Endpoint || c.Version != before.Version || c.Template != before.Template
	})
	if err != nil {
		return outcome.Fail(err)
	}
	w.s.options.Tokens.Forget(run)
	return outcome.Done()
}

// totals returns cores and memory of all nodes by the offering. They do not
// change if the catalogue no longer has the offering.
func (w *work) totals(ctx context.Context) (cores, memoryMB int) {
	offering, err := providers.FindEntry(ctx, w.Provider, w.Cluster.Owner, cluster.Offering, w.Cluster.Offering.ID)
	if err != nil || offering == nil || w.Cluster.Offering.ID == "" {
		return w.Cluster.Cores, w.Cluster.MemoryMB
	}
	n := len(w.Nodes(""))
	return offering.Cores * n, offering.MemoryMB * n
}

// connectionText returns the text of a connection error without local ports, so that the
// same fault has the same text each time.
func connectionText(err error) string {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		if u.Timeout() {
			return "no answer in time"
		}
		return connectionText(u.Err)
	}
	if o := (*net.OpError)(nil); errors.As(err, &o) {
		if o.Timeout() {
			return "no answer in time"
		}
		return o.Err.Error()
	}
	return fault.Message(err)
}
