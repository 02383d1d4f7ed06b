package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/validate"
	"github.com/pawl-dev/pawl/control"
)

// draft returns a new cluster and its details. It reads all facts first and then
// checks them in a fixed order. Nothing is stored.
func (s *drafter) draft(ctx context.Context, who cluster.Caller, r CreateRequest) (*cluster.Cluster, *cluster.Details, error) {
	owner, enabled, access := s.ownerOf(ctx, who, r)
	facts := &validate.CreateFacts{
		Name: r.Name, Description: r.Description, Size: r.Size, ControlNodes: r.ControlNodes, DiskGB: r.DiskGB, MaxWorkers: s.options.Settings.MaxWorkers,
		Access: access, Enabled: enabled, CIDRs: r.CIDRs,
		ZoneRequested: r.Zone, OfferingRequested: r.Offering, TemplateRequested: s.templateOf(r), KeyPairRequested: r.KeyPair, NetworkRequested: r.Network,
		Registry: validate.RegistryFacts{Username: r.Registry.Username, Password: r.Registry.Password.Reveal(), URL: r.Registry.URL, Email: r.Registry.Email},
	}
	if facts.ControlNodes == 0 {
		facts.ControlNodes = 1
	}
	if limits, err := s.limits(ctx, owner); err == nil {
		facts.AccountMaxWorkers = limits.Size
	}
	version, err := s.options.Versions.Find(r.Version)
	if err != nil && r.Version != "" {
		return nil, nil, err
	}
	facts.MinCores, facts.MinMemoryMB = version.MinCores, version.MinMemory
	named, err := s.entities(ctx, owner, r, facts)
	if err != nil {
		return nil, nil, err
	}
	if err := validate.Create(facts); err != nil {
		return nil, nil, err
	}
	if err := cluster.ValidateRecovery(r.Recovery); err != nil {
		return nil, nil, err
	}
	if err := cluster.ValidateOnFailure(r.OnFailure); err != nil {
		return nil, nil, err
	}
	if err := s.nameFree(ctx, owner, r.Name); err != nil {
		return nil, nil, err
	}
	now, nodes := s.options.Now(), r.Size+facts.ControlNodes
	c := &cluster.Cluster{
		UUID: control.NewUID(), Name: r.Name, Description: r.Description, Owner: owner, Provider: named.Name,
		Zone: entity(facts.Zone), Offering: entity(facts.Offering), Template: entity(facts.Template),
		Network: entity(facts.Network), KeyPair: r.KeyPair, DiskGB: r.DiskGB, Version: version.ID,
		Desired: cluster.WantRunning, NodeCount: r.Size, ControlCount: facts.ControlNodes,
		OnFailure: cmp.Or(r.OnFailure, s.options.Settings.OnFailure), Recovery: r.Recovery, CIDRs: r.CIDRs,
		State: cluster.Created, StateSince: now, Created: now, GC: true,
		Cores: facts.Offering.Cores * nodes, MemoryMB: facts.Offering.MemoryMB * nodes,
	}
	return c, &cluster.Details{
		Username: "admin", Password: cluster.Secret(rand.Text()), NetworkCleanup: r.Network == "",
		RegistryUsername: r.Registry.Username, RegistryPassword: r.Registry.Password, RegistryURL: r.Registry.URL, RegistryEmail: r.Registry.Email,
	}, nil
}

// nameFree refuses the name of a living cluster of the account. The store decides again when the cluster is written.
func (s *drafter) nameFree(ctx context.Context, owner cluster.Owner, name string) error {
	same, _, err := s.options.Store.List(ctx, cluster.ClusterQuery{Scope: cluster.Scope{AccountID: owner.AccountID}, Name: name, ExactName: true, Limit: 1})
	if err == nil && len(same) > 0 {
		err = cluster.NameTaken.Errorf("the account has a cluster %s already", name).With("parameter", "name")
	}
	return err
}

