package backend

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
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
	Keys(ctx context.Context, of string, limit int) ([]server.Key, error)
	CreateKey(ctx context.Context, n account.NewCredential) (server.Key, error)
	Tokens(ctx context.Context, of string, limit int) ([]server.Token, error)
	CreateToken(ctx context.Context, n account.NewCredential) (server.Token, error)
	// Revoke ends a key or token: kind is keys or tokens.
	Revoke(ctx context.Context, kind, id string) error
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
	if r.options.Token != "" {
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
func (l *LocalAccounts) Keys(ctx context.Context, of string, limit int) (shown []server.Key, err error) {
	all, err := l.accounts.Keys(ctx, account.System(), of, account.Page{Limit: limit})
	for _, k := range all {
		shown = append(shown, server.Key{Credential: k.Credential})
	}
	return shown, err
}

// CreateKey implements Accounts.
func (l *LocalAccounts) CreateKey(ctx context.Context, n account.NewCredential) (server.Key, error) {
	k, err := l.accounts.CreateKey(ctx, account.System(), n)
	return server.Key{Credential: k.Credential, Secret: k.Secret.Reveal()}, l.note(ctx, "key create", cmp.Or(k.ID, n.Account), err)
}

// Tokens implements Accounts.
func (l *LocalAccounts) Tokens(ctx context.Context, of string, limit int) (shown []server.Token, err error) {
	all, err := l.accounts.Tokens(ctx, account.System(), of, account.Page{Limit: limit})
	for _, t := range all {
		shown = append(shown, server.Token{Credential: t.Credential})
	}
	return shown, err
}

// CreateToken implements Accounts.
func (l *LocalAccounts) CreateToken(ctx context.Context, n account.NewCredential) (server.Token, error) {
	t, secret, err := l.accounts.CreateToken(ctx, account.System(), n)
	return server.Token{Credential: t.Credential, Token: secret.Reveal()}, l.note(ctx, "token create", cmp.Or(t.ID, n.Account), err)
}

// Revoke implements Accounts.
func (l *LocalAccounts) Revoke(ctx context.Context, kind, id string) error {
	return l.note(ctx, kind+" revoke", id, l.accounts.Revoke(ctx, account.System(), id))
}

// Trail implements Accounts.
func (l *LocalAccounts) Trail(ctx context.Context, q account.TrailQuery) ([]account.Entry, error) {
	return l.accounts.Trail(ctx, account.System(), q)
}

var _ Accounts = (*Remote)(nil)

// listed follows the pages of a list until its end or a limit; 0: all.
func listed[T any](ctx context.Context, r *Remote, limit int, query url.Values, path ...string) ([]T, error) {
	all := []T{}
	if query == nil {
		query = url.Values{}
	}
	for {
		var page struct {
			Items []T
			Next  string
		}
		query.Set("limit", strconv.Itoa(pageLimit(limit-len(all))))
		if err := r.get(ctx, &page, query, path...); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" || len(page.Items) == 0 || limit > 0 && len(all) >= limit {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}

// pageLimit is the limit of the next page; a parameter that is not positive means all.
func pageLimit(wanted int) int {
	const most = 500
	if wanted <= 0 || wanted > most {
		return most
	}
	return wanted
}

func posted[T any](ctx context.Context, r *Remote, body any, path ...string) (created T, err error) {
	err = r.do(ctx, call{method: http.MethodPost, path: path, header: key(""), body: body}, &created)
	return created, err
}

func only(name, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{name: {value}}
}

// Accounts implements Accounts.
func (r *Remote) Accounts(ctx context.Context, domain string, limit int) ([]account.Account, error) {
	return listed[account.Account](ctx, r, limit, only("domain", domain), "accounts")
}

// CreateAccount implements Accounts.
func (r *Remote) CreateAccount(ctx context.Context, w account.NewAccount) (account.Account, error) {
	body := map[string]any{"name": w.Name, "domain": w.Domain, "role": w.Role}
	if w.Role == "" {
		delete(body, "role")
	}
	if w.Limits != (account.Limits{}) {
		body["limits"] = w.Limits
	}
	return posted[account.Account](ctx, r, body, "accounts")
}

// DisableAccount implements Accounts.
func (r *Remote) DisableAccount(ctx context.Context, ref string, disabled bool) (account.Account, error) {
	return posted[account.Account](ctx, r, nil, "accounts", ref, disabling(disabled))
}

// LimitAccount implements Accounts.
func (r *Remote) LimitAccount(ctx context.Context, ref string, l account.Limits) (account.Account, error) {
	return posted[account.Account](ctx, r, l, "accounts", ref, "limits")
}

// Domains implements Accounts.
func (r *Remote) Domains(ctx context.Context, limit int) ([]account.Domain, error) {
	return listed[account.Domain](ctx, r, limit, nil, "domains")
}

// CreateDomain implements Accounts.
func (r *Remote) CreateDomain(ctx context.Context, name, parent string) (account.Domain, error) {
	return posted[account.Domain](ctx, r, map[string]any{"name": name, "parent": parent}, "domains")
}

// DisableDomain implements Accounts.
func (r *Remote) DisableDomain(ctx context.Context, ref string, disabled bool) (account.Domain, error) {
	return posted[account.Domain](ctx, r, nil, "domains", ref, disabling(disabled))
}

// Keys implements Accounts.
func (r *Remote) Keys(ctx context.Context, of string, limit int) ([]server.Key, error) {
	return listed[server.Key](ctx, r, limit, only("account", of), "keys")
}

// CreateKey implements Accounts.
func (r *Remote) CreateKey(ctx context.Context, n account.NewCredential) (server.Key, error) {
	return posted[server.Key](ctx, r, credential(n), "keys")
}

// Tokens implements Accounts.
func (r *Remote) Tokens(ctx context.Context, of string, limit int) ([]server.Token, error) {
	return listed[server.Token](ctx, r, limit, only("account", of), "tokens")
}

// CreateToken implements Accounts.
func (r *Remote) CreateToken(ctx context.Context, n account.NewCredential) (server.Token, error) {
	return posted[server.Token](ctx, r, credential(n), "tokens")
}

func credential(n account.NewCredential) map[string]any {
	body := map[string]any{"account": n.Account, "name": n.Name}
	if n.ValidFor != 0 {
		body["for"] = n.ValidFor.String()
	}
	return body
}

// Revoke implements Accounts.
func (r *Remote) Revoke(ctx context.Context, kind, id string) error {
	return r.do(ctx, call{method: http.MethodPost, path: []string{kind, id, "revoke"}, header: key("")}, nil)
}

// Trail implements Accounts.
func (r *Remote) Trail(ctx context.Context, q account.TrailQuery) ([]account.Entry, error) {
	return listed[account.Entry](ctx, r, q.Size(), only("target", q.Target), "audit")
}
