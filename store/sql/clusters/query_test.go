package clusters

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
)

func TestOrdered(t *testing.T) {
	for _, ids := range [][]int64{nil, {7}, {3, 1, 2}, {1, 2, 3}, make([]int64, 100)} {
		list := ordered(ids, func(id *int64) int64 { return *id })
		if len(list) != len(ids) || !slices.IsSorted(list) {
			t.Errorf("%v become %v", ids, list)
		}
	}
}

// Only a query for one cluster in any state, by a caller who may see all, is answered
// without a list.
func TestSingleUUID(t *testing.T) {
	one := cluster.ClusterQuery{Scope: cluster.Scope{All: true}, UUID: "u", WithDestroyed: true, Limit: 1}
	if singleUUID(one) != "u" {
		t.Error("it is a list")
	}
	for name, change := range map[string]func(*cluster.ClusterQuery){
		"a scope": func(q *cluster.ClusterQuery) { q.Scope = cluster.Scope{AccountID: "a"} },
		"living":  func(q *cluster.ClusterQuery) { q.WithDestroyed = false },
		"a state": func(q *cluster.ClusterQuery) { q.State = cluster.Running },
		"a name":  func(q *cluster.ClusterQuery) { q.Name = "n" },
		"a word":  func(q *cluster.ClusterQuery) { q.Keyword = "k" },
		"account": func(q *cluster.ClusterQuery) { q.AccountID = "a" },
		"domains": func(q *cluster.ClusterQuery) { q.DomainIDs = []string{"d"} },
		"network": func(q *cluster.ClusterQuery) { q.Network = "n" },
		"offset":  func(q *cluster.ClusterQuery) { q.Offset = 1 },
		"behind":  func(q *cluster.ClusterQuery) { q.AfterID = 1 },
		"many":    func(q *cluster.ClusterQuery) { q.Limit = 2 },
		"no id":   func(q *cluster.ClusterQuery) { q.UUID = "" },
	} {
		q := one
		if change(&q); singleUUID(q) != "" {
			t.Errorf("%s: it is none", name)
		}
	}
}
