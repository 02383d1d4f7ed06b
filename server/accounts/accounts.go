package accounts

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
)

// Paged selects a page of a list.
type Paged struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}

// pageOf returns a page of a list. It reads one item more than fits: if there is one, the answer has a cursor.
func pageOf[T any](p Paged, place func(T) string, read func(account.Page) ([]T, error)) (*route.ListOf[T], error) {
	after, err := route.ParseTextCursor(p.Cursor)
	if err != nil {
		return nil, err
	}
	items, err := read(account.Page{After: after, Limit: p.Limit + 1})
	if err != nil {
		return nil, err
	}
	answer := route.NewList(items)
	if len(items) > p.Limit {
		answer.Body.Items = items[:p.Limit]
		answer.Body.Next = route.TextCursor(place(items[p.Limit-1]))
	}
	return answer, nil
}

type accountBody struct {
	Name   string          `json:"name" example:"uma"`
	Domain string          `json:"domain,omitempty" doc:"id or path; absent: that of the caller"`
	Role   account.Role    `json:"role,omitempty" enum:"user,domain-admin,operator" default:"user"`
	Limits *account.Limits `json:"limits,omitempty" doc:"operators only"`
}

type domainBody struct {
	Name   string `json:"name" example:"dev"`
	Parent string `json:"parent,omitempty" doc:"id or path; absent: that of the caller"`
}

type credentialBody struct {
	Account string `json:"account,omitempty" doc:"id or name; absent: that of the caller"`
	Name    string `json:"name,omitempty" maxLength:"255" doc:"what it is for"`
	For     string `json:"for,omitempty" doc:"how long it works, such as 720h; absent: until it is revoked" example:"720h"`
}

func (b credentialBody) newCredential() (account.NewCredential, error) {
	n := account.NewCredential{Account: b.Account, Name: b.Name}
	if b.For == "" {
		return n, nil
	}
	var err error
	if n.ValidFor, err = time.ParseDuration(b.For); err != nil || n.ValidFor <= 0 {
		return n, route.Refused.Errorf("for %q: it is a time such as 720h", b.For)
	}
	return n, nil
}

type accountPath struct {
	ID string `path:"id" doc:"id, or a unique name"`
}

type accountQuery struct {
	Account string `query:"account" doc:"id or name; absent: that of the caller"`
	Paged
}

func listAccounts(ctx context.Context, d *account.Service, who account.Account, in *struct {
	Domain string `query:"domain" doc:"id or path; absent: all"`
	Paged
}) (*route.ListOf[account.Account], error) {
	return pageOf(in.Paged, func(a account.Account) string { return a.ID }, func(p account.Page) ([]account.Account, error) {
		return d.Accounts(ctx, who, in.Domain, p)
	})
}

func createAccount(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body accountBody }) (*route.One[account.Account], error) {
	w := account.NewAccount{Name: in.Body.Name, Domain: in.Body.Domain, Role: in.Body.Role}
	if in.Body.Limits != nil {
		w.Limits = *in.Body.Limits
	}
	a, err := d.CreateAccount(ctx, who, w)
	route.CallOf(ctx).Target = cmp.Or(a.ID, in.Body.Name)
	return route.OneOf(a, err)
}

func getAccount(ctx context.Context, d *account.Service, who account.Account, in *accountPath) (*route.One[account.Account], error) {
	return route.OneOf(d.Find(ctx, who, in.ID))
}

func disableAccount(disabled bool) func(context.Context, *account.Service, account.Account, *accountPath) (*route.One[account.Account], error) {
	return func(ctx context.Context, d *account.Service, who account.Account, in *accountPath) (*route.One[account.Account], error) {
		return route.OneOf(d.Disable(ctx, who, in.ID, disabled))
	}
}

func disableDomain(disabled bool) func(context.Context, *account.Service, account.Account, *accountPath) (*route.One[account.Domain], error) {
	return func(ctx context.Context, d *account.Service, who account.Account, in *accountPath) (*route.One[account.Domain], error) {
		return route.OneOf(d.DisableDomain(ctx, who, in.ID, disabled))
	}
}

