package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Get returns the record of a cluster that the caller may see, by uuid or by
// unique name. CLUSTER_NOT_FOUND, ACCESS_REFUSED.
func (s *Service) Get(ctx context.Context, who cluster.Caller, id string) (*cluster.Record, error) {
	record, err := s.options.Records.Record(ctx, id)
	if errors.Is(err, cluster.NotFound) && id != "" {
		named, _, listed := s.options.Records.List(ctx, cluster.ClusterQuery{Scope: who.Scope, Name: id, ExactName: true, Limit: 2})
		switch {
		case listed != nil:
			return nil, listed
		case len(named) > 1:
			return nil, cluster.NotFound.Errorf("several clusters are named %q: use the id", id)
		case len(named) == 1:
			record, err = s.options.Records.Record(ctx, named[0].UUID)
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

// List returns the clusters of a query in the caller's scope.
func (s *Service) List(ctx context.Context, who cluster.Caller, q cluster.ClusterQuery) ([]cluster.Cluster, int, error) {
	q.Scope = who.Scope
	return s.options.Records.List(ctx, q)
}

// Config returns the client configuration of a cluster and records the access in
// history.
func (s *Service) Config(ctx context.Context, who cluster.Caller, uuid string) (*Config, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	details, err := s.options.Records.Details(ctx, record.Cluster.UUID)
	if err != nil {
		return nil, err
	}
	c := &record.Cluster
	if details.ConfigData == "" {
		return nil, cluster.StateRefused.Errorf("cluster %s is %s and has no configuration yet", c.Name, c.State).With("state", string(c.State))
	}
	event := s.event(c, who, "audit", "ConfigRead")
	if err := s.commit(ctx, &cluster.Change{ClusterID: c.ID, Events: []*cluster.Event{event}}); err != nil {
		return nil, err
	}
	return &Config{ID: c.UUID, Name: c.Name, Data: details.ConfigData}, nil
}

// Details returns the details of a cluster. Secrets print as stars.
func (s *Service) Details(ctx context.Context, who cluster.Caller, uuid string) (*cluster.Details, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	return s.options.Records.Details(ctx, record.Cluster.UUID)
}

// Logs returns the newest log lines of a node. node is a name or the provider's
// id.
func (s *Service) Logs(ctx context.Context, who cluster.Caller, uuid, node string, lines int) (string, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return "", err
	}
	c := &record.Cluster
	n := slices.IndexFunc(record.Nodes, func(n cluster.Node) bool { return n.Name == node || n.VMID != "" && n.VMID == node })
	if n < 0 {
		return "", cluster.ClusterInvalid.Errorf("cluster %s has no node %q; it has %s", c.Name, node, strings.Join(nodeNames(record.Nodes), ", ")).With("parameter", "node")
	}
	provider, err := s.provider(c.Provider)
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

// Leaks lists leaked and forgotten resources, orphans, and providers that cannot
// be read. It is for operators only. uuid (id or name of a cluster) and kind may
// be empty. CLUSTER_NOT_FOUND for a cluster that has neither a record nor a
// leak.
func (s *Service) Leaks(ctx context.Context, who cluster.Caller, uuid string, kind cluster.Kind, offset, limit int) ([]Leak, int, error) {
	if !who.Operator {
		return nil, 0, cluster.AccessRefused.Errorf("leaks are for operators")
	}
	var unknown error
	if uuid != "" {
		switch record, err := s.Get(ctx, who, uuid); {
		case err == nil:
			uuid = record.Cluster.UUID
		case errors.Is(err, cluster.NotFound): // leaks stay longer than the record of their cluster
			unknown = err
		default:
			return nil, 0, err
		}
	}
	rows, total, err := s.options.Records.Rows(ctx, cluster.RowQuery{
		Phases: []cluster.Phase{cluster.Leaked, cluster.Forgotten}, Cluster: uuid, Kind: kind, Offset: offset, Limit: limit,
	})
	if err != nil {
		return nil, 0, err
	}
	leaks := make([]Leak, 0, len(rows))
	for _, r := range rows {
		leaks = append(leaks, leakOf(r))
	}
	orphans, err := s.noticeLeaks(ctx, uuid, kind)
	if err != nil {
		return nil, 0, err
	}
	if unknown != nil && total+len(orphans) == 0 {
		return nil, 0, unknown
	}
	space := len(orphans)
	if limit >= 0 {
		space = max(0, cmp.Or(limit, cluster.PageLimit)-len(leaks))
	}
	behind := orphans[min(max(0, offset-total), len(orphans)):] // orphans follow the rows
	return append(leaks, behind[:min(space, len(behind))]...), total + len(orphans), nil
}

func leakOf(r cluster.OwnedRow) Leak {
	l := Leak{
		Cluster: r.Cluster, Name: r.ClusterName, Owner: r.Owner, Account: r.Owner.AccountID, Domain: r.Owner.DomainID, Provider: r.Provider, Kind: r.Kind, ID: r.ProviderID, Resource: r.Name,
		Since: r.ClosingAt, Attempts: r.Attempts, Code: string(r.LastCode), Text: r.LastError, Phase: string(r.Phase),
	}
	if kind, ok := fault.Lookup(string(r.LastCode)); ok {
		l.Remedy = kind.Remedy
	}
	return l
}

// Job returns a job that the caller may see. JOB_NOT_FOUND, ACCESS_REFUSED.
func (s *Service) Job(ctx context.Context, who cluster.Caller, id string) (*cluster.Job, error) {
	job, err := s.options.Records.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if job.Owner != who.Owner && !who.Operator {
		return nil, cluster.AccessRefused.Errorf("job %s is not in the reach of %s", id, who.User)
	}
	return job, nil
}

// Jobs lists jobs in the caller's scope.
func (s *Service) Jobs(ctx context.Context, who cluster.Caller, q cluster.JobQuery) ([]cluster.Job, int, error) {
	q.Scope = who.Scope
	return s.options.Records.Jobs(ctx, q)
}

// Events returns history in the caller's scope.
func (s *Service) Events(ctx context.Context, who cluster.Caller, q cluster.EventQuery) ([]cluster.Event, error) {
	q.Scope = who.Scope
	return s.options.Records.Events(ctx, q)
}

// Catalog lists the entries that all providers offer the caller, in the order of
// the providers.
func (s *Service) Catalog(ctx context.Context, who cluster.Caller, kind cluster.Kind) ([]cluster.Entry, error) {
	var all []cluster.Entry
	for _, p := range s.options.Providers {
		provider, err := s.provider(p.Name)
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
func (s *Service) Versions() []Version { return s.options.Versions }

// Names returns the names of an owner's account and domain, or their ids if the
// directory has none.
func (s *Service) Names(ctx context.Context, o cluster.Owner) (account, domain string) {
	if s.options.Directory != nil {
		if account, domain, _, err := s.options.Directory.Names(ctx, o); err == nil {
			return account, domain
		}
	}
	return o.AccountID, o.DomainID
}
