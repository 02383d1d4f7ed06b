package backend

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/fault"
)

// Accounts are accounts, domains and credentials: those of a store that this
// process opens, where the caller is the operator, or those of a server.
// Lists return at most limit entries; 0: all.
type Accounts interface {
	Accounts(ctx context.Context, domain string, limit int) ([]account.Account, error)
	CreateAccount(ctx context.Context, w account.NewAccount) (account.Account, error)
	DisableAccount(ctx context.Context, ref string, disabled bool) (account.Account, error)
	LimitAccount(ctx context.Context, ref string, l account.Limits) (account.Account, error)
	Domains(ctx context.Context, limit int) ([]account.Domain, error)
	CreateDomain(ctx context.Context, name, parent string) (account.Domain, error)
	DisableDomain(ctx context.Context, ref string, disabled bool) (account.Domain, error)
	Keys(ctx context.Context, of string, limit int) ([]client.Key, error)
	CreateKey(ctx context.Context, n account.NewCredential) (client.Key, error)
	Tokens(ctx context.Context, of string, limit int) ([]client.Token, error)
	CreateToken(ctx context.Context, n account.NewCredential) (client.Token, error)
	RevokeKey(ctx context.Context, id string) error
	RevokeToken(ctx context.Context, id string) error
	Trail(ctx context.Context, q account.TrailQuery) ([]account.Entry, error)
	// IsOpen reports that there is neither account nor token nor key: on
	// loopback everybody is the operator.
	IsOpen(ctx context.Context) (bool, error)
	Close() error
}

// LocalAccounts are those of a store.
type LocalAccounts struct {
	store    Store
	accounts *account.Service
	actor    string
}

var _ Accounts = (*LocalAccounts)(nil)

// OpenAccounts opens the accounts of a store. A client does not create a master key.
func OpenAccounts(ctx context.Context, o StoreOptions, client bool, actor string) (*LocalAccounts, error) {
	store, err := OpenStore(ctx, o, client)
	if err != nil {
		return nil, err
	}
	return &LocalAccounts{store: store, accounts: &account.Service{Store: store.Accounts()}, actor: actor}, nil
}

// Close implements Accounts.
func (l *LocalAccounts) Close() error { return l.store.Close() }

// IsOpen implements Accounts.
func (l *LocalAccounts) IsOpen(ctx context.Context) (bool, error) {
	some, err := l.accounts.HasCallers(ctx)
	return err == nil && !some, err
}

// IsOpen implements Accounts: a server that answers without a token is open.
func (r *Remote) IsOpen(ctx context.Context) (bool, error) {
	if r.token {
		return false, nil
	}
	_, err := r.Domains(ctx, 1)
	return err == nil, nil
}

// note writes an entry into the audit trail under the actor's name.
func (l *LocalAccounts) note(ctx context.Context, call, target string, err error) error {
	e := account.Entry{
		At: time.Now().UTC(), Who: l.actor, Account: account.SystemID, Domain: account.RootID, API: "cli", Call: call, Target: target, Outcome: account.OK,
	}
	if err != nil {
		e.Outcome = string(fault.Of(err).Code)
	}
	if noted := l.accounts.Store.Note(ctx, e); err == nil {
		err = noted
	}
	return err
}

// Accounts implements Accounts.
func (l *LocalAccounts) Accounts(ctx context.Context, domain string, limit int) ([]account.Account, error) {
	return l.accounts.Accounts(ctx, account.System(), domain, account.Page{Limit: limit})
}

// CreateAccount implements Accounts.
func (l *LocalAccounts) CreateAccount(ctx context.Context, w account.NewAccount) (account.Account, error) {
	a, err := l.accounts.CreateAccount(ctx, account.System(), w)
	return a, l.note(ctx, "account create", cmp.Or(a.ID, w.Name), err)
}

// DisableAccount implements Accounts.
func (l *LocalAccounts) DisableAccount(ctx context.Context, ref string, disabled bool) (account.Account, error) {
	a, err := l.accounts.Disable(ctx, account.System(), ref, disabled)
	return a, l.note(ctx, "account "+disabling(disabled), ref, err)
}

func disabling(disabled bool) string {
	if disabled {
		return "disable"
	}
	return "enable"
}

