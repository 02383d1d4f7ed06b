package auth

import (
	"context"
	"errors"
	"strings"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/server/route"
)

// Directory is the api.Directory of an account store.
type Directory struct{ Store account.Store }

// Resolve returns the owner for an account name in a domain (id or path). ACCESS_REFUSED if there is none.
func (d Directory) Resolve(ctx context.Context, name, domain string) (cluster.Owner, error) {
	tree, err := d.tree(ctx)
	if err != nil {
		return cluster.Owner{}, err
	}
	domainID := domain
	for id, known := range tree {
		if known.Path == domain {
			domainID = id
		}
	}
	found, err := d.Store.Accounts(ctx, account.Query{Name: name, DomainIDs: []string{domainID}, Page: account.Page{Limit: 1}})
	if err != nil {
		return cluster.Owner{}, err
	}
	if len(found) == 0 || name == "" {
		return cluster.Owner{}, cluster.AccessRefused.Errorf("there is no account %q in domain %q", name, domain).With("parameter", "account")
	}
	return cluster.Owner{AccountID: found[0].ID, DomainID: found[0].DomainID}, nil
}

// Names returns the name of an owner's account, the path of its domain, and whether
// the account is enabled. The name of a deleted account is its id.
func (d Directory) Names(ctx context.Context, o cluster.Owner) (name, domain string, enabled bool, err error) {
	tree, err := d.tree(ctx)
	if err != nil {
		return "", "", false, err
	}
	domain = o.DomainID
	if found, ok := tree[o.DomainID]; ok {
		domain = found.Path
	}
	a, err := d.Store.Account(ctx, o.AccountID)
	if errors.Is(err, account.NotFound) {
		return o.AccountID, domain, false, nil
	}
	return a.Name, domain, tree.Active(a), err
}

// Limits returns the limits of an account. ACCESS_REFUSED if there is none.
func (d Directory) Limits(ctx context.Context, o cluster.Owner) (cluster.Limits, error) {
	a, err := d.Store.Account(ctx, o.AccountID)
	if errors.Is(err, account.NotFound) {
		return cluster.Limits{}, cluster.AccessRefused.Errorf("there is no account %s", o.AccountID)
	}
	return cluster.Limits(a.Limits), err
}

// Subtree returns the ids of a domain and of all below it. ACCESS_REFUSED if there is no such domain.
func (d Directory) Subtree(ctx context.Context, domainID string) ([]string, error) {
	tree, err := d.tree(ctx)
	if err != nil {
		return nil, err
	}
	ids := tree.Subtree(domainID)
	if ids == nil {
		return nil, cluster.AccessRefused.Errorf("there is no domain %q", domainID).With("parameter", "domainid")
	}
	return ids, nil
}

func (d Directory) tree(ctx context.Context) (account.Tree, error) {
	return account.TreeOf(ctx, d.Store)
}

// Caller returns an account as a caller of the cluster service: the owner of the
// clusters that it creates, and the scope in which account.May allows UseCluster.
func Caller(c account.Caller) cluster.Caller {
	visibility := account.VisibilityOf(c.Tree, c.Account, account.UseCluster)
	return cluster.Caller{
		User: c.Name, Owner: cluster.Owner{AccountID: c.ID, DomainID: c.DomainID},
		Scope:    cluster.Scope{All: visibility.All, AccountID: visibility.AccountID, DomainIDs: visibility.DomainIDs},
		Operator: c.Role == account.Operator, DomainAdmin: c.Role == account.DomainAdmin,
	}
}

// Account returns the account of a caller. The operator's own tokens belong to account.System.
func (d Directory) Account(ctx context.Context, who route.Principal) (account.Caller, error) {
	tree, err := d.tree(ctx)
	if err != nil {
		return account.Caller{}, err
	}
	id := who.Account
	if id == "" && who.Role == route.Operator {
		id = account.SystemID
	}
	a, err := d.Store.Account(ctx, id)
	if errors.Is(err, account.NotFound) {
		return account.Caller{}, route.Unauthenticated.Errorf("the account of the request does not exist any more")
	}
	return account.Caller{Account: a, Tree: tree}, err
}

// Callers are the callers of requests as the cluster service knows them. Without an
// account service every caller is the operator.
type Callers struct{ Accounts *account.Service }

// Of returns the caller of a request.
func (c Callers) Of(ctx context.Context) cluster.Caller {
	who := route.CallOf(ctx).Who
	if c.Accounts != nil {
		if found, err := (Directory{Store: c.Accounts.Store}).Account(ctx, who); err == nil {
			caller := Caller(found)
			if who.Account == "" {
				caller.User = who.Name
			}
			return caller
		}
		return cluster.Caller{User: who.Name} // sees nothing
	}
	operator := who.Role >= route.Operator
	return cluster.Caller{
		User: who.Name, Owner: cluster.Owner{AccountID: account.SystemID, DomainID: account.RootID},
		Operator: operator, Scope: cluster.Scope{All: operator},
	}
}

// AccountReviewer is the TokenReviewer of an account service.
type AccountReviewer struct{ Service *account.Service }

// ByToken finds the owner of the token with this hash.
func (d AccountReviewer) ByToken(ctx context.Context, hash TokenHash) (route.Principal, bool, error) {
	c, found, err := d.Service.ByToken(ctx, hash)
	if err != nil || !found {
		return route.Principal{}, false, err
	}
	return route.Principal{Name: c.Name, Role: roleOf(c.Role), Account: c.ID, Domain: c.DomainID}, true, nil
}

// Any reports whether there is any account, token or key besides the operator's own tokens.
func (d AccountReviewer) Any(ctx context.Context) (bool, error) { return d.Service.HasCallers(ctx) }

func roleOf(r account.Role) route.Role {
	for _, role := range []route.Role{route.User, route.DomainAdmin, route.Operator} {
		if strings.EqualFold(role.String(), string(r)) {
			return role
		}
	}
	return route.Anyone
}
