package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// Cloud simulates the infrastructure. Its parts share one lock: all methods are safe for
// concurrent use.
type Cloud struct {
	*Client // the calls of Options.Installation
	*Admin  // changes by others, without a call
	*Nodes  // the node programs on the VMs
	*Faults // what calls meet: rules, outages
	*Log    // what has happened

	world *world
}

var _ cluster.Provider = (*Cloud)(nil)

// New creates a cloud, or loads it from Options.File.
func New(o Options) (*Cloud, error) {
	o.fill()
	w := newWorld(o)
	c := &Cloud{Admin: &Admin{w}, Nodes: w.nodes, Faults: w.faults, Log: w.log, world: w}
	c.Client = c.As(o.Installation)
	c.Inject(o.Script...)
	if o.File != "" {
		if err := w.load(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// As returns a client of another installation. List returns that installation's resources
// by default; the empty installation lists everything.
func (c *Cloud) As(installation string) *Client { return &Client{c.world, installation} }

// Close closes Options.File. The cloud must not be used afterwards.
func (c *Cloud) Close() error {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.world.disk.close()
}

// All returns all resources with their user data, in the order of their creation, also
// foreign ones and those not yet visible.
func (c *Cloud) All(kinds ...cluster.Kind) []cluster.Resource {
	_, leave := c.world.enter()
	defer leave()
	all := c.world.inventory.sorted(kinds...)
	resources := make([]cluster.Resource, len(all))
	for i, t := range all {
		resources[i] = t.toCluster()
		resources[i].UserData = slices.Clone(t.UserData)
	}
	return resources
}

// Lookup returns a resource by id or name without a client call. ok is false if there is
// none.
func (c *Cloud) Lookup(kind cluster.Kind, idOrName string) (r cluster.Resource, ok bool) {
	_, leave := c.world.enter()
	defer leave()
	t := c.world.inventory.lookup(kind, idOrName)
	if t == nil {
		return r, false
	}
	r = t.toCluster()
	r.UserData = slices.Clone(t.UserData)
	return r, true
}

// LookupView is Lookup with the fields that Select returns.
func (c *Cloud) LookupView(kind cluster.Kind, idOrName string) (View, bool) {
	_, leave := c.world.enter()
	defer leave()
	t := c.world.inventory.lookup(kind, idOrName)
	if t == nil {
		return View{}, false
	}
	return t.view(), true
}

// CountInNetwork counts the VMs and the other resources of a network, without a client
// call.
func (c *Cloud) CountInNetwork(network string) (vms, others int) {
	_, leave := c.world.enter()
	defer leave()
	if t, ok := c.world.inventory.byID[network]; ok && t.Kind == cluster.Network {
		for _, other := range c.world.inventory.inNetwork(t) {
			if other.Kind == cluster.VM {
				vms++
			} else {
				others++
			}
		}
	}
	return vms, others
}

// HasJob reports whether a job exists, without a client call.
func (c *Cloud) HasJob(id string) bool {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	_, ok := c.world.jobs.byID[id]
	return ok
}
