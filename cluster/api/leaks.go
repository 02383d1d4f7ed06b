package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Leak is a resource that could not be deleted, was forgotten, or is an orphan.
type Leak struct {
	Cluster  string        `json:"cluster,omitempty"`
	Name     string        `json:"clusterName,omitempty"`
	Owner    cluster.Owner `json:"-"`
	Account  string        `json:"accountId,omitempty"`
	Domain   string        `json:"domainId,omitempty"`
	Provider string        `json:"provider"`
	Kind     cluster.Kind  `json:"kind"`
	ID       string        `json:"id,omitempty"`
	Resource string        `json:"resource"`
	Since    time.Time     `json:"since"`
	Attempts int           `json:"attempts"`
	Code     string        `json:"code,omitempty"`
	Text     string        `json:"text,omitempty"`
	Remedy   string        `json:"remedy,omitempty"`
	Phase    string        `json:"phase"`
}

// ProviderAlerts returns an alert for each provider that cannot be read, by
// name: the fault, since when, and the remedy. It reads the results of the
// newest passes of all servers. An empty map means that all providers answer.
func (s *Reader) ProviderAlerts(ctx context.Context) (map[string]string, error) {
	texts := map[string]string{}
	outages, err := s.outages(ctx)
	for _, n := range outages {
		texts[n.Provider] = fmt.Sprintf("%s since %s: %s. %s", n.Code, n.Since.UTC().Format(time.RFC3339), n.Text, remedyOf(n.Code))
	}
	return texts, err
}

// outages returns the oldest notice with a fault of each provider.
func (s *Reader) outages(ctx context.Context) (oldest []cluster.Notice, err error) {
	all, err := s.options.Store.Notices(ctx)
	for _, n := range all {
		if !s.options.Providers.Has(n.Provider) || n.Since.IsZero() {
			continue
		}
		switch last := len(oldest) - 1; {
		case last < 0 || oldest[last].Provider != n.Provider:
			oldest = append(oldest, n)
		case n.Since.Before(oldest[last].Since):
			oldest[last] = n
		}
	}
	return oldest, err
}

func remedyOf(code fault.Code) string {
	if kind, known := fault.Lookup(string(code)); known {
		return kind.Remedy
	}
	return ""
}

// noticeLeaks returns the part of the leak report that is not in the journal:
// the orphans that the newest passes of the collector found, and one entry for
// each provider that cannot be read.
func (s *Reader) noticeLeaks(ctx context.Context, uuid string, kind cluster.Kind) ([]Leak, error) {
	all, err := s.options.Store.Notices(ctx)
	if err != nil {
		return nil, err
	}
	var found []Leak
	for _, n := range all {
		if !s.options.Providers.Has(n.Provider) {
			continue
		}
		for _, orphan := range n.Orphans {
			if (uuid == "" || orphan.Cluster == uuid) && (kind == "" || orphan.Kind == kind) {
				found = append(found, leakOfOrphan(n.Provider, orphan))
			}
		}
		if n.More > 0 && uuid == "" && kind == "" {
			found = append(found, Leak{Provider: n.Provider, Phase: "orphan", Text: fmt.Sprintf("%d more resources carry the tag of this installation, without proof that they belong to it", n.More)})
		}
	}
	if uuid != "" || kind != "" {
		return found, nil
	}
	outages, err := s.outages(ctx)
	for _, n := range outages {
		found = append(found, Leak{Provider: n.Provider, Phase: "unseen", Since: n.Since, Code: string(n.Code), Text: n.Text, Remedy: remedyOf(n.Code)})
	}
	return found, err
}

func leakOfOrphan(provider string, orphan cluster.Orphan) Leak {
	l := Leak{
		Cluster: orphan.Cluster, Name: orphan.Known, Owner: orphan.Owner, Provider: provider, Kind: orphan.Kind, ID: orphan.ID, Resource: orphan.Resource, Since: orphan.Since, Phase: "orphan",
		Text:   "it carries the tag of this installation, and its cluster is not known to this database",
		Remedy: "Delete it at the provider if nobody needs it. After a restore of the database it may belong to a living cluster.",
	}
	if orphan.Known != "" {
		l.Account, l.Domain = orphan.Owner.AccountID, orphan.Owner.DomainID
		l.Text = "it carries the tags of this cluster, but this service does not give such a name"
	}
	return l
}

// Leaks lists leaked and forgotten resources, orphans, and providers that cannot
// be read. It is for operators only. uuid (id or name of a cluster) and kind may
// be empty. CLUSTER_NOT_FOUND for a cluster that has neither a record nor a
// leak.
func (s *Reader) Leaks(ctx context.Context, who cluster.Caller, uuid string, kind cluster.Kind, offset, limit int) ([]Leak, int, error) {
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
	rows, total, err := s.options.Store.Rows(ctx, cluster.RowQuery{
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
