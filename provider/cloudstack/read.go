package cloudstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/cluster"
)

// MaxPageSize is the largest page size: the default limit of the API.
const MaxPageSize = 500

const maxPages = 1000 // limit of a complete read

// query reads one page of a list. items is the array under key; an item without id makes
// the answer invalid.
func query[T any](ctx context.Context, p *Provider, r request, key string, idOf func(*T) text) (items []T, count int, err error) {
	var answer map[string]json.RawMessage
	if err := p.call(ctx, r, &answer); err != nil {
		return nil, 0, err
	}
	var n number
	if raw, ok := answer["count"]; ok {
		if err := json.Unmarshal(raw, &n); err != nil {
			return nil, 0, unreadable(r.command, clean(err.Error()))
		}
	}
	if raw, ok := answer[key]; ok {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, 0, unreadable(r.command, clean(err.Error()))
		}
	}
	if page := r.params["page"]; len(items) == 0 && n > 0 && (page == "" || page == "1") {
		return nil, 0, unreadable(r.command, fmt.Sprintf("the count is %d but the list is empty", n))
	}
	for i := range items {
		if idOf(&items[i]) == "" {
			return nil, 0, unreadable(r.command, "it lists something without an id")
		}
	}
	return items, int(n), nil
}

func idOf(it *item) text { return it.ID }

// all reads every page of a list.
func all[T any](ctx context.Context, p *Provider, r request, key string, idOf func(*T) text) ([]T, error) {
	for {
		size := p.pages.size()
		found, err := allOf(ctx, p, r, key, idOf, size)
		if !p.pages.shrink(err, size) {
			return found, err
		}
	}
}

func allOf[T any](ctx context.Context, p *Provider, r request, key string, idOf func(*T) text, size int) ([]T, error) {
	var found []T
	r.params = maps.Clone(r.params)
	if r.params == nil {
		r.params = params{}
	}
	r.params["pagesize"] = strconv.Itoa(size)
	var first text
	for page := 1; page <= maxPages; page++ {
		r.params["page"] = strconv.Itoa(page)
		items, _, err := query(ctx, p, r, key, idOf)
		if err != nil {
			return nil, err
		}
		found = append(found, items...)
		if len(items) < size {
			return found, nil
		}
		id := idOf(&items[0])
		if page > 1 && id == first {
			return nil, unreadable(r.command, "its pages are all the same")
		}
		first = id
	}
	return nil, unreadable(r.command, "the list has no end")
}

// listAll lists all resources of a kind that the parameters select.
func (p *Provider) listAll(ctx context.Context, s *kindSpec, zone string, by ...params) ([]item, error) {
	return all(ctx, p, s.request(zone, by...), s.item, idOf)
}

// allAccounts lists the resources of all accounts that the key sees. Without it a list
// covers one account.
var allAccounts = params{"listall": "true"}

func (s *kindSpec) request(zone string, by ...params) request {
	r := request{command: s.list, zone: zone, params: params{}}
	if s.zone {
		r.params["zoneid"] = zone
	}
	for _, more := range by {
		maps.Copy(r.params, more)
	}
	return r
}

// byID reads one resource. errNotListed if the list of that id is empty; error 431 is
// returned as it is. Neither proves that the resource is gone.
func (p *Provider) byID(ctx context.Context, s *kindSpec, id, zone string) (*item, error) {
	r := request{command: s.list, zone: zone, params: params{"listall": "true", "id": id}}
	items, _, err := query(ctx, p, r, s.item, idOf)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errNotListed
	}
	if len(items) > 1 || string(items[0].ID) != id {
		return nil, unreadable(s.list, "it lists what was not asked for")
	}
	if powerOfState(string(items[0].State)) == cluster.PowerGone && s.kind == cluster.Address {
		return nil, errNotListed // a free address
	}
	return &items[0], nil
}

var errNotListed = errors.New("it is not listed")

// Get reads one resource. ErrGone if the list of its id is empty, or the id is refused,
// while another signed call works.
func (p *Provider) Get(ctx context.Context, ref cluster.Ref) (cluster.Resource, error) {
	s, err := kindSpecOf(ref.Kind)
	if err != nil {
		return cluster.Resource{}, err
	}
	if ref.ID == "" {
		return cluster.Resource{}, cluster.ProviderRefused.Errorf("%s %s has no id", ref.Kind, ref.Name)
	}
	return p.get(ctx, s, ref)
}

func (p *Provider) get(ctx context.Context, s *kindSpec, ref cluster.Ref) (cluster.Resource, error) {
	it, err := p.byID(ctx, s, ref.ID, ref.Zone)
	if err != nil {
		return cluster.Resource{}, p.provenGone(ctx, s, ref, err)
	}
	r := s.toResource(it, ref.Zone)
	if s.kind == cluster.Balancer {
		if r.Spec.VMs, err = p.balancerVMs(ctx, ref.ID, ref.Zone); err != nil {
			return cluster.Resource{}, err
		}
	}
	return r, nil
}

func kindSpecOf(kind cluster.Kind) (*kindSpec, error) {
	if s, ok := kindSpecs[kind]; ok {
		return s, nil
	}
	return nil, cluster.ProviderRefused.Errorf("a CloudStack provider cannot create the kind %s", kind)
}

// provenGone turns an empty list or a refused id into ErrGone if another signed call
// works. It returns all other errors unchanged.
func (p *Provider) provenGone(ctx context.Context, s *kindSpec, ref cluster.Ref, err error) error {
	var refused *refusal
	switch {
	case errors.Is(err, errNotListed):
	case errors.As(err, &refused) && refused.unknownID():
		// The same call without the id must succeed.
		r := request{command: s.list, zone: ref.Zone, params: params{"listall": "true", "page": "1", "pagesize": "1"}}
		if _, _, err := query(ctx, p, r, s.item, idOf); err != nil {
			return err
		}
	default:
		return err
	}
	if err := p.checkAPI(ctx, ref.Zone); err != nil {
		return err
	}
	return goneError(ref)
}

func goneError(ref cluster.Ref) error {
	return fmt.Errorf("%s %s %s: %w", ref.Kind, ref.Name, ref.ID, cluster.ErrGone)
}

// checkAPI makes a signed call whose answer must not be empty: a server that lists no zone
// is not the expected cloud.
func (p *Provider) checkAPI(ctx context.Context, zone string) error {
	zones, err := p.zones(ctx, zone)
	if err != nil {
		return err
	}
	if len(zones) == 0 {
		return cluster.ProviderUnreachable.Errorf("the server lists none of our zones: its other answers cannot be trusted")
	}
	return nil
}

// balancerVMs returns the VMs of a balancer.
func (p *Provider) balancerVMs(ctx context.Context, id, zone string) ([]string, error) {
	r := request{command: "listLoadBalancerRuleInstances", zone: zone, params: params{"id": id}}
	items, err := all(ctx, p, r, "loadbalancerruleinstance", idOf)
	if err != nil {
		return nil, err
	}
	vms := make([]string, 0, len(items))
	for _, it := range items {
		vms = append(vms, string(it.ID))
	}
	slices.Sort(vms)
	return slices.Compact(vms), nil
}
