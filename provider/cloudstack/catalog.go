package cloudstack

import (
	"cmp"
	"context"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// zones returns the zones that the key sees and the options allow; a non-empty id selects
// one.
func (p *Provider) zones(ctx context.Context, id string) ([]cluster.Entry, error) {
	type zone struct {
		ID    text `json:"id"`
		Name  text `json:"name"`
		State text `json:"allocationstate"`
	}
	items, err := all(ctx, p, request{command: "listZones", zone: id, params: params{"id": id, "available": "true"}}, "zone", func(z *zone) text { return z.ID })
	if err != nil {
		return nil, err
	}
	entries := make([]cluster.Entry, 0, len(items))
	for _, z := range items {
		if p.zoneAllowed(string(z.ID)) && (id == "" || string(z.ID) == id) {
			entries = append(entries, cluster.Entry{
				Kind: cluster.Zone, ID: string(z.ID), Name: cmp.Or(string(z.Name), string(z.ID)), State: string(z.State),
				Disabled: z.State != "" && !strings.EqualFold(string(z.State), "Enabled"),
			})
		}
	}
	return entries, nil
}

// Catalog lists what the owner may use.
func (p *Provider) Catalog(ctx context.Context, owner cluster.Owner, kind cluster.Kind) ([]cluster.Entry, error) {
	switch kind {
	case cluster.Zone:
		return p.zones(ctx, "")
	case cluster.Offering:
		offers, err := p.offerings(ctx, "")
		entries := make([]cluster.Entry, 0, len(offers))
		for _, o := range offers {
			entries = append(entries, o.Entry)
		}
		return entries, err
	case cluster.Template:
		return p.templates(ctx, "", "")
	case cluster.NetworkOffering:
		return p.networkOfferings(ctx)
	case cluster.Network:
		return p.networks(ctx, owner)
	case cluster.KeyPair:
		return p.keyPairs(ctx, owner)
	}
	return nil, cluster.ProviderRefused.Errorf("there is no catalog of %s", kind)
}

// offering is a service offering with the fields that a catalog entry lacks.
type offering struct {
	cluster.Entry
	speed int // MHz per core
}

func (p *Provider) offerings(ctx context.Context, id string) ([]offering, error) {
	type shape struct {
		ID     text   `json:"id"`
		Name   text   `json:"name"`
		Cores  number `json:"cpunumber"`
		Speed  number `json:"cpuspeed"`
		Memory number `json:"memory"`
		Custom flag   `json:"iscustomized"`
		State  text   `json:"state"`
	}
	items, err := all(ctx, p, request{command: "listServiceOfferings", params: params{"id": id, "issystem": "false"}}, "serviceoffering", func(s *shape) text { return s.ID })
	if err != nil {
		return nil, err
	}
	offers := make([]offering, 0, len(items))
	for _, s := range items {
		offers = append(offers, offering{speed: size(s.Speed), Entry: cluster.Entry{
			Kind: cluster.Offering, ID: string(s.ID), Name: cmp.Or(string(s.Name), string(s.ID)), Cores: size(s.Cores), MemoryMB: size(s.Memory),
			Custom: bool(s.Custom), State: string(s.State), Disabled: strings.EqualFold(string(s.State), "Inactive"),
		}})
	}
	return offers, nil
}

// size limits a number to a plausible range.
func size(n number) int { return int(min(max(n, 0), 1<<40)) }

// templates returns the templates for VMs. A template in several zones is one entry
// without a zone.
func (p *Provider) templates(ctx context.Context, id, zone string) ([]cluster.Entry, error) {
	type image struct {
		ID    text `json:"id"`
		Name  text `json:"name"`
		Zone  text `json:"zoneid"`
		Ready flag `json:"isready"`
		State text `json:"status"`
	}
	items, err := all(ctx, p, request{command: "listTemplates", zone: zone,
		params: params{"templatefilter": "executable", "id": id, "zoneid": zone, "listall": "true"}}, "template", func(i *image) text { return i.ID })
	if err != nil {
		return nil, err
	}
	at := map[text]int{}
	entries := make([]cluster.Entry, 0, len(items))
	for _, t := range items {
		if i, again := at[t.ID]; again {
			if e := &entries[i]; e.Zone != string(t.Zone) {
				e.Zone, e.Disabled = "", e.Disabled && !bool(t.Ready)
			}
			continue
		}
		at[t.ID] = len(entries)
		entries = append(entries, cluster.Entry{
			Kind: cluster.Template, ID: string(t.ID), Name: cmp.Or(string(t.Name), string(t.ID)), Zone: string(t.Zone), State: string(t.State),
			Disabled: !bool(t.Ready), Default: named(p.o.DefaultTemplate, t.ID, t.Name),
		})
	}
	return entries, nil
}

func named(option string, id, name text) bool {
	return option != "" && (option == string(id) || option == string(name))
}

func (p *Provider) networkOfferings(ctx context.Context) ([]cluster.Entry, error) {
	type shape struct {
		ID       text      `json:"id"`
		Name     text      `json:"name"`
		State    text      `json:"state"`
		Services []service `json:"service"`
	}
	items, err := all(ctx, p, request{command: "listNetworkOfferings", params: params{"guestiptype": "Isolated", "traffictype": "Guest"}}, "networkoffering",
		func(s *shape) text { return s.ID })
	if err != nil {
		return nil, err
	}
	entries := make([]cluster.Entry, 0, len(items))
	for _, s := range items {
		entries = append(entries, cluster.Entry{
			Kind: cluster.NetworkOffering, ID: string(s.ID), Name: cmp.Or(string(s.Name), string(s.ID)), State: string(s.State), Services: names(s.Services),
			Disabled: s.State != "" && !strings.EqualFold(string(s.State), "Enabled"), Default: named(p.o.NetworkOffering, s.ID, s.Name),
		})
	}
	return entries, nil
}

func names(services []service) []string {
	all := make([]string, 0, len(services))
	for _, s := range services {
		all = append(all, string(s.Name))
	}
	return all
}

// ownerParams returns the parameters that restrict a list to an owner's account.
func (p *Provider) ownerParams(owner cluster.Owner) params {
	if p.o.Account != nil && owner == (cluster.Owner{}) {
		return allAccounts
	}
	return p.accountParams(owner)
}

// endpointPort is the port of a cluster's endpoint.
const endpointPort = 6443

// networks returns the networks that an owner may use for a cluster. If all owners share
// one account, it hides the networks that Pawl created for other owners.
func (p *Provider) networks(ctx context.Context, owner cluster.Owner) ([]cluster.Entry, error) {
	s := kindSpecs[cluster.Network]
	items, err := all(ctx, p, request{command: s.list, params: p.ownerParams(owner)}, s.item, idOf)
	if err != nil {
		return nil, err
	}
	taken, err := p.networksWithEndpoint(ctx, owner)
	if err != nil {
		return nil, err
	}
	entries := make([]cluster.Entry, 0, len(items))
	for i := range items {
		it := &items[i]
		if whose := it.tag(tagAccount); whose != "" && owner.AccountID != "" && whose != owner.AccountID || !p.zoneAllowed(string(it.ZoneID)) {
			continue
		}
		entries = append(entries, cluster.Entry{
			Kind: cluster.Network, ID: string(it.ID), Name: cmp.Or(string(it.Name), string(it.ID)), Zone: string(it.ZoneID), State: string(it.State),
			Services: names(it.Services), System: bool(it.System), InUse: it.tag(cluster.TagCluster), Port6443InUse: taken[it.ID],
		})
	}
	return entries, nil
}

func (it *item) tag(key string) string {
	for _, t := range it.Tags {
		if string(t.Key) == key {
			return string(t.Value)
		}
	}
	return ""
}

// networksWithEndpoint returns the networks that have a rule on the endpoint port.
func (p *Provider) networksWithEndpoint(ctx context.Context, owner cluster.Owner) (map[text]bool, error) {
	taken := map[text]bool{}
	for _, kind := range []cluster.Kind{cluster.Firewall, cluster.Forward, cluster.Balancer} {
		s := kindSpecs[kind]
		rules, err := all(ctx, p, request{command: s.list, params: p.ownerParams(owner)}, s.item, idOf)
		if err != nil {
			return nil, err
		}
		for i := range rules {
			rule := &rules[i]
			first := cmp.Or(rule.StartPort, rule.PublicPort)
			if last := cmp.Or(rule.EndPort, rule.PublicEnd, first); first <= endpointPort && endpointPort <= last {
				taken[rule.NetworkID] = true
			}
		}
	}
	return taken, nil
}

type keyPair struct {
	Name text `json:"name"`
}

func (p *Provider) keyPairs(ctx context.Context, owner cluster.Owner) ([]cluster.Entry, error) {
	items, err := all(ctx, p, request{command: "listSSHKeyPairs", params: p.ownerParams(owner)}, "sshkeypair", func(k *keyPair) text { return k.Name })
	if err != nil {
		return nil, err
	}
	entries := make([]cluster.Entry, 0, len(items))
	for _, k := range items {
		// VMs refer to a key pair by name; older servers have no other id.
		entries = append(entries, cluster.Entry{Kind: cluster.KeyPair, ID: string(k.Name), Name: string(k.Name)})
	}
	return entries, nil
}
