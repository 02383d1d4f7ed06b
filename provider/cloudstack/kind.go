package cloudstack

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Tags in addition to those of cluster, for values that have no field in the API.
const (
	tagName    = "pawl-name"    // of addresses and rules
	tagZone    = "pawl-zone"    // of rules
	tagAccount = "pawl-account" // the owner, if all owners share one account of the server
)

// kindSpec describes the API commands of a kind.
type kindSpec struct {
	kind    cluster.Kind
	list    string // command
	item    string // key of its array
	tagged  string // resource type of createTags
	remove  string // command; of a VM: destroy
	network string // list parameter that selects by network
	name    string // list parameter that selects by name; empty: the kind has no names
	zone    bool   // list takes zoneid
}

var kindSpecs = map[cluster.Kind]*kindSpec{
	cluster.VM:       {cluster.VM, "listVirtualMachines", "virtualmachine", "UserVm", "destroyVirtualMachine", "networkid", "name", true},
	cluster.Network:  {cluster.Network, "listNetworks", "network", "Network", "deleteNetwork", "id", "keyword", true},
	cluster.Address:  {cluster.Address, "listPublicIpAddresses", "publicipaddress", "PublicIpAddress", "disassociateIpAddress", "associatednetworkid", "", true},
	cluster.Firewall: {cluster.Firewall, "listFirewallRules", "firewallrule", "FirewallRule", "deleteFirewallRule", "networkid", "", false},
	cluster.Forward:  {cluster.Forward, "listPortForwardingRules", "portforwardingrule", "PortForwardingRule", "deletePortForwardingRule", "networkid", "", false},
	cluster.Balancer: {cluster.Balancer, "listLoadBalancerRules", "loadbalancerrule", "LoadBalancer", "deleteLoadBalancerRule", "networkid", "name", true},
}

// tag is one tag of a resource.
type tag struct {
	Key   text `json:"key"`
	Value text `json:"value"`
}

// item is a resource in a list: the fields of all kinds.
type item struct {
	ID      text   `json:"id"`
	Name    text   `json:"name"`
	State   text   `json:"state"`
	ZoneID  text   `json:"zoneid"`
	Created text   `json:"created"`
	Tags    []tag  `json:"tags"`
	Address text   `json:"ipaddress"`
	Nics    []nic  `json:"nic"`
	Cores   number `json:"cpunumber"`
	Memory  number `json:"memory"`

	Offering        text `json:"serviceofferingid"`
	Template        text `json:"templateid"`
	KeyPair         text `json:"keypair"`
	NetworkOffering text `json:"networkofferingid"`
	SourceNAT       flag `json:"issourcenat"`
	Associated      text `json:"associatednetworkid"`
	Allocated       text `json:"allocated"`
	NetworkID       text `json:"networkid"`

	Protocol    text   `json:"protocol"`
	AddressID   text   `json:"ipaddressid"`
	PublicID    text   `json:"publicipid"`
	StartPort   number `json:"startport"`
	PublicPort  number `json:"publicport"`
	PrivatePort number `json:"privateport"`
	EndPort     number `json:"endport"`
	PublicEnd   number `json:"publicendport"`
	CIDRs       text   `json:"cidrlist"`
	VM          text   `json:"virtualmachineid"`

	System   flag      `json:"issystem"`
	Services []service `json:"service"`
}

// nic is the network interface of a VM.
type nic struct {
	NetworkID text `json:"networkid"`
	Address   text `json:"ipaddress"`
	Default   flag `json:"isdefault"`
}

type service struct {
	Name text `json:"name"`
}

// powers maps VM states. A missing state is unknown.
var powers = map[string]cluster.Power{
	"starting": cluster.PoweringOn, "running": cluster.PoweredOn, "stopping": cluster.PoweringOff, "stopped": cluster.PoweredOff,
	"destroyed": cluster.PowerGone, "expunging": cluster.PowerGone, "migrating": cluster.PoweringOn, "error": cluster.PowerBroken,
	"unknown": cluster.UnknownPower, "shutdown": cluster.PoweredOff, "shutdowned": cluster.PoweredOff, "restoring": cluster.PoweringOn,
}

