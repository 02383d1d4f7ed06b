package cloudstack

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Types of listCapacity and of listResourceLimits.
const (
	capacityMemory = 0 // bytes
	capacityCPU    = 1 // MHz
	capacityCores  = 90

	limitVMs     = 0
	limitCores   = 8
	limitMemory  = 9 // MB
	limitAddress = 1
	limitNetwork = 6
)

// Check returns the findings that prevent a plan: ENTITY_REFUSED, CAPACITY_EXHAUSTED,
// QUOTA_EXCEEDED. It checks capacity only if the key may read it; otherwise the later
// calls fail.
func (p *Provider) Check(ctx context.Context, n cluster.Need) ([]cluster.Finding, error) {
	if err := p.learn(ctx); err != nil {
		return nil, err
	}
	var found findings
	offer, err := p.checkEntities(ctx, n, &found)
	if err != nil || offer == nil || len(found) > 0 {
		return found, err
	}
	if err := p.checkCapacity(ctx, n, offer, &found); err != nil {
		return nil, err
	}
	if err := p.checkLimits(ctx, n, offer, &found); err != nil {
		return nil, err
	}
	return found, nil
}

type findings []cluster.Finding

func (f *findings) add(kind *fault.Kind, resource, format string, args ...any) {
	*f = append(*f, cluster.Finding{Type: cluster.PlanObstacle, Resource: resource, Code: kind.Code, Evidence: fmt.Sprintf(format, args...), Alarm: true})
}

func (p *Provider) checkEntities(ctx context.Context, n cluster.Need, found *findings) (*offering, error) {
	zones, err := p.Catalog(ctx, n.Owner, cluster.Zone)
	if err != nil {
		return nil, err
	}
	refused := func(entries []cluster.Entry, kind cluster.Kind, id string) {
		i := slices.IndexFunc(entries, func(e cluster.Entry) bool { return e.ID == id })
		switch {
		case i < 0:
			found.add(cluster.EntityRefused, id, "there is no %s %q", kind, id)
		case entries[i].Disabled:
			found.add(cluster.EntityRefused, id, "%s %s is disabled", kind, entries[i].Name)
		case entries[i].Zone != "" && entries[i].Zone != n.Zone:
			found.add(cluster.EntityRefused, id, "%s %s is not in zone %s", kind, entries[i].Name, n.Zone)
		}
	}
	refused(zones, cluster.Zone, n.Zone)
	offers, err := p.offerings(ctx, "")
	if err != nil {
		return nil, err
	}
	entries := make([]cluster.Entry, len(offers))
	for i := range offers {
		entries[i] = offers[i].Entry
	}
	refused(entries, cluster.Offering, n.Offering)
	templates, err := p.templates(ctx, "", "")
	if err != nil {
		return nil, err
	}
	refused(templates, cluster.Template, n.Template)
	if n.Network != "" {
		networks, err := p.networks(ctx, n.Owner)
		if err != nil {
			return nil, err
		}
		refused(networks, cluster.Network, n.Network)
	}
	if n.DiskGB > 0 && !p.apis.accepts("deployVirtualMachine", rootDiskSize) {
		found.add(cluster.EntityRefused, n.Template, "this API takes no %s: the template decides the size of a root disk", rootDiskSize)
	}
	if n.KeyPair != "" {
		pairs, err := p.keyPairs(ctx, n.Owner)
		if err != nil {
			return nil, err
		}
		refused(pairs, cluster.KeyPair, n.KeyPair)
	}
	if i := slices.IndexFunc(offers, func(o offering) bool { return o.ID == n.Offering }); i >= 0 {
		return &offers[i], nil
	}
	return nil, nil //nolint:nilnil // a finding says so
}

