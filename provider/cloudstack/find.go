package cloudstack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// match is the resource that a lookup has found for a want.
type match struct {
	cluster.Resource
	untagged bool // without any of Pawl's tags
}

// claim says, by the tags, whether a resource belongs to a want.
type claim int

const (
	claimForeign  claim = iota
	claimUntagged       // without any of Pawl's tags
	claimOurs           // all three tags have the want's values
)

func claimOf(r *cluster.Resource, w *cluster.DesiredResource) claim {
	has, same := 0, 0
	for _, key := range []string{cluster.TagInstallation, cluster.TagCluster, cluster.TagKey} {
		value, there := r.Tags[key]
		if there {
			has++
		}
		if value == w.Tags[key] {
			same++
		}
	}
	switch {
	case has == 0:
		return claimUntagged
	case same == 3:
		return claimOurs
	}
	return claimForeign
}

// lookup finds the resource of a want: by name and tags, then by the job of its call id,
// then, for kinds without names, by its spec. nil: none is visible; free is then the job
// id of the next try.
func (p *Provider) lookup(ctx context.Context, s *kindSpec, w *cluster.DesiredResource) (found *match, free string, err error) {
	if found, err = p.byName(ctx, s, w); err != nil || found != nil {
		return found, "", err
	}
	if found, free, err = p.byCall(ctx, s, w); err != nil || found != nil || s.name != "" {
		return found, free, err
	}
	found, err = p.bySpec(ctx, s, w)
	return found, free, err
}

// byName finds the resource by name, or by its key tag for kinds without names.
func (p *Provider) byName(ctx context.Context, s *kindSpec, w *cluster.DesiredResource) (*match, error) {
	by := params{s.name: w.Name}
	if s.name == "" {
		by = tagged(cluster.TagKey, w.Key)
	}
	items, err := p.listAll(ctx, s, w.Spec.Zone, p.accountParams(w.Owner), by)
	if err != nil {
		return nil, err
	}
	return choose(s, w, items, func(r *cluster.Resource, c claim) bool {
		return s.name == "" && c == claimOurs || s.name != "" && r.Name == w.Name // the list also matches parts of names
	})
}

// choose prefers the resource with the want's tags over one without tags.
func choose(s *kindSpec, w *cluster.DesiredResource, items []item, fits func(*cluster.Resource, claim) bool) (*match, error) {
	var with, without []match
	for i := range items {
		r := s.toResource(&items[i], w.Spec.Zone)
		switch c := claimOf(&r, w); {
		case !fits(&r, c):
		case c == claimOurs:
			with = append(with, match{Resource: r})
		case c == claimUntagged:
			without = append(without, match{Resource: r, untagged: true})
		}
	}
	if len(with) == 0 {
		with = without
	}
	switch len(with) {
	case 0:
		return nil, nil //nolint:nilnil // see lookup
	case 1:
		return &with[0], nil
	}
	return nil, cluster.ProviderRefused.Errorf("%d resources match the %s %s (%s, %s): cannot decide which one is ours", len(with), w.Kind, w.Name, with[0].ID, with[1].ID)
}

// maxJobTries limits the jobs of one call id that are followed.
const maxJobTries = 20

// byCall finds the resource by the recent creates of this process, in case lists are late,
// and by the job of the call id. A failed job without a resource has used up its id: the
// next try uses the next id.
func (p *Provider) byCall(ctx context.Context, s *kindSpec, w *cluster.DesiredResource) (found *match, free string, err error) {
	if id := p.recent.get(w); id != "" {
		if found, err := p.byRecent(ctx, s, w, id); err != nil || found != nil {
			return found, "", err
		}
	}
	if err := p.learn(ctx); err != nil {
		return nil, "", err
	}
	if w.CallID == "" || !p.apis.accepts(s.create(), customJobID) {
		return nil, "", nil
	}
	free = w.CallID
	for range maxJobTries {
		j, err := p.job(ctx, free, w.Spec.Zone)
		if errors.Is(err, errNoJob) {
			return nil, free, nil
		}
		if err != nil {
			return nil, "", err
		}
		if id := j.createdID(); id != "" {
			if found, err := p.byRecent(ctx, s, w, id); err != nil || found != nil {
				return found, "", err
			}
		}
		if *j.Status == jobOpen {
			return nil, "", cluster.ResourceInUse.Errorf("%s: job %s of %s is under way and shows nothing yet", s.create(), free, w.Name)
		}
		free = nextJobID(free)
	}
	return nil, "", nil // then the next try has no job id
}

