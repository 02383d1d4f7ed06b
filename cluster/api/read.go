package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/settings"
)

// Config is the client configuration of a cluster.
type Config struct {
	ID, Name string
	Data     cluster.Secret
}

// Get returns the record of a cluster that the caller may see, by uuid or by
// unique name. CLUSTER_NOT_FOUND, ACCESS_REFUSED.
func (s *Reader) Get(ctx context.Context, who cluster.Caller, id string) (*cluster.Record, error) {
	record, err := s.options.Store.Record(ctx, id)
	if errors.Is(err, cluster.NotFound) && id != "" {
		named, _, listed := s.options.Store.List(ctx, cluster.ClusterQuery{Scope: who.Scope, Name: id, ExactName: true, Limit: 2})
		switch {
		case listed != nil:
			return nil, listed
		case len(named) > 1:
			return nil, cluster.NotFound.Errorf("several clusters are named %q: use the id", id)
		case len(named) == 1:
			record, err = s.options.Store.Record(ctx, named[0].UUID)
		default:
			err = unknownCluster(id)
		}
	}
	if err != nil {
		return nil, err
	}
	if !who.Scope.Sees(record.Cluster.Owner) {
		return nil, cluster.AccessRefused.Errorf("cluster %s is not in the reach of %s", id, who.User)
	}
	return record, nil
}

func unknownCluster(id string) error {
	return cluster.NotFound.Errorf("no cluster has the id or name %q", id)
}

// Hidden replaces ACCESS_REFUSED by CLUSTER_NOT_FOUND, with the same text as for
// an unknown cluster: for APIs that do not distinguish the two.
func Hidden(err error, id string) error {
	if errors.Is(err, cluster.AccessRefused) {
		return unknownCluster(id)
	}
	return err
}

// Config returns the client configuration of a cluster and records the access in
// history.
func (s *Reader) Config(ctx context.Context, who cluster.Caller, uuid string) (*Config, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	details, err := s.options.Store.Details(ctx, record.Cluster.UUID)
	if err != nil {
		return nil, err
	}
	c := &record.Cluster
	if details.ConfigData == "" {
		return nil, cluster.StateRefused.Errorf("cluster %s is %s and has no configuration yet", c.Name, c.State).With("state", string(c.State))
	}
	event := s.options.newEvent(c, who, "audit", "ConfigRead")
	if err := s.options.Store.Commit(ctx, &cluster.Change{ClusterID: c.ID, Events: []*cluster.Event{event}}); err != nil {
		return nil, err
	}
	return &Config{ID: c.UUID, Name: c.Name, Data: details.ConfigData}, nil
}

// Details returns the details of a cluster. Secrets print as stars.
func (s *Reader) Details(ctx context.Context, who cluster.Caller, uuid string) (*cluster.Details, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	return s.options.Store.Details(ctx, record.Cluster.UUID)
}

// Logs returns the newest log lines of a node. node is a name or the provider's
// id.
func (s *Reader) Logs(ctx context.Context, who cluster.Caller, uuid, node string, lines int) (string, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return "", err
	}
	c := &record.Cluster
	n := slices.IndexFunc(record.Nodes, func(n cluster.Node) bool { return n.Name == node || n.VMID != "" && n.VMID == node })
	if n < 0 {
		return "", cluster.ClusterInvalid.Errorf("cluster %s has no node %q; it has %s", c.Name, node, strings.Join(nodeNames(record.Nodes), ", ")).With("parameter", "node")
	}
	provider, err := s.options.Providers.Provider(c.Provider)
	if err != nil {
		return "", err
	}
	logs, ok := provider.(cluster.Logs)
	if !ok || !provider.Capabilities().Logs {
		return "", cluster.ProviderRefused.Errorf("provider %s does not show what its VMs write", c.Provider)
	}
	return logs.Logs(ctx, cluster.Ref{Kind: cluster.VM, ID: record.Nodes[n].VMID, Name: record.Nodes[n].Name, Zone: c.Zone.ID}, lines)
}

func nodeNames(nodes []cluster.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}

// Job returns a job that the caller may see. JOB_NOT_FOUND, ACCESS_REFUSED.
func (s *Reader) Job(ctx context.Context, who cluster.Caller, id string) (*cluster.Job, error) {
	job, err := s.options.Store.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if job.Owner != who.Owner && !who.Operator {
		return nil, cluster.AccessRefused.Errorf("job %s is not in the reach of %s", id, who.User)
	}
	return job, nil
}

// Catalog lists the entries that all providers offer the caller, in the order of
// the providers.
func (s *Reader) Catalog(ctx context.Context, who cluster.Caller, kind cluster.Kind) ([]cluster.Entry, error) {
	var all []cluster.Entry
	for _, name := range s.options.Providers.Names() {
		provider, err := s.options.Providers.Provider(name)
		if err != nil {
			return nil, err
		}
		entries, err := provider.Catalog(ctx, who.Owner, kind)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// Versions returns the configured versions.
func (s *Reader) Versions() settings.Versions { return s.options.Versions }

// Names returns the names of an owner's account and domain, or their ids if the
// directory has none.
func (s *Reader) Names(ctx context.Context, o cluster.Owner) (account, domain string) {
	if s.options.Directory != nil {
		if account, domain, _, err := s.options.Directory.Names(ctx, o); err == nil {
			return account, domain
		}
	}
	return o.AccountID, o.DomainID
}
