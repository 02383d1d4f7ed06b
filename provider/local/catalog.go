package local

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Catalog lists the entries of a kind: one zone, sizes, versions of the node program, and
// the owner's networks.
func (p *Provider) Catalog(ctx context.Context, owner cluster.Owner, kind cluster.Kind) ([]cluster.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var entries []cluster.Entry
	switch kind {
	case cluster.Zone:
		entries = append(entries, cluster.Entry{Kind: kind, ID: ZoneID, Name: ZoneID, Default: true})
	case cluster.Offering:
		for i, o := range p.options.Offerings {
			entries = append(entries, cluster.Entry{Kind: kind, ID: o.ID, Name: o.Name, Cores: o.Cores, MemoryMB: o.MemoryMB, Default: i == 0})
		}
	case cluster.Template:
		for i, t := range p.options.Templates {
			entries = append(entries, cluster.Entry{Kind: kind, ID: t.ID, Name: t.Name, Default: i == 0})
		}
	case cluster.NetworkOffering:
		entries = append(entries, cluster.Entry{Kind: kind, ID: NetworkOfferingID, Name: NetworkOfferingID, Default: true, Services: services()})
	case cluster.Network:
		return p.networks(owner)
	}
	return entries, p.data.checkExists()
}

// services returns the services that a cluster requires of a network. Those without a
// meaning on loopback count as present.
func services() []string {
	return []string{"Dhcp", "Dns", "UserData", "SourceNat", "Firewall", "PortForwarding", "Lb"}
}

func (p *Provider) networks(owner cluster.Owner) ([]cluster.Entry, error) {
	networks, err := p.data.list(cluster.Network, "")
	if err != nil {
		return nil, err
	}
	vms, err := p.data.list(cluster.VM, "")
	if err != nil {
		return nil, err
	}
	users := map[string]string{}
	for _, vm := range vms {
		if c := vm.Tags[cluster.TagCluster]; c != "" {
			users[vm.Spec.Network] = c
		}
	}
	var entries []cluster.Entry
	for _, n := range networks {
		if n.unreadable != "" || n.Owner != owner {
			continue
		}
		user := users[n.ID]
		if user == "" {
			user = n.Tags[cluster.TagCluster]
		}
		entries = append(entries, cluster.Entry{Kind: cluster.Network, ID: n.ID, Name: n.Name, Zone: ZoneID, Services: services(), InUse: user, State: "Implemented"})
	}
	return entries, nil
}

// Check returns the findings that prevent a plan.
func (p *Provider) Check(ctx context.Context, n cluster.Need) ([]cluster.Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var findings []cluster.Finding
	find := func(code fault.Code, what, text string) {
		findings = append(findings, cluster.Finding{Type: cluster.PlanObstacle, Resource: what, Evidence: text, Code: code, Alarm: code != "", At: p.options.Now()})
	}
	missing := cluster.EntityRefused.Code
	if n.Zone != "" && n.Zone != ZoneID {
		find(missing, n.Zone, "there is no such zone")
	}
	if _, ok := p.options.template(n.Template); !ok {
		find(missing, n.Template, "there is no such template")
	}
	if n.KeyPair != "" {
		find(missing, n.KeyPair, "this provider knows no key pairs")
	}
	if n.DiskGB > 0 {
		find("", "", "VMs of this provider are processes: the size of a root disk has no effect")
	}
	if n.Network != "" {
		switch r, err := p.data.load(n.Network); {
		case isGone(err) || err == nil && r.Kind != cluster.Network:
			find(missing, n.Network, "there is no such network")
		case err != nil:
			return nil, err
		}
	}
	vms, err := p.data.list(cluster.VM, "")
	if err != nil {
		return nil, err
	}
	offering, ok := p.options.offering(n.Offering)
	if !ok {
		find(missing, n.Offering, "there is no such offering")
	} else if err := p.checkCapacity(vms, n.Nodes, offering); err != nil {
		find(cluster.CapacityExhausted.Code, offering.Name, fault.Message(err))
	}
	return findings, nil
}
