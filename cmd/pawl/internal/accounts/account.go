package accounts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
)

// withAccounts returns a verb that opens the accounts. makes: the verb encrypts a secret.
func (a verbs) withAccounts(creates bool, do func(ctx context.Context, b backend.Accounts, args []string) error) func(*cobra.Command, []string) error {
	return a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
		b, err := a.accounts(ctx, creates)
		if err != nil {
			return err
		}
		defer b.Close()
		return do(ctx, b, args)
	})
}

func (a verbs) accounts(ctx context.Context, creates bool) (backend.Accounts, error) {
	if a.Flags.Server != "" {
		return a.Server()
	}
	return backend.OpenAccounts(ctx, a.StoreOptions(), !creates, a.Actor())
}

// branch is a command that only groups subcommands.
func branch(use, short, long, example string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(children...)
	return cmd
}

// accountVerbs are the commands of accounts, domains, keys and tokens.
func (a verbs) accountVerbs() []*cobra.Command {
	return []*cobra.Command{a.accountCommand(), a.domainCommand(), a.keyCommand(), a.tokenCommand(), a.auditCommand()}
}

func (a verbs) accountCommand() *cobra.Command {
	var domain, role string
	var limits account.Limits
	create := &cobra.Command{
		Use: "create NAME", Short: "Make an account; it has neither token nor key yet", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  pawl account create uma --domain ROOT/dev --max-nodes 20\n  pawl account create dan --domain ROOT/dev --role domain-admin",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, args []string) error {
			a.warnOpenModeEnds(ctx, b, "")
			created, err := b.CreateAccount(ctx, account.NewAccount{Name: args[0], Domain: domain, Role: account.Role(role), Limits: limits})
			return a.printAccount(created, "created", err)
		}),
	}
	create.Flags().StringVar(&domain, "domain", "", "id or `path` (default: that of who asks)")
	create.Flags().StringVar(&role, "role", "user", "user, domain-admin or operator")
	limitFlags(create, &limits)
	cli.SetCompletions(create, map[string]cli.Completion{"domain": a.completeDomains(), "role": cli.FixedCompletion(account.User, account.DomainAdmin, account.Operator)})

	var within string
	var most int
	list := &cobra.Command{
		Use: "list", Short: "List accounts", Args: cobra.NoArgs, Example: "  pawl account list --domain ROOT/dev -o json",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, _ []string) error {
			all, err := b.Accounts(ctx, within, most)
			if err != nil {
				return err
			}
			domains, err := b.Domains(ctx, 0)
			if err != nil {
				return err
			}
			paths := pathsOf(domains)
			return cli.EmitList(a.App, all, func(o account.Account) string { return o.ID }, "", []view.Column[account.Account]{
				{Head: "NAME", Cell: func(o account.Account) string { return o.Name }},
				{Head: "DOMAIN", Cell: func(o account.Account) string { return paths[o.DomainID] }},
				{Head: "ROLE", Cell: func(o account.Account) string { return string(o.Role) }},
				{Head: "STATE", Cell: func(o account.Account) string { return enabledWord(o.Disabled) }, Health: func(o account.Account) view.Health { return view.HealthOf(enabledWord(o.Disabled)) }},
				{Head: "LIMITS", Cell: func(o account.Account) string { return limitsText(o.Limits) }},
				{Head: "ID", Cell: func(o account.Account) string { return o.ID }},
				{Head: "CREATED", Wide: true, Cell: func(o account.Account) string { return timeText(o.Created) }},
			})
		}),
	}
	limitFlag(list, &most, 0)
	list.Flags().StringVar(&within, "domain", "", "only of this domain: id or `path`")
	cli.SetCompletions(list, map[string]cli.Completion{"domain": a.completeDomains()})

	var next account.Limits
	limit := &cobra.Command{
		Use: "limit NAME", Short: "Set the limits of an account; those that are not given are none", Args: cobra.ExactArgs(1), ValidArgsFunction: firstArgument(a.completeAccounts()),
		Example: "  pawl account limit uma --max-clusters 3 --max-nodes 20",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, args []string) error {
			changed, err := b.LimitAccount(ctx, args[0], next)
			return a.printAccount(changed, "limited", err)
		}),
	}
	limitFlags(limit, &next)
	return branch("account", "Make, list, limit and disable accounts", `Accounts own clusters, tokens and API keys. A user sees its own clusters, a domain
admin those of its domain and below, an operator everything. NAME is a name that
only one account has, DOMAIN/NAME, or an id.

They ask the server of --server or of the current context; else, or with --dsn or
--store, the local store, as the operator.`,
		"  pawl account create uma\n  pawl account disable uma\n  pawl account list",
		create, list, limit, a.disabling("account", "disable", true), a.disabling("account", "enable", false))
}