// nextJobID returns the id of the job after a failed one.
func nextJobID(id string) string {
	b := sha256.Sum256([]byte(id))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// byRecent reads the resource that a call is known to have created.
func (p *Provider) byRecent(ctx context.Context, s *kindSpec, w *cluster.DesiredResource, id string) (*match, error) {
	it, err := p.byID(ctx, s, id, w.Spec.Zone)
	var refused *refusal
	if errors.Is(err, errNotListed) || errors.As(err, &refused) && refused.unknownID() {
		return nil, nil //nolint:nilnil // it no longer exists; or the job was of another kind
	}
	if err != nil {
		return nil, err
	}
	return choose(s, w, []item{*it}, func(r *cluster.Resource, _ claim) bool { return s.name == "" || r.Name == w.Name })
}

// bySpec finds a resource without a name that was created but not yet tagged: it belongs
// to a resource of the same cluster and equals the want. It ignores resources that belong
// to somebody else, and source NAT addresses, which the network may have created itself.
func (p *Provider) bySpec(ctx context.Context, s *kindSpec, w *cluster.DesiredResource) (*match, error) {
	owner, by := cluster.Ref{Kind: cluster.Network, ID: w.Spec.Network, Zone: w.Spec.Zone}, params{s.network: w.Spec.Network}
	if s.kind != cluster.Address {
		owner, by = cluster.Ref{Kind: cluster.Address, ID: w.Spec.Address, Zone: w.Spec.Zone}, params{"ipaddressid": w.Spec.Address}
	}
	if owner.ID == "" {
		return nil, nil //nolint:nilnil // see lookup
	}
	trusted, err := p.belongsToCluster(ctx, owner, w)
	if err != nil || !trusted {
		return nil, err
	}
	items, err := p.listAll(ctx, s, w.Spec.Zone, p.accountParams(w.Owner), by)
	if err != nil {
		return nil, err
	}
	return choose(s, w, items, func(r *cluster.Resource, c claim) bool { return c == claimUntagged && sameRule(r, w) })
}

// belongsToCluster reports whether a network or address has the tags of the want's
// cluster, or is the source NAT of such a network.
func (p *Provider) belongsToCluster(ctx context.Context, ref cluster.Ref, w *cluster.DesiredResource) (bool, error) {
	s := kindSpecs[ref.Kind]
	it, err := p.byID(ctx, s, ref.ID, ref.Zone)
	var refused *refusal
	switch {
	case errors.Is(err, errNotListed), errors.As(err, &refused) && refused.unknownID():
		return false, nil
	case err != nil:
		return false, err
	}
	r := s.toResource(it, ref.Zone)
	same := r.Tags[cluster.TagInstallation] == w.Tags[cluster.TagInstallation] && r.Tags[cluster.TagCluster] == w.Tags[cluster.TagCluster]
	if same || !r.SourceNAT || r.Spec.Network == "" {
		return same, nil
	}
	return p.belongsToCluster(ctx, cluster.Ref{Kind: cluster.Network, ID: r.Spec.Network, Zone: ref.Zone}, w)
}

func sameRule(r *cluster.Resource, w *cluster.DesiredResource) bool {
	a, b := r.Spec, w.Spec
	switch w.Kind {
	case cluster.Address:
		return !r.SourceNAT
	case cluster.Firewall:
		return sameEnd(a, b) && strings.Join(a.CIDRs, ",") == strings.Join(cidrs(strings.Join(b.CIDRs, ",")), ",")
	case cluster.Forward:
		return sameEnd(a, b) && a.VM == b.VM && a.PrivatePort == privatePort(b)
	}
	return false
}

func sameEnd(a, b cluster.Spec) bool {
	return a.Address == b.Address && a.Port == b.Port && a.Protocol == protocol(b)
}

// Find looks up the resource of a want. It adds the tags to a resource that was created
// but not yet tagged. ErrGone if it finds nothing and another signed call works.
func (p *Provider) Find(ctx context.Context, w cluster.DesiredResource) (cluster.Resource, error) {
	s, err := p.valid(&w)
	if err != nil {
		return cluster.Resource{}, err
	}
	unlock, err := p.keys.lock(ctx, string(w.Kind)+"/"+w.Name)
	if err != nil {
		return cluster.Resource{}, unanswered("find", err)
	}
	defer unlock()
	found, _, err := p.lookup(ctx, s, &w)
	if err != nil {
		return cluster.Resource{}, err
	}
	if found == nil {
		if err := p.checkAPI(ctx, w.Spec.Zone); err != nil {
			return cluster.Resource{}, err
		}
		return cluster.Resource{}, goneError(cluster.Ref{Kind: w.Kind, Name: w.Name})
	}
	if _, err := p.finish(ctx, s, &w, found); err != nil {
		return cluster.Resource{}, err
	}
	if s.kind == cluster.Balancer {
		if found.Spec.VMs, err = p.balancerVMs(ctx, found.ID, w.Spec.Zone); err != nil {
			return cluster.Resource{}, err
		}
	}
	return found.Resource, nil
}

// tagged returns the parameters that select by one tag.
func tagged(key, value string) params {
	return params{"tags[0].key": key, "tags[0].value": value}
}

func indexed(name string, i int, field string) string {
	return name + "[" + strconv.Itoa(i) + "]." + field
}
