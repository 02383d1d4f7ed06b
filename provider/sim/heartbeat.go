package sim

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

const (
	endpointPort  = 6443
	drainedReason = "drained"
)

// heartbeat returns the next heartbeat of a node.
func (s *Nodes) heartbeat(t *resource, now time.Time) cluster.Heartbeat {
	n := t.Node
	h := cluster.Heartbeat{Cluster: n.Cluster, Node: n.Name, Identity: t.Identity, Role: n.Role, Version: n.Version, Address: t.Address}
	h.Ready, h.Reason = s.ready(t, now)
	if n.Role != cluster.Control {
		return h
	}
	h.Endpoint = s.endpoint(t)
	for _, other := range s.world.inventory.nodes(n.Cluster) {
		if ready, _ := s.ready(other, now); ready && other.nodeRunning(now) && !slices.Contains(n.Removed, other.Node.Name) {
			h.Joined = append(h.Joined, other.Node.Name)
		}
	}
	h.CACert, h.Config = s.configs.of(n.Cluster, h.Endpoint, now)
	return h
}

func (s *Nodes) ready(t *resource, now time.Time) (ready bool, reason string) {
	n := t.Node
	switch {
	case n.NotReady != "":
		return false, n.NotReady
	case n.Drained:
		return false, drainedReason
	case n.Role == cluster.Control:
		return true, ""
	}
	for _, other := range s.world.inventory.nodes(n.Cluster) {
		if other.Node.Role == cluster.Control && other.nodeRunning(now) {
			return true, ""
		}
	}
	return false, "no control node answers"
}

// endpoint returns the address of a control node's port: that of a rule if there is one.
func (s *Nodes) endpoint(t *resource) string {
	host, port := t.Address, endpointPort
	for _, r := range s.world.inventory.inNetwork(t) {
		leads := r.Kind == cluster.Forward && r.Spec.VM == t.ID || r.Kind == cluster.Balancer && slices.Contains(r.Spec.VMs, t.ID)
		if a, ok := s.world.inventory.byID[r.Spec.Address]; ok && leads && r.Spec.PrivatePort == endpointPort {
			host, port = a.Address, r.Spec.Port
			break
		}
	}
	return fmt.Sprintf("https://%s", net.JoinHostPort(host, strconv.Itoa(port)))
}

// Probe checks an endpoint that a heartbeat reported. It returns nil if the control node
// works and the rules lead to it.
func (s *Nodes) Probe(_ context.Context, endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("sim: endpoint %q: %w", endpoint, err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return fmt.Errorf("sim: endpoint %q has no port", endpoint)
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	now := s.world.o.Now()
	s.world.jobs.settle(now)
	t, ok := s.world.inventory.byIP[u.Hostname()]
	if !ok || s.world.faults.unreachable {
		return fmt.Errorf("sim: %s: no route to host", endpoint)
	}
	targets, open := []string{t.ID}, true
	if t.Kind == cluster.Address {
		targets, open = nil, false
		for _, r := range s.world.inventory.inNetwork(t) {
			if r.Spec.Address != t.ID || r.Spec.Port != port {
				continue
			}
			switch r.Kind {
			case cluster.Firewall:
				open = true
			case cluster.Forward:
				targets = append(targets, r.Spec.VM)
			case cluster.Balancer:
				targets = append(targets, r.Spec.VMs...)
			}
		}
	}
	if !open {
		return fmt.Errorf("sim: %s: timeout: no firewall rule is open", endpoint)
	}
	for _, id := range targets {
		if vm, ok := s.world.inventory.byID[id]; ok && vm.nodeRunning(now) && vm.Node.Role == cluster.Control {
			return nil
		}
	}
	return fmt.Errorf("sim: %s: connection refused", endpoint)
}
