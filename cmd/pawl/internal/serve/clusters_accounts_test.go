package serve

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// A tenant's account at the provider stays what it is while the tenant has
// clusters there; the accounts of others may change.
func TestFinding22AccountOfATenantWithClustersStays(t *testing.T) {
	store, err := sql.Open(t.Context(), sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db"), MasterKey: make([]byte, secrets.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	records := store.Clusters()
	created := func(name, owner, provider string) *cluster.Cluster {
		c := &cluster.Cluster{UUID: "uuid-" + name, Name: name, Owner: cluster.Owner{AccountID: owner, DomainID: "here"}, State: cluster.Running, Desired: cluster.WantRunning, NodeCount: 1, ControlCount: 1,
			Zone: cluster.Entity{ID: "z"}, Offering: cluster.Entity{ID: "o"}, Provider: provider, Created: time.Now().UTC(), StateSince: time.Now().UTC()}
		if err := records.Commit(t.Context(), &cluster.Change{Cluster: c}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := ProviderAccount{"acme", "d1"}, ProviderAccount{"other", "d2"}
	start := func(all ProviderAccount, tenants map[string]ProviderAccount) error {
		return recordTenancy(t.Context(), records, records, Provider{Name: "dc1", Type: "cloudstack", Account: all, Accounts: tenants})
	}
	blue := created("blue", "tenant-1", "dc1")
	created("green", "tenant-2", "dc2")
	for _, step := range []struct {
		name    string
		all     ProviderAccount
		tenants map[string]ProviderAccount
		refused string
	}{
		{"first start", ProviderAccount{}, map[string]ProviderAccount{"tenant-1": one}, ""},
		{"the same", ProviderAccount{}, map[string]ProviderAccount{"tenant-1": one}, ""},
		{"another account", ProviderAccount{}, map[string]ProviderAccount{"tenant-1": two}, "account tenant-1 had acme of domain d1 at provider dc1 and is to have other of domain d2, and has the clusters blue"},
		{"none any more", ProviderAccount{}, nil, "is to have the account of the key"},
		{"refused again", two, nil, "tenant-1 had acme"},
		{"the account of others, and of a tenant with clusters elsewhere", two, map[string]ProviderAccount{"tenant-1": one, "tenant-2": two}, ""},
		{"the same account by another way", one, nil, ""},
	} {
		err := start(step.all, step.tenants)
		if step.refused == "" && err != nil || step.refused != "" && (!errors.Is(err, AccountInUse) || !strings.Contains(err.Error(), step.refused)) {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	blue.State = cluster.Destroyed
	if err := records.Commit(t.Context(), &cluster.Change{Cluster: blue}); err != nil {
		t.Fatal(err)
	}
	if err := start(two, nil); err != nil {
		t.Errorf("its cluster is gone: %v", err)
	}
}
