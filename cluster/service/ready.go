package service

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	signalHeartbeat  = "hello"          // wakes a run when the readiness of a node has changed
	nodePollInterval = 15 * time.Second // poll interval of steps that wait for nodes without a signal
)

// consumeSignals consumes the signals of heartbeats: the state of the nodes is
// in the record.
func (w *work) consumeSignals() {
	for _, more := w.t.Signal(signalHeartbeat); more; _, more = w.t.Signal(signalHeartbeat) {
	}
}

// unready returns the nodes that have not reported ready since a time.
func (w *work) unready(nodes []*cluster.Node, since time.Time) []*cluster.Node {
	return filter(nodes, func(n *cluster.Node) bool {
		return n.ReadyAt.IsZero() || n.NotReady != "" || n.HeartbeatAt.Before(since)
	})
}

// heartbeatsSince returns the time from which heartbeats count. A VM that was
// stopped must report again.
func (w *work) heartbeatsSince() time.Time {
	if w.c.State == cluster.Starting && !w.in.First || w.c.State == cluster.Recovering {
		return w.c.StateSince
	}
	return time.Time{}
}

// endpoint waits for the control node and for the cluster's endpoint.
func endpoint(ctx context.Context, w *work) outcome.Outcome {
	w.consumeSignals()
	limit := w.s.options.Settings.EndpointWait
	if w.caps.SendsHeartbeats {
		nodes := w.nodes(cluster.Control)
		if silent := w.unready(nodes, w.heartbeatsSince()); len(silent) == len(nodes) {
			if w.waited() >= limit {
				return outcome.Fail(cluster.EndpointSilent.Errorf("no control node was ready within %s: %s", limit, strings.Join(namesOf(silent), ", ")).
					With("resource", strings.Join(namesOf(silent), ",")))
			}
			return outcome.Wait(min(nodePollInterval, limit-w.waited()), waitsForNodes, "the control node has not said that it is ready")
		}
	}
	url, err := w.url(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	if url == "" || w.s.options.Probe == nil {
		return outcome.Done()
	}
	c := *w.c
	c.Endpoint = url
	d, err := w.details(ctx)
	if err == nil {
		err = w.s.options.Probe(ctx, &c, d)
	}
	switch {
	case err == nil:
		return outcome.Done()
	case w.waited() >= limit:
		return outcome.Fail(cluster.EndpointSilent.Errorf("%s: %w", url, err).With("resource", url))
	}
	return outcome.Wait(min(max(w.s.pause(w.waited()), time.Second), limit), "Endpoint", "%s does not answer yet: %s", url, connectionText(err))
}

// url returns the URL of the cluster: that of its address, or else the one that
// its control node reports.
func (w *work) url(ctx context.Context) (string, error) {
	row := w.liveRow(resourceSpec{kind: cluster.Address})
	if row == nil || row.Phase != cluster.Present || !w.supports(cluster.Address) {
		return w.c.Endpoint, nil
	}
	r, err := w.provider.Get(ctx, w.ref(row))
	if err != nil {
		return "", entityGone(err, cluster.Address, row.ProviderID)
	}
	if r.Address == "" {
		return w.c.Endpoint, nil
	}
	return endpointURL(r.Address), nil
}

func endpointURL(host string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(endpointPort))
}

// controlURL returns the URL at which workers reach the control node.
func controlURL(record *cluster.Record, caps cluster.Capabilities) string {
	if slices.Contains(caps.Kinds, cluster.Address) { // the endpoint is an external address; nodes are in one network
		for _, n := range record.Nodes {
			if n.Role == cluster.Control && n.Address != "" && n.Removed.IsZero() && !n.ReadyAt.IsZero() {
				return endpointURL(n.Address)
			}
		}
	}
	return record.Cluster.Endpoint
}

// join waits until every node is ready.
func join(_ context.Context, w *work) outcome.Outcome {
	return w.awaitReady(w.nodes(""), w.heartbeatsSince())
}

func (w *work) awaitReady(nodes []*cluster.Node, since time.Time) outcome.Outcome {
	w.consumeSignals()
	if !w.caps.SendsHeartbeats {
		return outcome.Done()
	}
	missing := w.unready(nodes, since)
	limit := w.s.options.Settings.JoinWait
	switch {
	case len(missing) == 0:
		return outcome.Done()
	case w.waited() >= limit:
		names := namesOf(missing)
		return outcome.Fail(cluster.NodesNotReady.Errorf("not ready within %s: %s", limit, strings.Join(names, ", ")).With("resource", strings.Join(names, ",")))
	}
	return outcome.Wait(min(nodePollInterval, limit-w.waited()), waitsForNodes, "nodes have not said that they are ready")
}

// publish writes endpoint, totals and version of the cluster, and revokes the
// join token.
func publish(ctx context.Context, w *work) outcome.Outcome {
	url, err := w.url(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	cores, memory := w.totals(ctx)
	run, upgraded := w.t.RunID(), w.in.Event == cluster.OnUpgrade
	err = w.amend(ctx, func(c *cluster.Cluster, d *cluster.Details) bool {
		before := *c
		c.Cores, c.MemoryMB = cores, memory
		if url != "" && url != w.c.Endpoint { // an endpoint that a control node has reported since then stays
			c.Endpoint = url
		}
		if upgraded && w.in.Request != nil {
			c.Version, c.Template = w.in.Request.Version, w.template()
		}
		revoked := revoke(d, run)
		return revoked || c.Cores != before.Cores || c.MemoryMB != before.MemoryMB || c.Endpoint != before.Endpoint || c.Version != before.Version || c.Template != before.Template
	})
	if err != nil {
		return outcome.Fail(err)
	}
	w.s.tokens.put(run, "")
	return outcome.Done()
}

// totals returns cores and memory of all nodes by the offering. They do not
// change if the catalogue no longer has the offering.
func (w *work) totals(ctx context.Context) (cores, memoryMB int) {
	offering, err := findEntry(ctx, w.provider, w.c.Owner, cluster.Offering, w.c.Offering.ID)
	if err != nil || offering == nil || w.c.Offering.ID == "" {
		return w.c.Cores, w.c.MemoryMB
	}
	n := len(w.nodes(""))
	return offering.Cores * n, offering.MemoryMB * n
}

// probe checks that the endpoint of a cluster answers. Without Options.Probe it
// returns nil.
func (s *Service) probe(ctx context.Context, c *cluster.Cluster) error {
	if s.options.Probe == nil {
		return nil
	}
	d, err := s.options.Records.Details(ctx, c.UUID)
	if err != nil {
		return err
	}
	return s.options.Probe(ctx, c, d)
}
