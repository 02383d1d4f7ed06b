package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/account"
)

// Paged selects a page of a list.
type Paged struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}

// after decodes the cursor; "" is the beginning of the list. CURSOR_INVALID.
func (p Paged) after() (string, error) {
	place, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || !utf8.Valid(place) || bytes.ContainsRune(place, 0) {
		return "", CursorInvalid.Errorf("cursor %q", p.Cursor)
	}
	return string(place), nil
}

// pageOf returns a page of a list. It reads one item more than fits: if there is one, the answer has a cursor.
func pageOf[T any](p Paged, place func(T) string, read func(account.Page) ([]T, error)) (*listOf[T], error) {
	after, err := p.after()
	if err != nil {
		return nil, err
	}
	items, err := read(account.Page{After: after, Limit: p.Limit + 1})
	if err != nil {
		return nil, err
	}
	answer := newList(items)
	if len(items) > p.Limit {
		answer.Body.Items = items[:p.Limit]
		answer.Body.Next = base64.RawURLEncoding.EncodeToString([]byte(place(items[p.Limit-1])))
	}
	return answer, nil
}

type oneAnswer[T any] struct{ Body T }

func oneOf[T any](one T, err error) (*oneAnswer[T], error) { return &oneAnswer[T]{one}, err }

// Key is an API key as answers show it.
type Key struct {
	account.Credential
	Secret string `json:"secret,omitempty" doc:"only in the first answer to its creation: it is shown once"`
}

// Token is a bearer token as answers show it.
type Token struct {
	account.Credential
	Token string `json:"token,omitempty" doc:"only in the first answer to its creation: it is shown once"`
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
		return n, Refused.Errorf("for %q: it is a time such as 720h", b.For)
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

// accountService returns the account service and the account of the caller. NOT_SERVED without accounts.
func (s *Server) accountService(ctx context.Context) (*account.Service, account.Account, error) {
	if s.options.Accounts == nil {
		return nil, account.Account{}, NotServed.Errorf("this server has no accounts")
	}
	c, err := Directory{Store: s.options.Accounts.Store}.Account(ctx, callOf(ctx).who)
	return s.options.Accounts, c.Account, err
}

// withAccounts adapts a function of the account service to a route.
func withAccounts[I, O any](s *Server, do func(ctx context.Context, d *account.Service, who account.Account, in *I) (*O, error)) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		d, who, err := s.accountService(ctx)
		if err != nil {
			return nil, err
		}
		return do(ctx, d, who, in)
	}
}

func (s *Server) accountRoutes() {
	op := func(id, method, path, summary, tag string, status int, errs ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{tag}, DefaultStatus: status,
			Errors: append(errs, http.StatusNotImplemented)}
	}
	registerRoute(s, op("listAccounts", http.MethodGet, "/v1/accounts", "List the accounts that the caller may see", "accounts", 200, 404), User, withAccounts(s, listAccounts))
	registerRoute(s, op("createAccount", http.MethodPost, "/v1/accounts", "Create an account", "accounts", 201, 404, 409, 422), DomainAdmin, withAccounts(s, createAccount))
	registerRoute(s, op("getAccount", http.MethodGet, "/v1/accounts/{id}", "Read an account", "accounts", 200, 404), User, withAccounts(s, getAccount))
	for verb, disabled := range map[string]bool{"disable": true, "enable": false} {
		registerRoute(s, op(verb+"Account", http.MethodPost, "/v1/accounts/{id}/"+verb, verb+" all calls of an account", "accounts", 200, 404, 409), DomainAdmin, withAccounts(s, disableAccount(disabled)))
		registerRoute(s, op(verb+"Domain", http.MethodPost, "/v1/domains/{id}/"+verb, verb+" all calls of a domain and of those below", "accounts", 200, 404, 409), DomainAdmin, withAccounts(s, disableDomain(disabled)))
	}
	registerRoute(s, op("limitAccount", http.MethodPost, "/v1/accounts/{id}/limits", "Set the limits of an account", "accounts", 200, 404, 409, 422), Operator, withAccounts(s, limitAccount))
	registerRoute(s, op("listDomains", http.MethodGet, "/v1/domains", "List the domains that the caller may see", "accounts", 200), User, withAccounts(s, listDomains))
	registerRoute(s, op("createDomain", http.MethodPost, "/v1/domains", "Create a domain", "accounts", 201, 404, 409, 422), DomainAdmin, withAccounts(s, createDomain))
	registerRoute(s, op("listKeys", http.MethodGet, "/v1/keys", "List API keys, without secrets", "accounts", 200, 404), User, withAccounts(s, listKeys))
	registerRoute(s, op("createKey", http.MethodPost, "/v1/keys", "Create an API key; its secret is shown once", "accounts", 201, 404, 422), User, withAccounts(s, createKey))
	registerRoute(s, op("revokeKey", http.MethodPost, "/v1/keys/{id}/revoke", "Revoke an API key for ever", "accounts", 204, 404), User, withAccounts(s, revoke))
	registerRoute(s, op("listTokens", http.MethodGet, "/v1/tokens", "List bearer tokens, without the tokens", "accounts", 200, 404), User, withAccounts(s, listTokens))
	registerRoute(s, op("createToken", http.MethodPost, "/v1/tokens", "Create a bearer token; it is shown once", "accounts", 201, 404, 422), User, withAccounts(s, createToken))
	registerRoute(s, op("revokeToken", http.MethodPost, "/v1/tokens/{id}/revoke", "Revoke a bearer token for ever", "accounts", 204, 404), User, withAccounts(s, revoke))
	registerRoute(s, op("listAudit", http.MethodGet, "/v1/audit", "Read the audit trail, newest first", "accounts", 200), User, withAccounts(s, listAudit))
}

