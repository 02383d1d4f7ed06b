package sim

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Admin changes the cloud as its administrators and other users do, without a call of a
// client. Its methods take an id or a name, and return an error if there is no such resource.
type Admin struct{ world *world }

// state sets a VM's state as if no job had ever been under way.
func (a *Admin) state(vm, by, state string) error {
	return a.world.change(cluster.VM, vm, by, func(t *resource, now time.Time) error {
		t.Job = ""
		if state == stateRunning {
			a.world.nodes.boot(t, now)
			return nil
		}
		t.State = state
		return nil
	})
}

// StopVM stops a VM at once.
func (a *Admin) StopVM(vm string) error { return a.state(vm, "StopVM", stateStopped) }

// StartVM starts a VM at once.
func (a *Admin) StartVM(vm string) error { return a.state(vm, "StartVM", stateRunning) }

// BreakVM puts a VM into state Error.
func (a *Admin) BreakVM(vm string) error { return a.state(vm, "BreakVM", stateError) }

// TrashVM destroys a VM without expunging it: it is listed as Destroyed.
func (a *Admin) TrashVM(vm string) error { return a.state(vm, "TrashVM", stateDestroyed) }

// SetState sets a VM to any state; one that is not listed is unknown.
func (a *Admin) SetState(vm, state string) error { return a.state(vm, "SetState", state) }

// DestroyVM destroys and expunges a VM at once.
func (a *Admin) DestroyVM(vm string) error {
	return a.world.change(cluster.VM, vm, "DestroyVM", func(t *resource, _ time.Time) error {
		a.world.inventory.remove(t, "DestroyVM")
		return nil
	})
}

// Migrate moves a running VM to another host, which takes Times.Migrate.
func (a *Admin) Migrate(vm string) error {
	return a.world.change(cluster.VM, vm, "Migrate", func(t *resource, now time.Time) error {
		if t.State != stateRunning {
			return fmt.Errorf("sim: VM %s is %s", t.Name, t.State)
		}
		t.Host++
		a.world.jobs.begin(t, doMigrate, "", a.world.o.Times.Migrate, now, nil)
		return nil
	})
}

// StripTags removes all tags of a resource.
func (a *Admin) StripTags(kind cluster.Kind, idOrName string) error {
	return a.SetTags(kind, idOrName, nil)
}

// SetTags replaces all tags of a resource.
func (a *Admin) SetTags(kind cluster.Kind, idOrName string, tags map[string]string) error {
	return a.world.change(kind, idOrName, "SetTags", func(t *resource, _ time.Time) error {
		a.world.inventory.retag(t, tags)
		return nil
	})
}

// ChangeRule changes the spec of a rule. Its address and network stay.
func (a *Admin) ChangeRule(kind cluster.Kind, idOrName string, change func(*cluster.Spec)) error {
	return a.world.change(kind, idOrName, "ChangeRule", func(t *resource, _ time.Time) error {
		address, network := t.Spec.Address, t.Spec.Network
		change(&t.Spec)
		t.Spec.Address, t.Spec.Network, t.Spec.UserData = address, network, nil
		return nil
	})
}

// Delete removes a resource and its dependents at once; the VMs of a network stay.
func (a *Admin) Delete(kind cluster.Kind, idOrName string) error {
	return a.world.change(kind, idOrName, "Delete", func(t *resource, _ time.Time) error {
		a.world.inventory.remove(t, "Delete")
		return nil
	})
}

// DeleteNetwork removes a network with its addresses and rules. Its VMs stay.
func (a *Admin) DeleteNetwork(network string) error { return a.Delete(cluster.Network, network) }

// AddForeignVM creates a VM without Pawl's tags: in a network as its owner would, or, if
// network is empty, as another user.
func (a *Admin) AddForeignVM(name, network string) (cluster.Resource, error) {
	owner := cluster.Owner{AccountID: "somebody-else"}
	a.world.mu.Lock()
	if t := a.world.inventory.lookup(cluster.Network, network); t != nil {
		owner, network = t.Owner, t.ID
	}
	a.world.mu.Unlock()
	return a.Add(cluster.DesiredResource{
		Kind: cluster.VM, Name: name, Owner: owner,
		Spec: cluster.Spec{Network: network, Offering: a.world.o.Offerings[0].ID, Template: a.world.o.Templates[0].ID, Zone: a.world.o.Zones[0].ID},
	})
}

// AddNetwork creates a network as its owner would, for use by a cluster.
func (a *Admin) AddNetwork(name string, owner cluster.Owner) (cluster.Resource, error) {
	return a.Add(cluster.DesiredResource{
		Kind: cluster.Network, Name: name, Owner: owner,
		Spec: cluster.Spec{Offering: a.world.o.NetworkOfferings[0].ID, Zone: a.world.o.Zones[0].ID},
	})
}

// Add creates a foreign resource that is ready at once.
func (a *Admin) Add(w cluster.DesiredResource) (cluster.Resource, error) {
	var created cluster.Resource
	var err error
	a.world.mutate(func(now time.Time) {
		t := &resource{Kind: w.Kind, Name: w.Name, Owner: w.Owner, Spec: w.Spec, Created: now, Foreign: true}
		t.setTags(w.Tags)
		t.Spec.UserData = nil
		if network, ok := a.world.inventory.byID[w.Spec.Network]; ok {
			t.Spec.Zone = network.Spec.Zone
		}
		if _, err = a.world.builder.prepare(t, w); err != nil {
			return
		}
		a.world.inventory.add(t, "Add")
		t.State = stateReady
		if t.Kind == cluster.VM {
			a.world.nodes.boot(t, now)
		}
		if t.Kind == cluster.Network && !a.world.o.LateSourceNAT {
			a.world.builder.sourceNAT(t, now)
		}
		created = t.toCluster()
	})
	return created, err
}

// SetZone changes or adds a zone. Existing resources stay.
func (a *Admin) SetZone(z Zone) {
	a.world.mutate(func(time.Time) {
		if old := a.world.inventory.capacity.zone(z.ID); old != nil {
			*old = z
			return
		}
		a.world.o.Zones = append(a.world.o.Zones, z)
	})
}

// SetQuota changes the quota of an account; an empty account: that of all accounts without
// their own.
func (a *Admin) SetQuota(account string, q Quota) {
	a.world.mutate(func(time.Time) {
		if account == "" {
			a.world.o.Quota = q
			return
		}
		quotas := map[string]Quota{account: q}
		for other, theirs := range a.world.o.Quotas {
			if other != account {
				quotas[other] = theirs
			}
		}
		a.world.o.Quotas = quotas
	})
}

// Unstick ends all stuck jobs now.
func (a *Admin) Unstick() {
	a.world.mutate(a.world.jobs.unstick)
}
