package cloudstacktest

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// common returns the fields of every resource of an owner.
func (s *Server) common(x sim.View) object {
	o := object{"id": x.ID, "account": x.Owner.AccountID, "domainid": x.Owner.DomainID, "domain": x.Owner.DomainID}
	if tags := s.tags(x); len(tags) > 0 {
		o["tags"] = tags
	}
	return o
}

func (s *Server) tags(x sim.View) []object {
	var all []object
	for _, key := range slices.Sorted(maps.Keys(x.Tags)) {
		all = append(all, object{
			"key": key, "value": x.Tags[key], "resourcetype": resourceTypes[x.Kind], "resourceid": x.ID,
			"account": x.Owner.AccountID, "domainid": x.Owner.DomainID,
		})
	}
	return all
}

// resourceTypes are the resource types of createTags.
var resourceTypes = map[cluster.Kind]string{
	cluster.VM: "UserVm", cluster.Network: "Network", cluster.Address: "PublicIpAddress", cluster.Firewall: "FirewallRule",
	cluster.Forward: "PortForwardingRule", cluster.Balancer: "LoadBalancer",
}

func with(o object, more object) object {
	for key, value := range more {
		if value != "" && value != nil {
			o[key] = value
		}
	}
	return o
}

func (s *Server) name(kind cluster.Kind, id string) string {
	if x, ok := s.o.Cloud.LookupView(kind, id); ok {
		return x.Name
	}
	return ""
}

func (s *Server) ip(address string) string {
	if x, ok := s.o.Cloud.LookupView(cluster.Address, address); ok {
		return x.Address
	}
	return ""
}

func (s *Server) machine(x sim.View) object {
	o := with(s.common(x), object{
		"name": x.Name, "displayname": x.Name, "state": x.State, "zoneid": x.Zone, "zonename": x.Zone, "created": date(x.Created),
		"serviceofferingid": x.Spec.Offering, "serviceofferingname": x.Spec.Offering, "templateid": x.Spec.Template, "templatename": x.Spec.Template,
		"cpunumber": x.Cores, "memory": x.MemoryMB, "keypair": x.Spec.KeyPair, "haenable": false, "hypervisor": "Simulator", "nic": []object{},
	})
	if x.Spec.Network != "" {
		o["nic"] = []object{with(object{"isdefault": true}, object{
			"id": "nic-" + x.ID, "networkid": x.Spec.Network, "networkname": s.name(cluster.Network, x.Spec.Network),
			"ipaddress": x.Address, "type": "Isolated", "traffictype": "Guest",
		})}
	}
	return o
}

func (s *Server) network(x sim.View) object {
	state := "Allocated"
	if vms, _ := s.o.Cloud.CountInNetwork(x.ID); vms > 0 {
		state = "Implemented"
	}
	services := make([]object, len(x.Services))
	for i, name := range x.Services {
		services[i] = object{"name": name}
	}
	return with(s.common(x), object{
		"name": x.Name, "displaytext": x.Name, "zoneid": x.Zone, "zonename": x.Zone, "networkofferingid": x.Spec.Offering,
		"networkofferingname": x.Spec.Offering, "type": "Isolated", "traffictype": "Guest", "state": state, "issystem": x.System,
		"service": services, "created": date(x.Created), "restartrequired": false, "canusefordeploy": true,
	})
}

func (s *Server) address(x sim.View) object {
	return with(s.common(x), object{
		"ipaddress": x.Address, "allocated": date(x.Created), "zoneid": x.Zone, "zonename": x.Zone, "issourcenat": x.SourceNAT,
		"isstaticnat": false, "issystem": false, "associatednetworkid": x.Spec.Network,
		"associatednetworkname": s.name(cluster.Network, x.Spec.Network), "state": "Allocated",
	})
}

func ruleState(x sim.View) string {
	if x.Power == cluster.PoweredOn {
		return "Active"
	}
	return "Add"
}

func (s *Server) firewall(x sim.View) object {
	return with(s.common(x), object{
		"protocol": x.Spec.Protocol, "startport": x.Spec.Port, "endport": x.Spec.Port, "ipaddressid": x.Spec.Address,
		"ipaddress": s.ip(x.Spec.Address), "networkid": x.Spec.Network, "cidrlist": strings.Join(x.Spec.CIDRs, ","), "state": ruleState(x),
	})
}

func (s *Server) forward(x sim.View) object {
	public, private := strconv.Itoa(x.Spec.Port), strconv.Itoa(x.Spec.PrivatePort)
	return with(s.common(x), object{
		"protocol": x.Spec.Protocol, "publicport": public, "publicendport": public, "privateport": private, "privateendport": private,
		"ipaddressid": x.Spec.Address, "ipaddress": s.ip(x.Spec.Address), "networkid": x.Spec.Network, "state": ruleState(x),
		"virtualmachineid": x.Spec.VM, "virtualmachinename": s.name(cluster.VM, x.Spec.VM), "cidrlist": "",
	})
}

func (s *Server) balancer(x sim.View) object {
	return with(s.common(x), object{
		"name": x.Name, "algorithm": "roundrobin", "protocol": x.Spec.Protocol, "publicport": strconv.Itoa(x.Spec.Port),
		"privateport": strconv.Itoa(x.Spec.PrivatePort), "publicipid": x.Spec.Address, "publicip": s.ip(x.Spec.Address),
		"networkid": x.Spec.Network, "state": ruleState(x), "zoneid": x.Zone, "cidrlist": "",
	})
}

func keyPair(x sim.View) object {
	return object{"name": x.Name, "fingerprint": x.Identity, "account": x.Owner.AccountID, "domainid": x.Owner.DomainID}
}

// any converts a resource by its kind; key is its key in a job's result.
func (s *Server) any(x sim.View) (key string, o object) {
	switch x.Kind {
	case cluster.VM:
		return "virtualmachine", s.machine(x)
	case cluster.Network:
		return "network", s.network(x)
	case cluster.Address:
		return "ipaddress", s.address(x)
	case cluster.Firewall:
		return "firewallrule", s.firewall(x)
	case cluster.Forward:
		return "portforwardingrule", s.forward(x)
	case cluster.Balancer:
		return "loadbalancer", s.balancer(x)
	default:
		return "keypair", keyPair(x)
	}
}

func texts(n int) string { return strconv.Itoa(n) }
