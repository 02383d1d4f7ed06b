package cloudstack

import (
	"context"
	"errors"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// Act starts, stops or destroys a resource. It makes no call if the VM is already on the
// way to that state or being expunged.
func (p *Provider) Act(ctx context.Context, ref cluster.Ref, a cluster.Action) (cluster.Call, error) {
	s, err := kindSpecOf(ref.Kind)
	switch {
	case err != nil:
		return cluster.Call{}, err
	case ref.ID == "":
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s %s has no id", ref.Kind, ref.Name)
	case a != cluster.Destroy && ref.Kind != cluster.VM:
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s %s cannot %s", ref.Kind, ref.Name, a)
	}
	it, err := p.byID(ctx, s, ref.ID, ref.Zone)
	if err != nil {
		return goneAnswer(ref, a, p.provenGone(ctx, s, ref, err))
	}
	is := s.toResource(it, ref.Zone)
	if ref.Identity != "" && ref.Identity != is.Identity {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s %s is another resource: identity %s, not %s", ref.Kind, ref.ID, is.Identity, ref.Identity)
	}
	command, by, err := p.actionCommand(ctx, s, &is, a)
	if err != nil {
		return cluster.Call{}, err
	}
	if command == "" {
		return cluster.Call{Ref: is.Ref(), Done: true}, nil
	}
	job, err := p.sendAsync(ctx, command, is.Zone, by)
	var refused *refusal
	if errors.As(err, &refused) && refused.unknownID() {
		// The resource may have disappeared between the read and the action.
		if _, again := p.byID(ctx, s, ref.ID, ref.Zone); again != nil {
			if again = p.provenGone(ctx, s, ref, again); errors.Is(again, cluster.ErrGone) {
				return goneAnswer(ref, a, again)
			}
		}
	}
	if err != nil {
		return cluster.Call{}, err
	}
	return cluster.Call{Job: job, Ref: is.Ref(), Done: job == ""}, nil
}

// goneAnswer returns the answer to an action on a missing resource: destroy succeeds,
// other actions fail.
func goneAnswer(ref cluster.Ref, a cluster.Action, err error) (cluster.Call, error) {
	if a == cluster.Destroy && errors.Is(err, cluster.ErrGone) {
		return cluster.Call{Ref: ref, Done: true}, nil
	}
	return cluster.Call{}, err
}

// actionCommand returns the command of an action; empty: there is nothing to do.
func (p *Provider) actionCommand(ctx context.Context, s *kindSpec, is *cluster.Resource, a cluster.Action) (command string, by params, err error) {
	by = params{"id": is.ID}
	switch {
	case a == cluster.Destroy && s.kind == cluster.VM:
		return expunge(is, by)
	case a == cluster.Destroy && s.kind == cluster.Network:
		return s.remove, by, p.checkEmpty(ctx, is)
	case a == cluster.Destroy && is.SourceNAT:
		return "", nil, cluster.ProviderRefused.Errorf("address %s is the source NAT of its network: it goes with the network", is.Address)
	case a == cluster.Destroy && is.Power == cluster.PoweringOff:
		return "", nil, nil
	case a == cluster.Destroy:
		return s.remove, by, nil
	}
	busy := cluster.ResourceInUse.Errorf("VM %s is %s", is.Name, is.State)
	never := cluster.ProviderRefused.Errorf("VM %s is %s", is.Name, is.State)
	migrating := strings.EqualFold(is.State, "Migrating")
	switch a {
	case cluster.Start:
		switch {
		case is.Power == cluster.PoweredOn, is.Power == cluster.PoweringOn:
			return "", nil, nil
		case is.Power == cluster.PoweredOff:
			return "startVirtualMachine", by, nil
		case is.Power == cluster.PoweringOff:
			return "", nil, busy
		}
	case cluster.Stop, cluster.ForceStop:
		forced := a == cluster.ForceStop
		if forced {
			by["forced"] = "true"
		}
		switch {
		case is.Power == cluster.PoweredOff, is.Power == cluster.PoweringOff && !forced:
			return "", nil, nil
		case is.Power == cluster.PoweredOn, forced && !migrating && is.Power != cluster.PowerGone:
			return "stopVirtualMachine", by, nil
		case is.Power == cluster.PoweringOn:
			return "", nil, busy
		}
	}
	return "", nil, never
}

// expunge returns the command that removes a VM completely.
func expunge(is *cluster.Resource, by params) (string, params, error) {
	switch strings.ToLower(is.State) {
	case "expunging":
		return "", nil, nil
	case "destroyed":
		return "expungeVirtualMachine", by, nil
	}
	by["expunge"] = "true"
	return "destroyVirtualMachine", by, nil
}

// checkEmpty refuses to delete a network that has a VM: the server's own error gives no
// reason.
func (p *Provider) checkEmpty(ctx context.Context, network *cluster.Resource) error {
	vms := kindSpecs[cluster.VM]
	items, err := p.listAll(ctx, vms, network.Zone, allAccounts, params{"networkid": network.ID})
	if err != nil {
		return err
	}
	if len(items) > 0 {
		return cluster.ResourceInUse.Errorf("network %s has VM %s (%s), which is %s", network.Name, clean(string(items[0].Name)), items[0].ID, clean(string(items[0].State)))
	}
	return nil
}
