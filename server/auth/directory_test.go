package auth_test

import (
	"testing"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
)

// The directory of the cluster service: names, limits, subtrees.
func TestDirectory(t *testing.T) {
	_, accounts, _ := servertest.NewAccounts(t)
	d := auth.Directory{accounts.Store}
	uma, err := accounts.Find(t.Context(), account.System(), "uma")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.SetLimits(t.Context(), account.System(), "uma", account.Limits{Clusters: 1, Nodes: 2, Cores: 3, MemoryMB: 4, Size: 5}); err != nil {
		t.Fatal(err)
	}
	owner := cluster.Owner{AccountID: uma.ID, DomainID: uma.DomainID}
	if got, err := d.Resolve(t.Context(), "UMA", uma.DomainID); err != nil || got != owner {
		t.Errorf("resolve: %v %v", got, err)
	}
	if got, err := d.Resolve(t.Context(), "uma", "ROOT/dev"); err != nil || got != owner {
		t.Errorf("resolve by the path of the domain: %v %v", got, err)
	}
	for _, c := range [][2]string{{"uma", account.RootID}, {"uma", "ROOT"}, {"uma", "dev"}, {"", uma.DomainID}, {"nobody", uma.DomainID}, {"uma", ""}} {
		if _, err := d.Resolve(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("resolve of %v", c)
		}
	}
	if l, err := d.Limits(t.Context(), owner); err != nil || l != (cluster.Limits{Clusters: 1, Nodes: 2, Cores: 3, MemoryMB: 4, Size: 5}) {
		t.Errorf("limits: %v %v", l, err)
	}
	if name, domain, works, err := d.Names(t.Context(), owner); name != "uma" || domain != "ROOT/dev" || !works || err != nil {
		t.Errorf("names: %s %s %v %v", name, domain, works, err)
	}
	if name, _, works, err := d.Names(t.Context(), cluster.Owner{AccountID: "gone"}); name != "gone" || works || err != nil {
		t.Errorf("names of one that is gone: %s %v %v", name, works, err)
	}
	if ids, err := d.Subtree(t.Context(), account.RootID); len(ids) != 2 || err != nil {
		t.Errorf("subtree: %v %v", ids, err)
	}
	if _, err := d.Subtree(t.Context(), "gone"); err == nil {
		t.Error("the subtree of a domain that is gone")
	}
	for who, want := range map[string]cluster.Scope{
		"uma": {AccountID: uma.ID}, "eve": {}, "dan": {}, "operator": {All: true},
	} {
		a, err := accounts.Find(t.Context(), account.System(), who)
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.Account(t.Context(), route.Principal{Account: a.ID})
		if err != nil {
			t.Fatal(err)
		}
		c := auth.Caller(found)
		if c.Scope.All != want.All || !c.Scope.Sees(c.Owner) || c.Scope.Sees(owner) != (who != "eve") || c.Operator != (who == "operator") || c.DomainAdmin != (who == "dan") {
			t.Errorf("%s: %+v", who, c)
		}
	}
}
