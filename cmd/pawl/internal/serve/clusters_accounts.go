package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// AccountInUse is the fault of a configuration that gives a tenant with clusters
// another account of the provider's server.
var AccountInUse = fault.Declare(fault.Kind{
	Code: "PROVIDER_ACCOUNT_IN_USE", Class: fault.Invalid, Title: "a tenant's account at the provider was changed while it has clusters there",
	Remedy: "What was made stays in the account where it was made. Put the former account back into the file of --clusters, delete the clusters that the message names, then change it.",
	Guide:  "container-clusters.md",
})

// tenancy maps owners to the accounts of a provider's server.
type tenancy struct {
	Account  ProviderAccount            `json:"account,omitzero"`
	Accounts map[string]ProviderAccount `json:"accounts,omitempty"` // by ids of Pawl's accounts
}

func (t tenancy) of(account string) ProviderAccount {
	if a, ok := t.Accounts[account]; ok {
		return a
	}
	return t.Account
}

// settings stores values beside the cluster records.
type settings interface {
	Setting(ctx context.Context, name string) (string, error)
	PutSetting(ctx context.Context, name, value string) error
}

// maxNamed limits the clusters that a refusal names.
const maxNamed = 5

// recordTenancy compares the accounts of a provider with those of the start
// before, and remembers them. PROVIDER_ACCOUNT_IN_USE.
func recordTenancy(ctx context.Context, kept settings, records cluster.Store, p Provider) error {
	if p.Type != "cloudstack" {
		return nil
	}
	now := tenancy{p.Account, p.Accounts}
	name := "provider-accounts/" + p.Name
	text, err := kept.Setting(ctx, name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(now)
	if err != nil || text == string(data) {
		return err
	}
	if text != "" {
		var before tenancy
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
		if err := unchanged(ctx, records, p.Name, before, now); err != nil {
			return err
		}
	}
	return kept.PutSetting(ctx, name, string(data))
}

// unchanged reports an owner of clusters of a provider whose account there is another one.
func unchanged(ctx context.Context, records cluster.Store, provider string, before, now tenancy) error {
	held := map[string][]string{} // names of clusters by their owners
	if err := records.Scan(ctx, cluster.ScanQuery{Provider: provider, ClustersOnly: true}, func(b *cluster.Record) error {
		if owner := b.Cluster.Owner.AccountID; before.of(owner) != now.of(owner) {
			held[owner] = append(held[owner], b.Cluster.Name)
		}
		return nil
	}); err != nil {
		return err
	}
	var all []error
	for owner, names := range held {
		more := ""
		if len(names) > maxNamed {
			more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
			names = names[:maxNamed]
		}
		all = append(all, fmt.Errorf("account %s had %s at provider %s and is to have %s, and has the clusters %s%s",
			owner, before.of(owner), provider, now.of(owner), strings.Join(names, ", "), more))
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return AccountInUse.Errorf("%w", errors.Join(all...))
}

// String names an account of a provider's server.
func (a ProviderAccount) String() string {
	if a == (ProviderAccount{}) {
		return "the account of the key"
	}
	return fmt.Sprintf("%s of domain %s", a.Name, a.DomainID)
}