// entities looks up the entities of a request at the provider that has the zone.
func (s *drafter) entities(ctx context.Context, owner cluster.Owner, r CreateRequest, facts *validate.CreateFacts) (providers.Named, error) {
	var named providers.Named
	if r.Provider != "" && !s.options.Providers.Has(r.Provider) {
		return named, cluster.EntityRefused.Errorf("there is no provider %q", r.Provider).With("parameter", "provider")
	}
	for _, name := range s.options.Providers.Names() {
		if r.Provider != "" && r.Provider != name {
			continue
		}
		provider, err := s.options.Providers.Provider(name)
		if err != nil {
			return named, err
		}
		if facts.Zone, err = providers.FindEntry(ctx, provider, owner, cluster.Zone, r.Zone); err != nil {
			return named, err
		}
		if facts.Zone != nil {
			named = providers.Named{Name: name, Provider: provider}
			break
		}
	}
	if named.Provider == nil {
		return named, nil // no zone: validate.Create reports it
	}
	facts.NeedsNetwork = slices.Contains(named.Provider.Capabilities().Kinds, cluster.Network)
	for _, e := range []struct {
		kind  cluster.Kind
		id    string
		into  **cluster.Entry
		asked bool
	}{
		{cluster.Offering, r.Offering, &facts.Offering, true},
		{cluster.Template, facts.TemplateRequested, &facts.Template, true},
		{cluster.NetworkOffering, "", &facts.NetworkOffering, facts.NeedsNetwork && r.Network == ""},
		{cluster.KeyPair, r.KeyPair, &facts.KeyPair, r.KeyPair != ""},
		{cluster.Network, r.Network, &facts.Network, r.Network != ""},
	} {
		if !e.asked {
			continue
		}
		var err error
		if *e.into, err = providers.FindEntry(ctx, named.Provider, owner, e.kind, e.id); err != nil {
			return named, err
		}
	}
	if facts.Network != nil {
		used, _, err := s.options.Store.List(ctx, cluster.ClusterQuery{Scope: cluster.Scope{All: true}, Network: facts.Network.ID, Limit: 1})
		if err != nil {
			return named, err
		}
		if len(used) > 0 {
			facts.Network.InUse = used[0].UUID
		}
	}
	return named, nil
}

func (s *drafter) limits(ctx context.Context, owner cluster.Owner) (cluster.Limits, error) {
	if s.options.Directory == nil {
		return cluster.Limits{}, nil
	}
	return s.options.Directory.Limits(ctx, owner)
}

func entity(e *cluster.Entry) cluster.Entity {
	if e == nil {
		return cluster.Entity{}
	}
	return cluster.Entity{ID: e.ID, Name: e.Name}
}

// templateOf returns the template of a request, or else of its version; empty:
// the default.
func (s *drafter) templateOf(r CreateRequest) string {
	if r.Template != "" {
		return r.Template
	}
	if v, err := s.options.Versions.Find(r.Version); err == nil {
		return v.Template.ID
	}
	return ""
}

// ownerOf returns the owner of the new cluster, and whether the owner's account
// is enabled. The owner is the caller, or an account that the caller may act
// for.
func (s *drafter) ownerOf(ctx context.Context, who cluster.Caller, r CreateRequest) (owner cluster.Owner, enabled bool, err error) {
	owner = who.Owner
	switch {
	case r.Account != "" && s.options.Directory == nil:
		return owner, true, cluster.AccessRefused.Errorf("this server has no accounts").With("parameter", "account")
	case r.Account != "" && r.DomainID == "":
		return owner, true, cluster.ClusterInvalid.Errorf("account %q needs the domainid it is in", r.Account).With("parameter", "domainid")
	case r.Account != "":
		other, err := s.options.Directory.Resolve(ctx, r.Account, r.DomainID)
		if err != nil {
			return owner, true, err
		}
		if !who.Scope.Sees(other) {
			return owner, true, cluster.AccessRefused.Errorf("%s may not create for account %s", who.User, r.Account).With("parameter", "account")
		}
		owner = other
	}
	if s.options.Directory == nil {
		return owner, true, nil
	}
	_, _, enabled, err = s.options.Directory.Names(ctx, owner)
	return owner, enabled, err
}
