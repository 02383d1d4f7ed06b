package main

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/accounts"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/benchmark"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/clusters"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/contexts"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/files"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/help"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/look"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/notifications"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/objects"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/postgres"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/rollouts"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/runs"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/schedules"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/servers"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/stores"
)

// root is the tree of verbs.
func root(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:     "pawl",
		Version: a.VersionText(),
		Short:   "Durable workflows and state machines for stateful clusters",
		Long: `Pawl moves stateful clusters from the state they are in to the state that was
asked for, one durable step at a time.

The verbs work on files, on a local store (SQLite by default, see --dsn), on the
server of --server or of the current context (see pawl context), and on Kubernetes
with --kubernetes, --context or --kubeconfig, or called as kubectl pawl. Of two
places that one counts which a flag names, then Kubernetes for kubectl pawl, then
the one of the environment (PAWL_SERVER, PAWL_CONTEXT, …), then that of --config,
then the current context, then the local store.

Exit codes: 0 done, 1 failed, refused or not found, 2 usage or bad input,
3 still going, 4 paused and in need of a remedy.`,
		Example: `  pawl run create.yaml --input readers=2 --subject demo/default/c1
  pawl get
  pawl resume gk3v --from failed --wait 10m
  pawl dev --flows flows/`,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("pawl {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.Flags.Config, "config", "", "YAML `file` with values for flags")
	f.StringVar(&a.Flags.Server, "server", "", "`URL` of a server to ask instead of a store; its token is PAWL_TOKEN")
	f.StringVar(&a.Flags.ServerContext, "server-context", "", "ask the server of this `context` of pawl context list (default: the current one)")
	f.StringVar(&a.Flags.Store, "store", "", "memory, sqlite or postgres (default: what --dsn says); on Kubernetes run or configmap")
	f.StringVar(&a.Flags.DSN, "dsn", "", "SQLite `file` or postgres://… (default pawl.db in the user's state folder)")
	f.BoolVar(&a.Flags.Kubernetes, "kubernetes", false, "ask the Kubernetes cluster of the current context instead of a store")
	f.StringVar(&a.Flags.Context, "context", "", "ask the Kubernetes cluster of this `context`")
	f.StringVar(&a.Flags.Kubeconfig, "kubeconfig", "", "ask the Kubernetes cluster of this `file` (default $KUBECONFIG, ~/.kube/config)")
	f.StringVarP(&a.Flags.Output, "output", "o", "", cli.OutputForms)
	f.StringVar(&a.Flags.Color, "color", "auto", "auto, always or never; auto: on a terminal, unless NO_COLOR is set")
	f.StringVar(&a.Flags.As, "as", "", "`name` of the one who asks, for history (default $USER)")
	f.DurationVar(&a.Flags.Timeout, "timeout", 0, "end the command after this time with exit code 3 if it is not done")
	f.StringVar(&a.Flags.LogLevel, "log-level", "", "debug, info, warn or error")
	f.StringSliceVar(&a.Flags.Flows, "flows", nil, "`files` and folders of flows, groups, faults and machines to load")
	f.StringSliceVar(&a.Flags.Machines, "machines", nil, "`files` and folders of machines to load")
	f.StringSliceVar(&a.Flags.Actions, "actions", nil, "ready-made `actions` that flows may use")
	f.StringSliceVar(&a.Flags.HTTPAllow, "http-allow", nil, "loopback and other local `addresses` that http actions may reach")
	f.StringVar(&a.Flags.SecretsDir, "secrets-dir", "", "`folder` with a file for each secret; PAWL_SECRET_NAME_KEY does the same")
	cli.SetCompletions(root, map[string]cli.Completion{"output": cli.FixedCompletion("text", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns="), "color": cli.FixedCompletion(cli.Colors...), "store": cli.FixedCompletion("memory", "sqlite", "postgres", "run", "configmap"), "context": cli.CompleteContexts(a), "server-context": cli.CompleteServerContexts, "log-level": cli.FixedCompletion("debug", "info", "warn", "error")})

	groups := []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"runs", "Runs:", runs.Commands(a)},
		{"look", "Look:", look.Commands(a)},
		{"objects", "Objects:", objects.Commands(a)},
		{"schedules", "Schedules:", schedules.Commands(a)},
		{"notifications", "Notifications:", notifications.Commands(a)},
		{"files", "Files:", files.Commands(a)},
		{"rollouts", "Rollouts:", rollouts.Commands(a)},
		{"pg", "PostgreSQL:", postgres.Commands(a)},
		{"fdb", "FoundationDB:", foundationdb.Commands(a)},
		{"clusters", "Container clusters:", clusters.Commands(a)},
		{"accounts", "Accounts:", accounts.Commands(a)},
		{"contexts", "Contexts:", contexts.Commands(a)},
		{"servers", "Servers:", servers.Commands(a)},
		{"care", "Maintenance:", slices.Concat(stores.Commands(a), benchmark.Commands(a), []*cobra.Command{help.Options(a), versionCommand(a)})},
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
			a.NamespaceFlags(g.id, c)
		}
	}
	root.SetHelpCommand(help.Command(a))
	root.AddCommand(docsCommand(a))
	root.AddCommand(servers.Processes(a)...)
	root.SetHelpCommandGroupID("care")
	root.SetCompletionCommandGroupID("care")
	help.Install(root)
	return root
}

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  pawl version -o json", Args: cobra.NoArgs,
		RunE: a.Verb(func(context.Context, *cobra.Command, []string) error {
			v := map[string]string{"version": a.VersionText(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return a.Emit(v, []string{v["version"]}, func() string {
				return strings.Join([]string{"pawl", v["version"], v["go"], v["platform"]}, " ") + "\n"
			})
		}),
	}
}