// limitFlag bounds a list; 0 is all.
func limitFlag(cmd *cobra.Command, most *int, usual int) {
	text := "at most this `number` of entries"
	if usual == 0 {
		text += " (default: all)"
	}
	*most = usual
	cmd.Flags().Var((*count)(most), "limit", text)
}

func limitFlags(cmd *cobra.Command, l *account.Limits) {
	f := cmd.Flags()
	f.IntVar(&l.Clusters, "max-clusters", 0, "clusters it may have (default: no limit)")
	f.IntVar(&l.Nodes, "max-nodes", 0, "VMs of all its clusters (default: no limit)")
	f.IntVar(&l.Cores, "max-cores", 0, "cores of all its VMs (default: no limit)")
	f.IntVar(&l.MemoryMB, "max-memory", 0, "memory of all its VMs in MB (default: no limit)")
	f.IntVar(&l.Size, "max-size", 0, "workers of one cluster (default: no limit)")
}

// count is a flag value: a number that is not negative.
type count int

// String implements pflag.Value.
func (m *count) String() string { return strconv.Itoa(int(*m)) }

// Set implements pflag.Value.
func (m *count) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("it is a number from 0 on")
	}
	*m = count(n)
	return nil
}

// Type implements pflag.Value.
func (m *count) Type() string { return "int" }

func limitsText(l account.Limits) string {
	var parts []string
	for _, p := range []struct {
		name string
		most int
	}{{"clusters", l.Clusters}, {"nodes", l.Nodes}, {"cores", l.Cores}, {"memoryMB", l.MemoryMB}, {"size", l.Size}} {
		if p.most > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", p.name, p.most))
		}
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, ",")
}

func enabledWord(disabled bool) string {
	if disabled {
		return "disabled"
	}
	return "enabled"
}

func (a verbs) printAccount(one account.Account, word string, err error) error {
	if err != nil {
		return err
	}
	return a.Emit(one, []string{one.ID}, func() string { return "account " + one.Name + " " + word + "\n" })
}

// disabling is disable or enable of accounts or domains.
func (a verbs) disabling(what, verb string, disabled bool) *cobra.Command {
	names := a.completeAccounts()
	if what == "domain" {
		names = a.completeDomains()
	}
	return &cobra.Command{
		ValidArgsFunction: firstArgument(names),
		Use:               verb + " NAME", Short: strings.ToUpper(verb[:1]) + verb[1:] + " all calls of " + what + "s; clusters stay as they are", Args: cobra.ExactArgs(1),
		Example: "  pawl " + what + " " + verb + map[string]string{"account": " uma", "domain": " ROOT/dev"}[what],
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, args []string) error {
			if what == "account" {
				one, err := b.DisableAccount(ctx, args[0], disabled)
				return a.printAccount(one, verb+"d", err)
			}
			d, err := b.DisableDomain(ctx, args[0], disabled)
			if err != nil {
				return err
			}
			return a.Emit(d, []string{d.ID}, func() string { return "domain " + d.Path + " " + verb + "d\n" })
		}),
	}
}

func (a verbs) domainCommand() *cobra.Command {
	var parent string
	var most int
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a domain", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions, Example: "  pawl domain create dev\n  pawl domain create web --parent ROOT/dev",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, args []string) error {
			d, err := b.CreateDomain(ctx, args[0], parent)
			if err != nil {
				return err
			}
			return a.Emit(d, []string{d.ID}, func() string { return "domain " + d.Path + " created\n" })
		}),
	}
	create.Flags().StringVar(&parent, "parent", "", "id or `path` of the domain above (default: that of who asks)")
	cli.SetCompletions(create, map[string]cli.Completion{"parent": a.completeDomains()})
	list := &cobra.Command{
		Use: "list", Short: "List domains", Args: cobra.NoArgs, Example: "  pawl domain list -o json",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, _ []string) error {
			all, err := b.Domains(ctx, most)
			if err != nil {
				return err
			}
			return cli.EmitList(a.App, all, func(d account.Domain) string { return d.ID }, "", []view.Column[account.Domain]{
				{Head: "PATH", Cell: func(d account.Domain) string { return d.Path }},
				{Head: "STATE", Cell: func(d account.Domain) string { return enabledWord(d.Disabled) }, Health: func(d account.Domain) view.Health { return view.HealthOf(enabledWord(d.Disabled)) }},
				{Head: "ID", Cell: func(d account.Domain) string { return d.ID }},
				{Head: "CREATED", Wide: true, Cell: func(d account.Domain) string { return timeText(d.Created) }},
			})
		}),
	}
	limitFlag(list, &most, 0)
	return branch("domain", "Make, list and disable domains", "Domains are a tree below ROOT. An admin of a domain sees the clusters of its accounts\nand of those below. NAME is a path, such as ROOT/dev, or an id.",
		"  pawl domain create dev\n  pawl domain disable ROOT/dev", create, list, a.disabling("domain", "disable", true), a.disabling("domain", "enable", false))
}

