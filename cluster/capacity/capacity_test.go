package capacity_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/capacity"
	"github.com/pawl-dev/pawl/fault"
)

// account is an account with its usage and limits.
type account struct {
	usage  cluster.Usage
	limits cluster.Limits
}

func (a account) Usage(context.Context, cluster.Owner) (cluster.Usage, error)   { return a.usage, nil }
func (a account) Limits(context.Context, cluster.Owner) (cluster.Limits, error) { return a.limits, nil }

// full is a provider without room for more than two nodes.
type full struct{ cluster.Provider }

func (full) Check(_ context.Context, n cluster.Need) ([]cluster.Finding, error) {
	if n.Nodes > 2 {
		return []cluster.Finding{{Type: cluster.PlanObstacle, Code: cluster.CapacityExhausted.Code, Evidence: "full", Resource: n.Zone}}, nil
	}
	return nil, nil
}

type only struct{ provider cluster.Provider }

func (p only) Provider(string) (cluster.Provider, error) { return p.provider, nil }

func TestFindings(t *testing.T) {
	running := cluster.Cluster{Zone: cluster.Entity{ID: "z"}, NodeCount: 4, ControlCount: 1, Cores: 6, MemoryMB: 600, Started: true} // 2 nodes are new
	stored := cluster.Usage{Clusters: 1, Nodes: 5, Cores: 6, MemoryMB: 600}
	former := cluster.Usage{Clusters: 1, Nodes: 3, Cores: 6, MemoryMB: 600}
	for _, c := range []struct {
		name   string
		usage  cluster.Usage
		limits cluster.Limits
		nodes  int
		stored capacity.Counted
		want   *fault.Kind
	}{
		{"no limits", stored, cluster.Limits{}, 2, capacity.WithNewSize, nil},
		{"as many nodes as allowed", stored, cluster.Limits{Nodes: 5}, 2, capacity.WithNewSize, nil},
		{"one node too many", stored, cluster.Limits{Nodes: 4}, 2, capacity.WithNewSize, cluster.AccountLimit},
		{"the former size is stored", former, cluster.Limits{Nodes: 4}, 2, capacity.WithFormerSize, cluster.AccountLimit},
		{"cores of the new nodes count", stored, cluster.Limits{Cores: 9}, 2, capacity.WithNewSize, cluster.AccountLimit},
		{"memory too", stored, cluster.Limits{MemoryMB: 1000}, 2, capacity.WithNewSize, nil},
		{"a cluster that is not stored", cluster.Usage{Clusters: 1}, cluster.Limits{Clusters: 1}, 0, capacity.NotCounted, cluster.AccountLimit},
		{"workers of one cluster", stored, cluster.Limits{Size: 3}, 2, capacity.WithNewSize, cluster.AccountLimit},
		{"the provider has no room", stored, cluster.Limits{}, 3, capacity.WithNewSize, cluster.CapacityExhausted},
	} {
		a := account{c.usage, c.limits}
		found, err := capacity.New(capacity.Options{Store: a, Directory: a, Providers: only{full{}}}).Findings(t.Context(), &running, c.nodes, 2, c.stored)
		if err != nil {
			t.Fatal(err)
		}
		if got := capacity.Refusal(found); c.want == nil && got != nil || c.want != nil && fault.Of(got) != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Without a directory there are no accounts, and so no limits.
func TestNoDirectory(t *testing.T) {
	a := account{usage: cluster.Usage{Nodes: 100}}
	found, err := capacity.New(capacity.Options{Store: a, Providers: only{full{}}}).Findings(t.Context(), &cluster.Cluster{}, 1, 0, capacity.WithNewSize)
	if err != nil || capacity.Refusal(found) != nil {
		t.Error(found, err)
	}
}
