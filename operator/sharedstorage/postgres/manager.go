package postgres

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// ManagerEndpoint is where the cluster manager of a cluster is reached.
type ManagerEndpoint struct {
	URL     string
	Token   string
	Former  string // the token before, which the manager may still use after a rotation; empty: none
	Node    string
	Address string
	Version string

	Template string // port.ManagerSpec.Template as in effect

	Trust transport.Authorities // by which it is verified
}

// ManagerHosts runs cluster managers: as processes or Deployments.
type ManagerHosts interface {
	// Ensure creates the manager, or changes it to the desired version and moves it off the given
	// node. It returns its endpoint and does not wait.
	Ensure(ctx context.Context, c port.Ref, want port.ManagerSpec) (ManagerEndpoint, error)
	// Find returns the endpoint, if there is a manager.
	Find(ctx context.Context, c port.Ref) (ManagerEndpoint, bool, error)
	// Remove deletes the manager and its state. A missing manager is not an error.
	Remove(ctx context.Context, c port.Ref) error
}

// Manager implements port.Manager over HTTP.
type Manager struct {
	Hosts   ManagerHosts
	Locator Locator
	Clients *transport.Clients // nil: those of this process
}

var (
	_ port.Manager        = Manager{}
	_ port.ManagerWatcher = Manager{}
)

// Ensure implements port.Manager. A new manager is Present and not Ready.
func (m Manager) Ensure(ctx context.Context, c port.Ref, want port.ManagerSpec) (port.Topology, error) {
	if !want.Present {
		return port.Topology{}, m.Hosts.Remove(ctx, c)
	}
	place, err := m.Hosts.Ensure(ctx, c, want)
	if err != nil {
		return port.Topology{}, err
	}
	in := ensureCall{HA: want.HA, SameNode: want.SameNode, Durability: want.Durability}
	for _, member := range want.Members {
		full, err := m.full(ctx, c, member)
		if err != nil {
			return port.Topology{}, err
		}
		in.Members = append(in.Members, full)
	}
	top, err := request[port.Topology](ctx, ClientFor(m.Clients, place.Trust, port.ManagerIdentity(c)), place.URL+"/v1/ensure", keys(place.Token, place.Former), http.MethodPost, in)
	if err != nil && fault.Of(err) == fault.Unknown && ctx.Err() == nil {
		return port.Topology{Present: true, Node: place.Node, Address: place.Address, Version: place.Version, Message: err.Error()}, nil
	}
	return top, err
}

// full adds what the manager needs to reach a member.
func (m Manager) full(ctx context.Context, c port.Ref, member port.Member) (WatchMember, error) {
	place, err := m.Locator.Locate(ctx, c.Of(member.Name))
	if err != nil {
		return WatchMember{}, err
	}
	if member.Address == "" {
		member.Address = place.Engine.Host
	}
	if member.Port == 0 {
		member.Port = place.Engine.Port
	}
	return WatchMember{Member: member, Agent: place.Agent}, nil
}

// Add implements port.Manager.
func (m Manager) Add(ctx context.Context, c port.Ref, member port.Member) error {
	if _, err := m.find(ctx, c); err != nil {
		return err
	}
	full, err := m.full(ctx, c, member)
	if err != nil {
		return err
	}
	_, err = callManager[nothing](ctx, m, c, http.MethodPost, "add", full)
	return err
}

// Remove implements port.Manager.
func (m Manager) Remove(ctx context.Context, c port.Ref, name string) error {
	_, err := callManager[nothing](ctx, m, c, http.MethodPost, "remove", removeCall{name})
	return err
}

// SetHA implements port.Manager.
func (m Manager) SetHA(ctx context.Context, c port.Ref, on bool, until time.Time) error {
	in := haCall{On: on}
	if !on && !until.IsZero() {
		in.For = host.Duration(max(time.Until(until), 1))
	}
	_, err := callManager[nothing](ctx, m, c, http.MethodPost, "ha", in)
	return err
}

// Topology implements port.Manager.
func (m Manager) Topology(ctx context.Context, c port.Ref) (port.Topology, error) {
	place, found, err := m.Hosts.Find(ctx, c)
	if err != nil || !found {
		return port.Topology{}, err
	}
	out, err := callManager[topologyAnswer](ctx, m, c, http.MethodGet, "topology", nil)
	if out.Left > 0 {
		out.Until = time.Now().Add(time.Duration(out.Left))
	}
	out.Template = place.Template
	return out.Topology, err
}

// awaitLimit is how long Await waits for the answer of a manager, which comes after awaitFor at the
// latest.
const awaitLimit = awaitFor + time.Second

// Await implements port.ManagerWatcher.
func (m Manager) Await(ctx context.Context, c port.Ref, seen string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitLimit)
	defer cancel()
	out, err := callManager[awaitAnswer](ctx, m, c, http.MethodPost, "await", awaitCall{seen})
	return out.Seen, err
}

func callManager[Out any](ctx context.Context, m Manager, c port.Ref, method, verb string, in any) (Out, error) {
	var none Out
	place, err := m.find(ctx, c)
	if err != nil {
		return none, err
	}
	out, err := request[Out](ctx, ClientFor(m.Clients, place.Trust, port.ManagerIdentity(c)), place.URL+"/v1/"+verb, keys(place.Token, place.Former), method, in)
	if err != nil && fault.Of(err) == fault.Unknown && !errors.Is(err, context.Canceled) {
		err = port.ManagerUnreachable.Errorf("%s at the cluster manager of %s: %w", verb, c, err)
	}
	return out, err
}

func (m Manager) find(ctx context.Context, c port.Ref) (ManagerEndpoint, error) {
	place, found, err := m.Hosts.Find(ctx, c)
	if err == nil && !found {
		err = port.ManagerUnreachable.Errorf("cluster %s has no manager", c)
	}
	return place, err
}
