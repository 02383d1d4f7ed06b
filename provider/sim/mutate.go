package sim

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// The methods below change the cloud as other users would. They take an id or a name, and
// return an error if there is no such resource.

func (c *Cloud) change(kind cluster.Kind, idOrName, by string, do func(t *resource, now time.Time) error) error {
	var err error
	c.mutate(func(now time.Time) {
		t := c.byNameOrID(kind, idOrName)
		if t == nil {
			err = fmt.Errorf("sim: there is no %s %q", kind, idOrName)
			return
		}
		if err = do(t, now); err == nil && !t.gone {
			c.recordMutation(Changed, by, t)
			c.persist(t)
		}
	})
	return err
}

// state sets a VM's state as if no job had ever been under way.
func (c *Cloud) state(vm, by, state string) error {
	return c.change(cluster.VM, vm, by, func(t *resource, now time.Time) error {
		t.Job = ""
		if state == stateRunning {
			c.boot(t, now)
			return nil
		}
		t.State = state
		return nil
	})
}

// StopVM stops a VM at once.
func (c *Cloud) StopVM(vm string) error { return c.state(vm, "StopVM", stateStopped) }

// StartVM starts a VM at once.
func (c *Cloud) StartVM(vm string) error { return c.state(vm, "StartVM", stateRunning) }

// BreakVM puts a VM into state Error.
func (c *Cloud) BreakVM(vm string) error { return c.state(vm, "BreakVM", stateError) }

// TrashVM destroys a VM without expunging it: it is listed as Destroyed.
func (c *Cloud) TrashVM(vm string) error { return c.state(vm, "TrashVM", stateDestroyed) }

// SetState sets a VM to any state; one that is not listed is unknown.
func (c *Cloud) SetState(vm, state string) error { return c.state(vm, "SetState", state) }

// DestroyVM destroys and expunges a VM at once.
func (c *Cloud) DestroyVM(vm string) error {
	return c.change(cluster.VM, vm, "DestroyVM", func(t *resource, _ time.Time) error {
		c.remove(t, "DestroyVM")
		return nil
	})
}

// Migrate moves a running VM to another host, which takes Times.Migrate.
func (c *Cloud) Migrate(vm string) error {
	return c.change(cluster.VM, vm, "Migrate", func(t *resource, now time.Time) error {
		if t.State != stateRunning {
			return fmt.Errorf("sim: VM %s is %s", t.Name, t.State)
		}
		t.Host++
		c.begin(t, doMigrate, "", c.o.Times.Migrate, now, nil)
		return nil
	})
}

// StripTags removes all tags of a resource.
func (c *Cloud) StripTags(kind cluster.Kind, idOrName string) error {
	return c.SetTags(kind, idOrName, nil)
}

// SetTags replaces all tags of a resource.
func (c *Cloud) SetTags(kind cluster.Kind, idOrName string, tags map[string]string) error {
	return c.change(kind, idOrName, "SetTags", func(t *resource, _ time.Time) error {
		c.retag(t, tags)
		return nil
	})
}

// ChangeRule changes the spec of a rule. Its address and network stay.
func (c *Cloud) ChangeRule(kind cluster.Kind, idOrName string, change func(*cluster.Spec)) error {
	return c.change(kind, idOrName, "ChangeRule", func(t *resource, _ time.Time) error {
		address, network := t.Spec.Address, t.Spec.Network
		change(&t.Spec)
		t.Spec.Address, t.Spec.Network, t.Spec.UserData = address, network, nil
		return nil
	})
}

// Delete removes a resource and its dependents at once; the VMs of a network stay.
func (c *Cloud) Delete(kind cluster.Kind, idOrName string) error {
	return c.change(kind, idOrName, "Delete", func(t *resource, _ time.Time) error {
		c.remove(t, "Delete")
		return nil
	})
}

// DeleteNetwork removes a network with its addresses and rules. Its VMs stay.
func (c *Cloud) DeleteNetwork(network string) error { return c.Delete(cluster.Network, network) }

// AddForeignVM creates a VM without Pawl's tags: in a network as its owner would, or, if
// network is empty, as another user.
func (c *Cloud) AddForeignVM(name, network string) (cluster.Resource, error) {
	owner := cluster.Owner{AccountID: "somebody-else"}
	c.mu.Lock()
	if t := c.byNameOrID(cluster.Network, network); t != nil {
		owner, network = t.Owner, t.ID
	}
	c.mu.Unlock()
	return c.Add(cluster.DesiredResource{
		Kind: cluster.VM, Name: name, Owner: owner,
		Spec: cluster.Spec{Network: network, Offering: c.o.Offerings[0].ID, Template: c.o.Templates[0].ID, Zone: c.o.Zones[0].ID},
	})
}

// AddNetwork creates a network as its owner would, for use by a cluster.
func (c *Cloud) AddNetwork(name string, owner cluster.Owner) (cluster.Resource, error) {
	return c.Add(cluster.DesiredResource{
		Kind: cluster.Network, Name: name, Owner: owner,
		Spec: cluster.Spec{Offering: c.o.NetworkOfferings[0].ID, Zone: c.o.Zones[0].ID},
	})
}

// Add creates a foreign resource that is ready at once.
func (c *Cloud) Add(w cluster.DesiredResource) (cluster.Resource, error) {
	var created cluster.Resource
	var err error
	c.mutate(func(now time.Time) {
		t := &resource{Kind: w.Kind, Name: w.Name, Owner: w.Owner, Spec: w.Spec, Created: now, Foreign: true}
		t.setTags(w.Tags)
		t.Spec.UserData = nil
		if network, ok := c.resources[w.Spec.Network]; ok {
			t.Spec.Zone = network.Spec.Zone
		}
		if _, err = c.prepare(t, w); err != nil {
			return
		}
		c.add(t, "Add")
		t.State = stateReady
		if t.Kind == cluster.VM {
			c.boot(t, now)
		}
		if t.Kind == cluster.Network && !c.o.LateSourceNAT {
			c.sourceNAT(t, now)
		}
		created = t.toCluster()
	})
	return created, err
}

// NotReady makes a node report that it is not ready, with a reason; an empty reason: ready
// again.
func (c *Cloud) NotReady(vm, reason string) error {
	return c.node(vm, "NotReady", func(_ *resource, n *node) { n.NotReady = reason })
}

// KeepVersion makes a node ignore upgrade requests, or obey them again.
func (c *Cloud) KeepVersion(vm string, keep bool) error {
	return c.node(vm, "KeepVersion", func(_ *resource, n *node) { n.Stubborn = keep })
}

// Silence stops the heartbeats of a node, or starts them again.
func (c *Cloud) Silence(vm string, silent bool) error {
	return c.node(vm, "Silence", func(t *resource, n *node) {
		if n.Silent = silent; !silent {
			c.scheduleHeartbeat(t, c.o.Now())
		}
	})
}

func (c *Cloud) node(vm, by string, change func(*resource, *node)) error {
	return c.change(cluster.VM, vm, by, func(t *resource, _ time.Time) error {
		if t.Node == nil {
			return fmt.Errorf("sim: VM %s is no node: its user data have no server URL", t.Name)
		}
		change(t, t.Node)
		return nil
	})
}

// scheduleHeartbeat schedules a node's next heartbeat.
func (c *Cloud) scheduleHeartbeat(t *resource, at time.Time) {
	if c.o.Home == nil || t.Node == nil || t.Node.Silent {
		return
	}
	heap.Push(&c.heartbeats, event{at: at, seq: t.Seq, id: t.ID, boot: t.Node.Boots})
}
