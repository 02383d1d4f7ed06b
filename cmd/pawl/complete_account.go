package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/view"
)

// fromAccounts suggests names that it reads from the accounts.
func (a *app) fromAccounts(read func(ctx context.Context, b backend.Accounts) ([]string, error)) completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return openForCompletion(a, cmd, func(ctx context.Context) (backend.Accounts, error) { return a.accounts(ctx, false) },
			func(ctx context.Context, b backend.Accounts) []string {
				names, _ := read(ctx, b) // on errors there are no suggestions
				return names
			})
	}
}

// firstArgument completes only the first argument.
func firstArgument(of completion) completion {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(cmd, args, start)
	}
}

func (a *app) completeDomains() completion {
	return a.fromAccounts(func(ctx context.Context, b backend.Accounts) ([]string, error) {
		all, err := b.Domains(ctx, 0)
		return namesOf(all, func(d account.Domain) string { return d.Path }), err
	})
}

// completeAccounts suggests accounts with their domains, because names repeat.
func (a *app) completeAccounts() completion {
	return a.fromAccounts(func(ctx context.Context, b backend.Accounts) ([]string, error) {
		domains, err := b.Domains(ctx, 0)
		if err != nil {
			return nil, err
		}
		all, err := b.Accounts(ctx, "", 0)
		paths := pathsOf(domains)
		return namesOf(all, func(one account.Account) string { return paths[one.DomainID] + "/" + one.Name }), err
	})
}

// completeCredentials suggests one's own keys or tokens.
func (a *app) completeCredentials(what string) completion {
	return a.fromAccounts(func(ctx context.Context, b backend.Accounts) ([]string, error) {
		if what == "key" {
			keys, err := b.Keys(ctx, "", 0)
			return namesOf(keys, func(k view.Key) string { return k.ID + "\t" + k.Name }), err
		}
		tokens, err := b.Tokens(ctx, "", 0)
		return namesOf(tokens, func(t view.Token) string { return t.ID + "\t" + t.Name }), err
	})
}

// pathsOf are the paths of domains by id.
func pathsOf(domains []account.Domain) map[string]string {
	paths := map[string]string{}
	for _, d := range domains {
		paths[d.ID] = d.Path
	}
	return paths
}