func limitAccount(ctx context.Context, d *account.Service, who account.Account, in *struct {
	ID   string `path:"id" doc:"id, or a unique name"`
	Body account.Limits
}) (*route.One[account.Account], error) {
	return route.OneOf(d.SetLimits(ctx, who, in.ID, in.Body))
}

func listDomains(ctx context.Context, d *account.Service, who account.Account, in *Paged) (*route.ListOf[account.Domain], error) {
	return pageOf(*in, func(one account.Domain) string { return one.ID }, func(p account.Page) ([]account.Domain, error) {
		return d.Domains(ctx, who, p)
	})
}

func createDomain(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body domainBody }) (*route.One[account.Domain], error) {
	created, err := d.CreateDomain(ctx, who, in.Body.Name, in.Body.Parent)
	route.CallOf(ctx).Target = cmp.Or(created.ID, in.Body.Name)
	return route.OneOf(created, err)
}

func listKeys(ctx context.Context, d *account.Service, who account.Account, in *accountQuery) (*route.ListOf[view.Key], error) {
	return pageOf(in.Paged, func(k view.Key) string { return k.ID }, func(p account.Page) (shown []view.Key, err error) {
		all, err := d.Keys(ctx, who, in.Account, p)
		for _, k := range all {
			shown = append(shown, view.Key{Credential: k.Credential})
		}
		return shown, err
	})
}

func listTokens(ctx context.Context, d *account.Service, who account.Account, in *accountQuery) (*route.ListOf[view.Token], error) {
	return pageOf(in.Paged, func(t view.Token) string { return t.ID }, func(p account.Page) (shown []view.Token, err error) {
		all, err := d.Tokens(ctx, who, in.Account, p)
		for _, t := range all {
			shown = append(shown, view.Token{Credential: t.Credential})
		}
		return shown, err
	})
}

// replayWithoutSecret sets the answer to a repetition of the request: the same
// without the secret, which no store keeps in clear text.
func replayWithoutSecret(ctx context.Context, c account.Credential) error {
	data, err := json.Marshal(c)
	call := route.CallOf(ctx)
	call.Replay, call.Target = data, c.ID
	return err
}

func createKey(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body credentialBody }) (*route.One[view.Key], error) {
	n, err := in.Body.newCredential()
	if err != nil {
		return nil, err
	}
	k, err := d.CreateKey(ctx, who, n)
	if err == nil {
		err = replayWithoutSecret(ctx, k.Credential)
	}
	return route.OneOf(view.Key{Credential: k.Credential, Secret: k.Secret.Reveal()}, err)
}

func createToken(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body credentialBody }) (*route.One[view.Token], error) {
	n, err := in.Body.newCredential()
	if err != nil {
		return nil, err
	}
	t, secret, err := d.CreateToken(ctx, who, n)
	if err == nil {
		err = replayWithoutSecret(ctx, t.Credential)
	}
	return route.OneOf(view.Token{Credential: t.Credential, Token: secret.Reveal()}, err)
}

func revoke(ctx context.Context, d *account.Service, who account.Account, in *struct {
	ID string `path:"id"`
}) (*struct{}, error) {
	return nil, d.Revoke(ctx, who, in.ID)
}

func listAudit(ctx context.Context, d *account.Service, who account.Account, in *struct {
	Target  string `query:"target" doc:"id or path of the changed object"`
	Account string `query:"account" doc:"id or name of the caller"`
	Outcome string `query:"outcome" enum:"ok,refused" doc:"of successful calls, or of all others"`
	Paged
}) (*route.ListOf[account.Entry], error) {
	q := account.TrailQuery{Target: in.Target, Outcome: in.Outcome}
	if in.Account != "" {
		a, err := d.Find(ctx, who, in.Account)
		if err != nil {
			return nil, err
		}
		q.Account = a.ID
	}
	return pageOf(in.Paged, func(e account.Entry) string { return strconv.FormatInt(e.Seq, 10) }, func(p account.Page) ([]account.Entry, error) {
		before, err := strconv.ParseInt(cmp.Or(p.After, "0"), 10, 64)
		if err != nil || before < 0 {
			return nil, route.CursorInvalid.Errorf("cursor %q", in.Cursor)
		}
		q.Before, q.Limit = before, p.Limit
		return d.Trail(ctx, who, q)
	})
}