func (a verbs) keyCommand() *cobra.Command {
	var n account.NewCredential
	var most int
	create := &cobra.Command{
		Use: "create [ACCOUNT]", Short: "Make an API key; its secret is shown once", Args: cobra.MaximumNArgs(1), ValidArgsFunction: firstArgument(a.completeAccounts()),
		Example: "  pawl key create uma --name terraform --for 720h\n  pawl key create uma -o json",
		RunE: a.withAccounts(true, func(ctx context.Context, b backend.Accounts, args []string) error {
			n.Account = first(args)
			a.warnOpenModeEnds(ctx, b, "")
			k, err := b.CreateKey(ctx, n)
			if err != nil {
				return err
			}
			return a.Emit(k, []string{k.ID}, func() string {
				return "key    " + k.ID + "\nsecret " + k.Secret + "\nThe secret is not shown again.\n"
			})
		}),
	}
	credentialFlags(create, &n)
	list := &cobra.Command{
		Use: "list [ACCOUNT]", Short: "List API keys, without secrets", Args: cobra.MaximumNArgs(1), ValidArgsFunction: firstArgument(a.completeAccounts()), Example: "  pawl key list uma",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, args []string) error {
			all, err := b.Keys(ctx, first(args), most)
			var bare []account.Credential
			for _, k := range all {
				bare = append(bare, k.Credential)
			}
			return emitCredentials(a, all, bare, err)
		}),
	}
	limitFlag(list, &most, 0)
	return branch("key", "Make, list and revoke API keys, which sign requests to /client/api", "API keys sign requests to the query API at /client/api. ACCOUNT is a name, DOMAIN/NAME or an id.",
		"  pawl key create uma\n  pawl key revoke KEY", create, list, a.revoking("key", backend.Accounts.RevokeKey))
}

// warnOpenModeEnds says, before the first account, key or token is created, that
// requests need a token from then on, and how this command line gets one: by
// own, if the command creates such a token.
func (a verbs) warnOpenModeEnds(ctx context.Context, b backend.Accounts, own string) {
	if open, err := b.IsOpen(ctx); err != nil || !open {
		return // the request itself reports a refusal
	}
	create := "env -u PAWL_SERVER pawl token create"
	if a.Flags.DSN != "" {
		create += " --dsn " + a.Flags.DSN
	} else {
		create += " --store sqlite" // not the server of a context
	}
	how := "On the machine of the server, with its --dsn,\nthis keeps the command line working: export PAWL_TOKEN=$(" + create + " | sed -n 's/^token *//p')\n"
	if own != "" {
		how = "This keeps\nthe command line working: export PAWL_TOKEN=" + own + "\n"
	}
	fmt.Fprint(a.Err, "There is no account, key or token yet, and whoever reaches the server on loopback is its operator. With the first one\n"+
		"every request needs a token, those of this command line and of the console too. "+how)
}

func (a verbs) tokenCommand() *cobra.Command {
	var n account.NewCredential
	var most int
	create := &cobra.Command{
		Use: "create [ACCOUNT]", Short: "Make a bearer token; it is shown once", Args: cobra.MaximumNArgs(1), ValidArgsFunction: firstArgument(a.completeAccounts()),
		Example: "  pawl token create uma --name laptop --for 720h\n  PAWL_TOKEN=$(pawl token create uma -o json | jq -r .token)",
		RunE: a.withAccounts(true, func(ctx context.Context, b backend.Accounts, args []string) error {
			n.Account = first(args)
			own := ""
			if n.Account == "" {
				own = "TOKEN, which is the token below"
			}
			a.warnOpenModeEnds(ctx, b, own)
			t, err := b.CreateToken(ctx, n)
			if err != nil {
				return err
			}
			return a.Emit(t, []string{t.ID}, func() string {
				return "id    " + t.ID + "\ntoken " + t.Token + "\nThe token is not shown again.\n"
			})
		}),
	}
	credentialFlags(create, &n)
	list := &cobra.Command{
		Use: "list [ACCOUNT]", Short: "List bearer tokens, without the tokens", Args: cobra.MaximumNArgs(1), ValidArgsFunction: firstArgument(a.completeAccounts()), Example: "  pawl token list uma",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, args []string) error {
			all, err := b.Tokens(ctx, first(args), most)
			var bare []account.Credential
			for _, t := range all {
				bare = append(bare, t.Credential)
			}
			return emitCredentials(a, all, bare, err)
		}),
	}
	limitFlag(list, &most, 0)
	return branch("token", "Make, list and revoke bearer tokens, which open /v1 and the console", "Bearer tokens open /v1, the console and the verbs of pawl (PAWL_TOKEN). ACCOUNT is a name, DOMAIN/NAME or an id.",
		"  pawl token create uma\n  pawl token revoke ID", create, list, a.revoking("token", backend.Accounts.RevokeToken))
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func credentialFlags(cmd *cobra.Command, n *account.NewCredential) {
	cmd.Flags().StringVar(&n.Name, "name", "", "what it is for")
	cmd.Flags().DurationVar(&n.ValidFor, "for", 0, "how long it works (default: until it is revoked)")
}

