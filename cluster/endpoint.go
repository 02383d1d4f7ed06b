package cluster

import (
	"net"
	"slices"
	"strconv"
)

// EndpointPort is the port of a cluster's endpoint.
const EndpointPort = 6443

// EndpointURL returns the URL of an endpoint at a host.
func EndpointURL(host string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(EndpointPort))
}

// ControlURL returns the URL at which workers reach the control node.
func (b *Record) ControlURL(caps Capabilities) string {
	if slices.Contains(caps.Kinds, Address) { // the endpoint is an external address; nodes are in one network
		for _, n := range b.Nodes {
			if n.Role == Control && n.Address != "" && n.Removed.IsZero() && !n.ReadyAt.IsZero() {
				return EndpointURL(n.Address)
			}
		}
	}
	return b.Cluster.Endpoint
}
