package account

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The table of the rules: role x operation x relation.
func TestMay(t *testing.T) {
	// For user, domain admin, operator: own, below, elsewhere.
	table := map[Operation]string{
		UseCluster:     "y-- yy- yyy",
		CreateCluster:  "y-- yy- yyy",
		Forget:         "--- --- yyy",
		SeeLeaks:       "--- --- yyy",
		SetGC:          "--- --- yyy",
		SeeAccount:     "y-- yy- yyy",
		ManageAccounts: "--- yy- yyy",
		SetLimits:      "--- --- yyy",
		ManageDomains:  "--- yy- yyy",
		UseKeys:        "y-- y-- yyy",
		SeeTrail:       "y-- yy- yyy",
	}
	if len(table) != len(Operations) || len(rules) != len(Operations) {
		t.Fatalf("%d rows, %d rules, %d operations", len(table), len(rules), len(Operations))
	}
	for op, row := range table {
		got := ""
		for _, role := range []Role{User, DomainAdmin, Operator} {
			for _, to := range []Relation{Own, Below, Elsewhere} {
				got += map[bool]string{true: "y", false: "-"}[May(role, op, to)]
			}
			got += " "
		}
		if got != row+" " {
			t.Errorf("%s: got %s, want %s", op, got, row)
		}
		for _, nobody := range []Role{"", "root", "Operator"} {
			for _, to := range []Relation{Own, Below, Elsewhere, ""} {
				if May(nobody, op, to) {
					t.Errorf("%q may %s %s", nobody, op, to)
				}
			}
		}
		if May(Operator, op, "") || May(Operator, "fly", Own) {
			t.Errorf("%s: an unknown relation or operation is allowed", op)
		}
	}
}

func testTree() Tree {
	return NewTree([]Domain{
		Root(), {ID: "dev", Path: "ROOT/dev", ParentID: RootID}, {ID: "web", Path: "ROOT/dev/web", ParentID: "dev"},
		{ID: "devs", Path: "ROOT/devs", ParentID: RootID}, {ID: "ops", Path: "ROOT/ops", ParentID: RootID, Disabled: true}, {ID: "night", Path: "ROOT/ops/night", ParentID: "ops"},
	})
}

func TestRelate(t *testing.T) {
	dan := Account{ID: "dan", DomainID: "dev", Role: DomainAdmin}
	for _, c := range []struct {
		owner, domain string
		want          Relation
	}{
		{"dan", "dev", Own},
		{"uma", "dev", Below},
		{"wim", "web", Below},
		{"eve", "devs", Elsewhere}, // a path that begins alike
		{"ida", RootID, Elsewhere},
		{"gus", "gone", Elsewhere},
		{"", "", Elsewhere},
	} {
		if got := Relate(testTree(), dan, c.owner, c.domain); got != c.want {
			t.Errorf("%s in %s is %s, want %s", c.owner, c.domain, got, c.want)
		}
	}
}

func TestCredentialsWork(t *testing.T) {
	for domain, want := range map[string]bool{RootID: true, "dev": true, "web": true, "ops": false, "night": false, "gone": false, "": true} {
		a := Account{ID: "x", DomainID: domain}
		if got := testTree().Active(a); got != want {
			t.Errorf("in %s: %v", domain, got)
		}
		a.Disabled = true
		if testTree().Active(a) {
			t.Errorf("a disabled account in %s works", domain)
		}
	}
	loop := NewTree([]Domain{{ID: "a", ParentID: "b"}, {ID: "b", ParentID: "a"}})
	if loop.Active(Account{DomainID: "a"}) {
		t.Error("an account in a ring of domains works")
	}
}

// Visibility and May are the same rule: a caller may act on exactly the accounts
// that it sees.
func TestVisibilityAgreesWithMay(t *testing.T) {
	tree := testTree()
	var ids []string
	for id := range tree {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rapid.Check(t, func(t *rapid.T) {
		caller := Account{ID: "me", DomainID: rapid.SampledFrom(ids).Draw(t, "domain"), Role: rapid.SampledFrom([]Role{User, DomainAdmin, Operator, ""}).Draw(t, "role")}
		owner := rapid.SampledFrom([]string{"me", "you"}).Draw(t, "owner")
		domain := caller.DomainID
		if owner != "me" {
			domain = rapid.SampledFrom(ids).Draw(t, "its domain")
		}
		op := rapid.SampledFrom(Operations).Draw(t, "operation")
		may := May(caller.Role, op, Relate(tree, caller, owner, domain))
		if sees := VisibilityOf(tree, caller, op).Sees(owner, domain); sees != may {
			t.Fatal(fmt.Sprintf("%+v %s %s in %s: sees %v, may %v", caller, op, owner, domain, sees, may))
		}
	})
}