// emitCredentials prints a list of keys or tokens.
func emitCredentials[T any](a verbs, all []T, bare []account.Credential, err error) error {
	if err != nil {
		return err
	}
	now := time.Now()
	state := func(c account.Credential) string {
		switch {
		case !c.Revoked.IsZero():
			return "revoked"
		case !c.Active(now):
			return "expired"
		}
		return "works"
	}
	names := cli.NamesOf(bare, func(c account.Credential) string { return c.ID })
	return a.Emit(cli.ListOf(all), names, func() string {
		return view.TableOf(bare, []view.Column[account.Credential]{
			{Head: "ID", Cell: func(c account.Credential) string { return c.ID }},
			{Head: "NAME", Cell: func(c account.Credential) string { return c.Name }},
			{Head: "STATE", Cell: state, Health: func(c account.Credential) view.Health { return view.HealthOf(state(c)) }},
			{Head: "CREATED", Cell: func(c account.Credential) string { return timeText(c.Created) }},
			{Head: "EXPIRES", Cell: func(c account.Credential) string { return timeText(c.Expires) }},
			{Head: "LAST USE", Cell: func(c account.Credential) string { return timeText(c.LastUse) }},
			{Head: "ACCOUNT", Wide: true, Cell: func(c account.Credential) string { return c.AccountID }},
		}).Text(a.Style(a.Out))
	})
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func (a verbs) revoking(what string, revoke func(backend.Accounts, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a " + what + " for ever", Args: cobra.ExactArgs(1), ValidArgsFunction: firstArgument(a.completeCredentials(what)), Example: "  pawl " + what + " revoke ID",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, args []string) error {
			if err := revoke(b, ctx, args[0]); err != nil {
				return err
			}
			return a.Emit(map[string]string{"id": args[0], "state": "revoked"}, args, func() string { return what + " " + args[0] + " revoked\n" })
		}),
	}
}

func (a verbs) auditCommand() *cobra.Command {
	var target string
	var most int
	cmd := &cobra.Command{
		Use: "audit", Short: "Read the audit trail: who asked for what, of what, and how it ended", Args: cobra.NoArgs,
		Example: "  pawl audit\n  pawl audit --target ID -o json",
		RunE: a.withAccounts(false, func(ctx context.Context, b backend.Accounts, _ []string) error {
			all, err := b.Trail(ctx, account.TrailQuery{Target: target, Limit: most})
			if err != nil {
				return err
			}
			return cli.EmitList(a.App, all, nil, "", []view.Column[account.Entry]{
				{Head: "AT", Cell: func(e account.Entry) string { return timeText(e.At) }},
				{Head: "WHO", Cell: func(e account.Entry) string { return e.Who }},
				{Head: "FACE", Cell: func(e account.Entry) string { return e.API }},
				{Head: "CALL", Cell: func(e account.Entry) string { return e.Call }},
				{Head: "TARGET", Cell: func(e account.Entry) string { return e.Target }},
				{Head: "ACCOUNT", Wide: true, Cell: func(e account.Entry) string { return e.Account }},
				{Head: "DOMAIN", Wide: true, Cell: func(e account.Entry) string { return e.Domain }},
				{Head: "OUTCOME", Cell: func(e account.Entry) string { return e.Outcome }, Health: func(e account.Entry) view.Health {
					return map[bool]view.Health{true: view.Healthy, false: view.Degraded}[e.Outcome == account.OK]
				}},
			})
		}),
	}
	limitFlag(cmd, &most, 100)
	cmd.Flags().StringVar(&target, "target", "", "only what concerned this `id` or path")
	return cmd
}