func listAccounts(ctx context.Context, d *account.Service, who account.Account, in *struct {
	Domain string `query:"domain" doc:"id or path; absent: all"`
	Paged
}) (*listOf[account.Account], error) {
	return pageOf(in.Paged, func(a account.Account) string { return a.ID }, func(p account.Page) ([]account.Account, error) {
		return d.Accounts(ctx, who, in.Domain, p)
	})
}

func createAccount(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body accountBody }) (*oneAnswer[account.Account], error) {
	w := account.NewAccount{Name: in.Body.Name, Domain: in.Body.Domain, Role: in.Body.Role}
	if in.Body.Limits != nil {
		w.Limits = *in.Body.Limits
	}
	a, err := d.CreateAccount(ctx, who, w)
	callOf(ctx).target = cmp.Or(a.ID, in.Body.Name)
	return oneOf(a, err)
}

func getAccount(ctx context.Context, d *account.Service, who account.Account, in *accountPath) (*oneAnswer[account.Account], error) {
	return oneOf(d.Find(ctx, who, in.ID))
}

func disableAccount(disabled bool) func(context.Context, *account.Service, account.Account, *accountPath) (*oneAnswer[account.Account], error) {
	return func(ctx context.Context, d *account.Service, who account.Account, in *accountPath) (*oneAnswer[account.Account], error) {
		return oneOf(d.Disable(ctx, who, in.ID, disabled))
	}
}

func disableDomain(disabled bool) func(context.Context, *account.Service, account.Account, *accountPath) (*oneAnswer[account.Domain], error) {
	return func(ctx context.Context, d *account.Service, who account.Account, in *accountPath) (*oneAnswer[account.Domain], error) {
		return oneOf(d.DisableDomain(ctx, who, in.ID, disabled))
	}
}

func limitAccount(ctx context.Context, d *account.Service, who account.Account, in *struct {
	accountPath
	Body account.Limits
}) (*oneAnswer[account.Account], error) {
	return oneOf(d.SetLimits(ctx, who, in.ID, in.Body))
}

func listDomains(ctx context.Context, d *account.Service, who account.Account, in *Paged) (*listOf[account.Domain], error) {
	return pageOf(*in, func(one account.Domain) string { return one.ID }, func(p account.Page) ([]account.Domain, error) {
		return d.Domains(ctx, who, p)
	})
}

func createDomain(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body domainBody }) (*oneAnswer[account.Domain], error) {
	created, err := d.CreateDomain(ctx, who, in.Body.Name, in.Body.Parent)
	callOf(ctx).target = cmp.Or(created.ID, in.Body.Name)
	return oneOf(created, err)
}

func listKeys(ctx context.Context, d *account.Service, who account.Account, in *accountQuery) (*listOf[Key], error) {
	return pageOf(in.Paged, func(k Key) string { return k.ID }, func(p account.Page) (shown []Key, err error) {
		all, err := d.Keys(ctx, who, in.Account, p)
		for _, k := range all {
			shown = append(shown, Key{Credential: k.Credential})
		}
		return shown, err
	})
}

func listTokens(ctx context.Context, d *account.Service, who account.Account, in *accountQuery) (*listOf[Token], error) {
	return pageOf(in.Paged, func(t Token) string { return t.ID }, func(p account.Page) (shown []Token, err error) {
		all, err := d.Tokens(ctx, who, in.Account, p)
		for _, t := range all {
			shown = append(shown, Token{Credential: t.Credential})
		}
		return shown, err
	})
}

// replayWithoutSecret sets the answer to a repetition of the request: the same
// without the secret, which no store keeps in clear text.
func replayWithoutSecret(ctx context.Context, c account.Credential) error {
	data, err := json.Marshal(c)
	callOf(ctx).replay, callOf(ctx).target = data, c.ID
	return err
}

func createKey(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body credentialBody }) (*oneAnswer[Key], error) {
	n, err := in.Body.newCredential()
	if err != nil {
		return nil, err
	}
	k, err := d.CreateKey(ctx, who, n)
	if err == nil {
		err = replayWithoutSecret(ctx, k.Credential)
	}
	return oneOf(Key{k.Credential, k.Secret.Reveal()}, err)
}

func createToken(ctx context.Context, d *account.Service, who account.Account, in *struct{ Body credentialBody }) (*oneAnswer[Token], error) {
	n, err := in.Body.newCredential()
	if err != nil {
		return nil, err
	}
	t, secret, err := d.CreateToken(ctx, who, n)
	if err == nil {
		err = replayWithoutSecret(ctx, t.Credential)
	}
	return oneOf(Token{t.Credential, secret.Reveal()}, err)
}

func revoke(ctx context.Context, d *account.Service, who account.Account, in *struct {
	ID string `path:"id"`
}) (*struct{}, error) {
	return nil, d.Revoke(ctx, who, in.ID)
}

func listAudit(ctx context.Context, d *account.Service, who account.Account, in *struct {
	Target string `query:"target" doc:"id or path of the changed object"`
	Paged
}) (*listOf[account.Entry], error) {
	return pageOf(in.Paged, func(e account.Entry) string { return strconv.FormatInt(e.Seq, 10) }, func(p account.Page) ([]account.Entry, error) {
		before, err := strconv.ParseInt(cmp.Or(p.After, "0"), 10, 64)
		if err != nil || before < 0 {
			return nil, CursorInvalid.Errorf("cursor %q", in.Cursor)
		}
		return d.Trail(ctx, who, account.TrailQuery{Target: in.Target, Before: before, Limit: p.Limit})
	})
}
