// Package accounts serves accounts, domains, keys, tokens and the audit trail.
package accounts

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
)

// Service serves the accounts of an account service.
type Service struct{ Accounts *account.Service } // nil: NOT_SERVED

// do handles a route by a function of the account service, for the account of the caller.
func do[I, O any](s *Service, f func(ctx context.Context, d *account.Service, who account.Account, in *I) (*O, error)) route.Handler {
	return route.Do(func(ctx context.Context, in *I) (*O, error) {
		if s.Accounts == nil {
			return nil, route.NotServed.Errorf("this server has no accounts")
		}
		c, err := auth.Directory{Store: s.Accounts.Store}.Account(ctx, route.CallOf(ctx).Who)
		if err != nil {
			return nil, err
		}
		return f(ctx, s.Accounts, c.Account, in)
	})
}

// Routes are the routes of accounts and what they own.
func (s *Service) Routes() route.Table {
	const accounts, domains, keys, tokens = "/v1/accounts", "/v1/domains", "/v1/keys", "/v1/tokens"
	return route.Table{Tag: "accounts", Errors: []int{http.StatusNotImplemented}, Routes: []route.Route{
		{Method: http.MethodGet, Path: accounts, ID: "listAccounts", Role: route.User, Errors: []int{404}, Handle: do(s, listAccounts),
			Summary: "List the accounts that the caller may see"},
		{Method: http.MethodPost, Path: accounts, ID: "createAccount", Role: route.DomainAdmin, Idempotent: true, Status: 201, Errors: []int{404, 409, 422}, Handle: do(s, createAccount),
			Summary: "Create an account"},
		{Method: http.MethodGet, Path: accounts + "/{id}", ID: "getAccount", Role: route.User, Errors: []int{404}, Handle: do(s, getAccount),
			Summary: "Read an account"},
		{Method: http.MethodPost, Path: accounts + "/{id}/disable", ID: "disableAccount", Role: route.DomainAdmin, Idempotent: true, Errors: []int{404, 409}, Handle: do(s, disableAccount(true)),
			Summary: "disable all calls of an account"},
		{Method: http.MethodPost, Path: accounts + "/{id}/enable", ID: "enableAccount", Role: route.DomainAdmin, Idempotent: true, Errors: []int{404, 409}, Handle: do(s, disableAccount(false)),
			Summary: "enable all calls of an account"},
		{Method: http.MethodPost, Path: accounts + "/{id}/limits", ID: "limitAccount", Role: route.Operator, Idempotent: true, Errors: []int{404, 409, 422}, Handle: do(s, limitAccount),
			Summary: "Set the limits of an account"},
		{Method: http.MethodGet, Path: domains, ID: "listDomains", Role: route.User, Handle: do(s, listDomains),
			Summary: "List the domains that the caller may see"},
		{Method: http.MethodPost, Path: domains, ID: "createDomain", Role: route.DomainAdmin, Idempotent: true, Status: 201, Errors: []int{404, 409, 422}, Handle: do(s, createDomain),
			Summary: "Create a domain"},
		{Method: http.MethodPost, Path: domains + "/{id}/disable", ID: "disableDomain", Role: route.DomainAdmin, Idempotent: true, Errors: []int{404, 409}, Handle: do(s, disableDomain(true)),
			Summary: "disable all calls of a domain and of those below"},
		{Method: http.MethodPost, Path: domains + "/{id}/enable", ID: "enableDomain", Role: route.DomainAdmin, Idempotent: true, Errors: []int{404, 409}, Handle: do(s, disableDomain(false)),
			Summary: "enable all calls of a domain and of those below"},
		{Method: http.MethodGet, Path: keys, ID: "listKeys", Role: route.User, Errors: []int{404}, Handle: do(s, listKeys),
			Summary: "List API keys, without secrets"},
		{Method: http.MethodPost, Path: keys, ID: "createKey", Role: route.User, Idempotent: true, Status: 201, Errors: []int{404, 422}, Handle: do(s, createKey),
			Summary: "Create an API key; its secret is shown once"},
		{Method: http.MethodPost, Path: keys + "/{id}/revoke", ID: "revokeKey", Role: route.User, Idempotent: true, Status: 204, Errors: []int{404}, Handle: do(s, revoke),
			Summary: "Revoke an API key for ever"},
		{Method: http.MethodGet, Path: tokens, ID: "listTokens", Role: route.User, Errors: []int{404}, Handle: do(s, listTokens),
			Summary: "List bearer tokens, without the tokens"},
		{Method: http.MethodPost, Path: tokens, ID: "createToken", Role: route.User, Idempotent: true, Status: 201, Errors: []int{404, 422}, Handle: do(s, createToken),
			Summary: "Create a bearer token; it is shown once"},
		{Method: http.MethodPost, Path: tokens + "/{id}/revoke", ID: "revokeToken", Role: route.User, Idempotent: true, Status: 204, Errors: []int{404}, Handle: do(s, revoke),
			Summary: "Revoke a bearer token for ever"},
		{Method: http.MethodGet, Path: "/v1/audit", ID: "listAudit", Role: route.User, Errors: []int{404}, Handle: do(s, listAudit),
			Summary: "Read the audit trail, newest first"},
	}}
}