func (p *Provider) checkCapacity(ctx context.Context, n cluster.Need, offer *offering, found *findings) error {
	if n.Nodes <= 0 || !p.apis.accepts("listCapacity", "") {
		return nil
	}
	type capacity struct {
		Type  *number `json:"type"`
		Total number  `json:"capacitytotal"`
		Used  number  `json:"capacityused"`
		Name  text    `json:"name"`
	}
	items, err := all(ctx, p, request{command: "listCapacity", zone: n.Zone, params: params{"zoneid": n.Zone}}, "capacity", func(*capacity) text { return "any" })
	if fault.Of(err) == cluster.ProviderRefused {
		return nil // the key may not read it
	}
	if err != nil {
		return err
	}
	for _, c := range items {
		if c.Type == nil || c.Total <= 0 {
			continue // not metered
		}
		need, what := 0.0, ""
		switch *c.Type {
		case capacityMemory:
			need, what = float64(offer.MemoryMB)*float64(n.Nodes)*(1<<20), "bytes of memory"
		case capacityCPU:
			need, what = float64(offer.Cores)*float64(offer.speed)*float64(n.Nodes), "MHz"
		case capacityCores:
			need, what = float64(offer.Cores)*float64(n.Nodes), "cores"
		}
		if free := float64(c.Total - c.Used); need > math.Max(free, 0) {
			found.add(cluster.CapacityExhausted, n.Zone, "zone %s: %.0f %s are needed, %.0f are free", n.Zone, need, what, math.Max(free, 0))
		}
	}
	return nil
}

func (p *Provider) checkLimits(ctx context.Context, n cluster.Need, offer *offering, found *findings) error {
	if n.Nodes <= 0 || !p.apis.accepts("listResourceLimits", "") {
		return nil
	}
	type limit struct {
		Type text   `json:"resourcetype"`
		Max  number `json:"max"`
	}
	items, err := all(ctx, p, request{command: "listResourceLimits", params: p.accountParams(n.Owner)}, "resourcelimit", func(*limit) text { return "any" })
	if err != nil {
		return err
	}
	most := map[string]int64{}
	for _, l := range items {
		if l.Max >= 0 { // -1: none
			most[strings.TrimSpace(string(l.Type))] = int64(l.Max)
		}
	}
	used, err := p.used(ctx, n, most)
	if err != nil {
		return err
	}
	needs := map[int]int64{limitVMs: int64(n.Nodes), limitCores: int64(n.Nodes) * int64(offer.Cores), limitMemory: int64(n.Nodes) * int64(offer.MemoryMB)}
	if n.Network == "" {
		needs[limitNetwork], needs[limitAddress] = 1, 1
	}
	for _, kind := range []int{limitVMs, limitAddress, limitNetwork, limitCores, limitMemory} {
		limit, limited := most[fmt.Sprint(kind)]
		if need := needs[kind]; limited && need > 0 && used[kind]+need > limit {
			found.add(cluster.QuotaExceeded, n.Owner.AccountID, "the account may have %d %s, has %d and needs %d more", limit, limitNames[kind], used[kind], need)
		}
	}
	return nil
}

var limitNames = map[int]string{limitVMs: "VMs", limitAddress: "addresses", limitNetwork: "networks", limitCores: "cores", limitMemory: "MB of memory"}

// used returns how much of each limited resource the account uses.
func (p *Provider) used(ctx context.Context, n cluster.Need, most map[string]int64) (map[int]int64, error) {
	used := map[int]int64{}
	limited := func(kinds ...int) bool {
		return slices.ContainsFunc(kinds, func(k int) bool { _, ok := most[fmt.Sprint(k)]; return ok })
	}
	count := func(kind cluster.Kind) ([]item, error) {
		s := kindSpecs[kind]
		return all(ctx, p, request{command: s.list, params: p.accountParams(n.Owner)}, s.item, idOf)
	}
	if limited(limitVMs, limitCores, limitMemory) {
		vms, err := count(cluster.VM)
		if err != nil {
			return nil, err
		}
		for i := range vms {
			used[limitVMs]++
			used[limitCores] += int64(size(vms[i].Cores))
			used[limitMemory] += int64(size(vms[i].Memory))
		}
	}
	for kind, number := range map[cluster.Kind]int{cluster.Network: limitNetwork, cluster.Address: limitAddress} {
		if !limited(number) {
			continue
		}
		items, err := count(kind)
		if err != nil {
			return nil, err
		}
		used[number] = int64(len(items))
	}
	return used, nil
}