func power(state string) cluster.Power {
	if p, ok := powers[strings.ToLower(state)]; ok {
		return p
	}
	return cluster.UnknownPower
}

// powerOfState maps the states of all kinds but VMs.
func powerOfState(state string) cluster.Power {
	switch strings.ToLower(state) {
	case "allocating", "setup":
		return cluster.PoweringOn
	case "releasing", "revoke", "deleting", "destroy":
		return cluster.PoweringOff
	case "free":
		return cluster.PowerGone
	}
	return cluster.PoweredOn
}

// toResource converts an item. It uses zone if neither the API nor the tags name one.
func (s *kindSpec) toResource(it *item, zone string) cluster.Resource {
	tags := make(map[string]string, len(it.Tags))
	for _, t := range it.Tags {
		tags[string(t.Key)] = string(t.Value)
	}
	r := cluster.Resource{
		Kind: s.kind, ID: string(it.ID), Identity: string(it.ID), Name: string(it.Name), Tags: tags, State: string(it.State),
		Power: powerOfState(string(it.State)), Created: date(string(it.Created)),
		Zone: cmp.Or(string(it.ZoneID), tags[tagZone], zone),
	}
	if s.name == "" {
		r.Name = cmp.Or(tags[tagName], string(it.Name))
	}
	for _, own := range []string{tagName, tagZone, tagAccount} {
		delete(r.Tags, own)
	}
	r.Spec = s.spec(it)
	r.Spec.Zone = r.Zone
	switch s.kind {
	case cluster.VM:
		r.Power = power(string(it.State))
		r.Address = string(it.nic().Address)
	case cluster.Address:
		// The id belongs to the IP itself: the time of allocation distinguishes its users.
		r.Identity += "/" + string(it.Allocated)
		r.Address, r.SourceNAT = string(it.Address), bool(it.SourceNAT)
	}
	return r
}

// nic returns the default interface, or the first one.
func (it *item) nic() nic {
	if i := slices.IndexFunc(it.Nics, func(n nic) bool { return bool(n.Default) }); i >= 0 {
		return it.Nics[i]
	}
	if len(it.Nics) > 0 {
		return it.Nics[0]
	}
	return nic{}
}

func (s *kindSpec) spec(it *item) cluster.Spec {
	switch s.kind {
	case cluster.VM:
		return cluster.Spec{Offering: string(it.Offering), Template: string(it.Template), KeyPair: string(it.KeyPair), Network: string(it.nic().NetworkID)}
	case cluster.Network:
		return cluster.Spec{Offering: string(it.NetworkOffering)}
	case cluster.Address:
		return cluster.Spec{Network: string(cmp.Or(it.Associated, it.NetworkID))}
	case cluster.Firewall:
		return cluster.Spec{
			Network: string(it.NetworkID), Address: string(it.AddressID), Protocol: strings.ToLower(string(it.Protocol)),
			Port: port(it.StartPort), CIDRs: cidrs(string(it.CIDRs)),
		}
	case cluster.Forward:
		return cluster.Spec{
			Network: string(it.NetworkID), Address: string(it.AddressID), Protocol: strings.ToLower(string(it.Protocol)),
			Port: port(it.PublicPort), PrivatePort: port(it.PrivatePort), VM: string(it.VM),
		}
	case cluster.Balancer:
		return cluster.Spec{
			Network: string(it.NetworkID), Address: string(it.PublicID), Protocol: strings.ToLower(string(it.Protocol)),
			Port: port(it.PublicPort), PrivatePort: port(it.PrivatePort),
		}
	}
	return cluster.Spec{}
}

func port(n number) int {
	if n < 0 || n > 65535 {
		return 0
	}
	return int(n)
}

// cidrs returns the CIDRs of a rule: empty if it is open to everyone, and never nil,
// because the API always shows them.
func cidrs(list string) []string {
	all := []string{}
	for c := range strings.SplitSeq(list, ",") {
		if c = strings.TrimSpace(c); c != "" {
			all = append(all, c)
		}
	}
	if !slices.ContainsFunc(all, func(c string) bool { return c != "0.0.0.0/0" && c != "::/0" }) {
		return []string{}
	}
	return all
}

func date(s string) time.Time {
	t, err := time.Parse(dateForm, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
