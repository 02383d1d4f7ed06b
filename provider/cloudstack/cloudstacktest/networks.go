package cloudstacktest

import (
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

func listNetworks(r *request) (answer, error) {
	q, err := r.query(cluster.Network)
	if err != nil {
		return answer{}, err
	}
	q.Like = r.get("keyword")
	return r.list("network", q, r.network)
}

func createNetwork(r *request) (answer, error) {
	owner, err := r.owner()
	if err != nil {
		return answer{}, err
	}
	call, err := r.client.Create(r.ctx, cluster.DesiredResource{
		Kind: cluster.Network, Name: r.get("name"), Owner: owner, CallID: newID(),
		Spec: cluster.Spec{Zone: r.get("zoneid"), Offering: r.get("networkofferingid")},
	})
	if err != nil {
		return answer{}, err
	}
	x, _ := r.o.Cloud.LookupView(cluster.Network, call.Ref.ID)
	return answer{key: "network", one: r.network(x)}, nil
}

func deleteNetwork(r *request) (answer, error) { return r.act(cluster.Network, cluster.Destroy) }

func listAddresses(r *request) (answer, error) {
	q, err := r.query(cluster.Address)
	if err != nil {
		return answer{}, err
	}
	q.Network = r.get("associatednetworkid")
	ip, nat := r.get("ipaddress"), r.get("issourcenat")
	q.Where = func(x sim.View) bool {
		return (ip == "" || x.Address == ip) && (nat == "" || x.SourceNAT == r.is("issourcenat", false))
	}
	return r.list("publicipaddress", q, r.address)
}

func associate(r *request) (answer, error) {
	owner, err := r.owner()
	if err != nil {
		return answer{}, err
	}
	return r.create(cluster.DesiredResource{Kind: cluster.Address, Owner: owner, Spec: cluster.Spec{Zone: r.get("zoneid"), Network: r.get("networkid")}})
}

func disassociate(r *request) (answer, error) { return r.act(cluster.Address, cluster.Destroy) }

func (r *request) rules(kind cluster.Kind, key, addressParam string, show func(sim.View) object) (answer, error) {
	q, err := r.query(kind)
	if err != nil {
		return answer{}, err
	}
	q.Network, q.Address = r.get("networkid"), r.get(addressParam)
	if kind == cluster.Balancer {
		q.Like = r.get("keyword")
		q.Name = r.get("name")
	}
	return r.list(key, q, show)
}

func listFirewalls(r *request) (answer, error) {
	return r.rules(cluster.Firewall, "firewallrule", "ipaddressid", r.firewall)
}

func listForwards(r *request) (answer, error) {
	return r.rules(cluster.Forward, "portforwardingrule", "ipaddressid", r.forward)
}

func listBalancers(r *request) (answer, error) {
	return r.rules(cluster.Balancer, "loadbalancerrule", "publicipid", r.balancer)
}

// rule creates a rule for an address of the caller. The rule gets the owner of the
// address.
func (r *request) rule(kind cluster.Kind, name, addressParam, portParam string, fill func(*cluster.Spec) error) (answer, error) {
	address, err := r.resource(cluster.Address, addressParam)
	if err != nil {
		return answer{}, err
	}
	port, err := r.number(portParam, 0)
	if err != nil {
		return answer{}, err
	}
	spec := cluster.Spec{Zone: address.Zone, Network: address.Spec.Network, Address: address.ID, Protocol: r.get("protocol"), Port: port}
	if err := fill(&spec); err != nil {
		return answer{}, err
	}
	return r.create(cluster.DesiredResource{Kind: kind, Name: name, Owner: address.Owner, Spec: spec})
}

func createFirewall(r *request) (answer, error) {
	return r.rule(cluster.Firewall, "", "ipaddressid", "startport", func(s *cluster.Spec) error {
		end, err := r.number("endport", s.Port)
		if err == nil && end != s.Port {
			err = refuse("ranges of ports are not simulated")
		}
		if s.CIDRs = r.texts("cidrlist"); s.CIDRs == nil {
			s.CIDRs = []string{"0.0.0.0/0"}
		}
		return err
	})
}

func createForward(r *request) (answer, error) {
	created, err := r.rule(cluster.Forward, "", "ipaddressid", "publicport", func(s *cluster.Spec) error {
		vm, err := r.resource(cluster.VM, "virtualmachineid")
		if err != nil {
			return err
		}
		s.VM = vm.ID
		s.PrivatePort, err = r.number("privateport", s.Port)
		return err
	})
	return r.withFirewallRule(created, err, "ipaddressid")
}

func createBalancer(r *request) (answer, error) {
	created, err := r.rule(cluster.Balancer, r.get("name"), "publicipid", "publicport", func(s *cluster.Spec) (err error) {
		s.PrivatePort, err = r.number("privateport", s.Port)
		return err
	})
	return r.withFirewallRule(created, err, "publicipid")
}

// withFirewallRule also creates a firewall rule that is open to everyone, as the API does
// by default, unless the parameter openfirewall is false.
func (r *request) withFirewallRule(created answer, err error, addressParam string) (answer, error) {
	if err != nil || !r.is("openfirewall", true) {
		return created, err
	}
	port, err := r.number("publicport", 0)
	if err != nil {
		return answer{}, err
	}
	_, err = r.o.Cloud.Add(cluster.DesiredResource{Kind: cluster.Firewall, Owner: r.user.owner(), Spec: cluster.Spec{
		Address: r.get(addressParam), Protocol: "tcp", Port: port, CIDRs: []string{"0.0.0.0/0"},
	}})
	return created, err
}

func deleteFirewall(r *request) (answer, error) { return r.act(cluster.Firewall, cluster.Destroy) }
func deleteForward(r *request) (answer, error)  { return r.act(cluster.Forward, cluster.Destroy) }
func deleteBalancer(r *request) (answer, error) { return r.act(cluster.Balancer, cluster.Destroy) }

func balancerMembers(r *request) (answer, error) {
	x, err := r.resource(cluster.Balancer, "id")
	if err != nil {
		return answer{}, err
	}
	offset, limit, err := r.page()
	if err != nil {
		return answer{}, err
	}
	// Read the cloud once, so that injected faults affect this list too.
	found, total, err := r.client.Select(r.ctx, sim.Query{
		Kind: cluster.VM, Network: x.Spec.Network, Offset: offset, Limit: limit,
		Where: func(vm sim.View) bool { return slices.Contains(x.Spec.VMs, vm.ID) },
	})
	if err != nil {
		return answer{}, err
	}
	a := answer{key: "loadbalancerruleinstance", total: total}
	for _, vm := range found {
		a.list = append(a.list, r.machine(vm))
	}
	return a, nil
}

func (r *request) members(change func(have, given []string) ([]string, error)) (answer, error) {
	x, err := r.resource(cluster.Balancer, "id")
	if err != nil {
		return answer{}, err
	}
	given := r.texts("virtualmachineids")
	for _, id := range given {
		if vm, err := r.lookup(cluster.VM, id); err != nil || vm == nil {
			return answer{}, invalidID(r.command.name, id)
		}
	}
	_, err = r.client.EditAs(r.ctx, x.Ref(), r.job, func(_ map[string]string, spec *cluster.Spec) (err error) {
		spec.VMs, err = change(spec.VMs, given)
		return err
	})
	return answer{job: r.job}, err
}

func assign(r *request) (answer, error) {
	return r.members(func(have, given []string) ([]string, error) {
		for _, id := range given {
			if slices.Contains(have, id) {
				return nil, refuse("VM %s is already mapped to the load balancer", id)
			}
		}
		return append(have, given...), nil
	})
}

func unassign(r *request) (answer, error) {
	return r.members(func(have, given []string) ([]string, error) {
		return slices.DeleteFunc(have, func(id string) bool { return slices.Contains(given, id) }), nil
	})
}
