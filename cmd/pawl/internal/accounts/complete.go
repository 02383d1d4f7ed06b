package accounts

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
)

// fromAccounts suggests names that it reads from the accounts.
func (a verbs) fromAccounts(read func(ctx context.Context, b backend.Accounts) ([]string, error)) cli.Completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return cli.OpenForCompletion(a.App, cmd, func(ctx context.Context) (backend.Accounts, error) { return a.accounts(ctx, false) },
			func(ctx context.Context, b backend.Accounts) []string {
				names, _ := read(ctx, b) // on errors there are no suggestions
				return names
			})
	}
}

// firstArgument completes only the first argument.
func firstArgument(of cli.Completion) cli.Completion {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(cmd, args, start)
	}
}

func (a verbs) completeDomains() cli.Completion {
	return a.fromAccounts(func(ctx context.Context, b backend.Accounts) ([]string, error) {
		all, err := b.Domains(ctx, 0)
		return cli.NamesOf(all, func(d account.Domain) string { return d.Path }), err
	})
}

// completeAccounts suggests accounts with their domains, because names repeat.
func (a verbs) completeAccounts() cli.Completion {
	return a.fromAccounts(func(ctx context.Context, b backend.Accounts) ([]string, error) {
		domains, err := b.Domains(ctx, 0)
		if err != nil {
			return nil, err
		}
		all, err := b.Accounts(ctx, "", 0)
		paths := pathsOf(domains)
		return cli.NamesOf(all, func(one account.Account) string { return paths[one.DomainID] + "/" + one.Name }), err
	})
}

// completeCredentials suggests one's own keys or tokens.
func (a verbs) completeCredentials(what string) cli.Completion {
	return a.fromAccounts(func(ctx context.Context, b backend.Accounts) ([]string, error) {
		if what == "key" {
			keys, err := b.Keys(ctx, "", 0)
			return cli.NamesOf(keys, func(k view.Key) string { return k.ID + "\t" + k.Name }), err
		}
		tokens, err := b.Tokens(ctx, "", 0)
		return cli.NamesOf(tokens, func(t view.Token) string { return t.ID + "\t" + t.Name }), err
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

// CompleteDomains suggests domains for a flag of another verb.
func CompleteDomains(a *cli.App) cli.Completion { return verbs{a}.completeDomains() }