// LimitAccount implements Accounts.
func (l *LocalAccounts) LimitAccount(ctx context.Context, ref string, limits account.Limits) (account.Account, error) {
	a, err := l.accounts.SetLimits(ctx, account.System(), ref, limits)
	return a, l.note(ctx, "account limit", ref, err)
}

// Domains implements Accounts.
func (l *LocalAccounts) Domains(ctx context.Context, limit int) ([]account.Domain, error) {
	return l.accounts.Domains(ctx, account.System(), account.Page{Limit: limit})
}

// CreateDomain implements Accounts.
func (l *LocalAccounts) CreateDomain(ctx context.Context, name, parent string) (account.Domain, error) {
	d, err := l.accounts.CreateDomain(ctx, account.System(), name, parent)
	return d, l.note(ctx, "domain create", cmp.Or(d.ID, name), err)
}

// DisableDomain implements Accounts.
func (l *LocalAccounts) DisableDomain(ctx context.Context, ref string, disabled bool) (account.Domain, error) {
	d, err := l.accounts.DisableDomain(ctx, account.System(), ref, disabled)
	return d, l.note(ctx, "domain "+disabling(disabled), ref, err)
}

// Keys implements Accounts.
func (l *LocalAccounts) Keys(ctx context.Context, of string, limit int) (shown []client.Key, err error) {
	all, err := l.accounts.Keys(ctx, account.System(), of, account.Page{Limit: limit})
	for _, k := range all {
		shown = append(shown, client.Key{Credential: k.Credential})
	}
	return shown, err
}

// CreateKey implements Accounts.
func (l *LocalAccounts) CreateKey(ctx context.Context, n account.NewCredential) (client.Key, error) {
	k, err := l.accounts.CreateKey(ctx, account.System(), n)
	return client.Key{Credential: k.Credential, Secret: k.Secret.Reveal()}, l.note(ctx, "key create", cmp.Or(k.ID, n.Account), err)
}

// Tokens implements Accounts.
func (l *LocalAccounts) Tokens(ctx context.Context, of string, limit int) (shown []client.Token, err error) {
	all, err := l.accounts.Tokens(ctx, account.System(), of, account.Page{Limit: limit})
	for _, t := range all {
		shown = append(shown, client.Token{Credential: t.Credential})
	}
	return shown, err
}

// CreateToken implements Accounts.
func (l *LocalAccounts) CreateToken(ctx context.Context, n account.NewCredential) (client.Token, error) {
	t, secret, err := l.accounts.CreateToken(ctx, account.System(), n)
	return client.Token{Credential: t.Credential, Token: secret.Reveal()}, l.note(ctx, "token create", cmp.Or(t.ID, n.Account), err)
}

// RevokeKey implements Accounts.
func (l *LocalAccounts) RevokeKey(ctx context.Context, id string) error {
	return l.note(ctx, "keys revoke", id, l.accounts.Revoke(ctx, account.System(), id))
}

// RevokeToken implements Accounts.
func (l *LocalAccounts) RevokeToken(ctx context.Context, id string) error {
	return l.note(ctx, "tokens revoke", id, l.accounts.Revoke(ctx, account.System(), id))
}

// Trail implements Accounts.
func (l *LocalAccounts) Trail(ctx context.Context, q account.TrailQuery) ([]account.Entry, error) {
	return l.accounts.Trail(ctx, account.System(), q)
}

var _ Accounts = (*Remote)(nil)

// listed follows the pages of a list until its end or a limit; 0: all.
func listed[T any](limit int, page func(size int, cursor string) (client.Items[T], error)) ([]T, error) {
	all, cursor := []T{}, ""
	for {
		p, err := page(pageLimit(limit-len(all)), cursor)
		if err != nil {
			return nil, err
		}
		all, cursor = append(all, p.Items...), p.Next
		if cursor == "" || len(p.Items) == 0 || limit > 0 && len(all) >= limit {
			return all, nil
		}
	}
}

// pageLimit is the limit of the next page; a parameter that is not positive means all.
func pageLimit(wanted int) int {
	if wanted <= 0 {
		return largestPage
	}
	return min(wanted, largestPage)
}

// Accounts implements Accounts.
func (r *Remote) Accounts(ctx context.Context, domain string, limit int) ([]account.Account, error) {
	return listed(limit, func(size int, cursor string) (client.Items[account.Account], error) {
		return r.API.ListAccounts(ctx, client.ListAccountsParams{Domain: domain, Limit: size, Cursor: cursor})
	})
}

// CreateAccount implements Accounts.
func (r *Remote) CreateAccount(ctx context.Context, w account.NewAccount) (account.Account, error) {
	req := client.CreateAccountRequest{Name: w.Name, Domain: w.Domain, Role: string(w.Role)}
	if w.Limits != (account.Limits{}) {
		req.Limits = &w.Limits
	}
	return r.API.CreateAccount(ctx, req, client.CreateAccountParams{})
}

// DisableAccount implements Accounts.
func (r *Remote) DisableAccount(ctx context.Context, ref string, disabled bool) (account.Account, error) {
	if disabled {
		return r.API.DisableAccount(ctx, ref, client.DisableAccountParams{})
	}
	return r.API.EnableAccount(ctx, ref, client.EnableAccountParams{})
}

// LimitAccount implements Accounts.
func (r *Remote) LimitAccount(ctx context.Context, ref string, l account.Limits) (account.Account, error) {
	return r.API.LimitAccount(ctx, ref, l, client.LimitAccountParams{})
}

// Domains implements Accounts.
func (r *Remote) Domains(ctx context.Context, limit int) ([]account.Domain, error) {
	return listed(limit, func(size int, cursor string) (client.Items[account.Domain], error) {
		return r.API.ListDomains(ctx, client.ListDomainsParams{Limit: size, Cursor: cursor})
	})
}

// CreateDomain implements Accounts.
func (r *Remote) CreateDomain(ctx context.Context, name, parent string) (account.Domain, error) {
	return r.API.CreateDomain(ctx, client.CreateDomainRequest{Name: name, Parent: parent}, client.CreateDomainParams{})
}

// DisableDomain implements Accounts.
func (r *Remote) DisableDomain(ctx context.Context, ref string, disabled bool) (account.Domain, error) {
	if disabled {
		return r.API.DisableDomain(ctx, ref, client.DisableDomainParams{})
	}
	return r.API.EnableDomain(ctx, ref, client.EnableDomainParams{})
}

// Keys implements Accounts.
func (r *Remote) Keys(ctx context.Context, of string, limit int) ([]client.Key, error) {
	return listed(limit, func(size int, cursor string) (client.Items[client.Key], error) {
		return r.API.ListKeys(ctx, client.ListKeysParams{Account: of, Limit: size, Cursor: cursor})
	})
}

// CreateKey implements Accounts.
func (r *Remote) CreateKey(ctx context.Context, n account.NewCredential) (client.Key, error) {
	return r.API.CreateKey(ctx, credential(n), client.CreateKeyParams{})
}

// Tokens implements Accounts.
func (r *Remote) Tokens(ctx context.Context, of string, limit int) ([]client.Token, error) {
	return listed(limit, func(size int, cursor string) (client.Items[client.Token], error) {
		return r.API.ListTokens(ctx, client.ListTokensParams{Account: of, Limit: size, Cursor: cursor})
	})
}

// CreateToken implements Accounts.
func (r *Remote) CreateToken(ctx context.Context, n account.NewCredential) (client.Token, error) {
	return r.API.CreateToken(ctx, credential(n), client.CreateTokenParams{})
}

func credential(n account.NewCredential) client.CreateCredentialRequest {
	body := client.CreateCredentialRequest{Account: n.Account, Name: n.Name}
	if n.ValidFor != 0 {
		body.For = n.ValidFor.String()
	}
	return body
}

// RevokeKey implements Accounts.
func (r *Remote) RevokeKey(ctx context.Context, id string) error {
	return r.API.RevokeKey(ctx, id, client.RevokeKeyParams{})
}

// RevokeToken implements Accounts.
func (r *Remote) RevokeToken(ctx context.Context, id string) error {
	return r.API.RevokeToken(ctx, id, client.RevokeTokenParams{})
}

// Trail implements Accounts.
func (r *Remote) Trail(ctx context.Context, q account.TrailQuery) ([]account.Entry, error) {
	return listed(q.Size(), func(size int, cursor string) (client.Items[account.Entry], error) {
		return r.API.ListAudit(ctx, client.ListAuditParams{Target: q.Target, Limit: size, Cursor: cursor})
	})
}
