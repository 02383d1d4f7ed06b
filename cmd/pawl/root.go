package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/machine"
)

// root is the tree of verbs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Durable workflows and state machines for stateful clusters",
		Long: `Pawl moves stateful clusters from the state they are in to the state that was
asked for, one durable step at a time.

The verbs work on files, on a local store (SQLite by default, see --dsn), with
--server on a server, and on Kubernetes with --kubernetes, --context or
--kubeconfig, or called as kubectl pawl. Of two places that one counts which a
flag names, then Kubernetes for kubectl pawl, then the one of the environment
(PAWL_SERVER, PAWL_CONTEXT, …), then that of --config.

Exit codes: 0 done, 1 failed, refused or not found, 2 usage or bad input,
3 still going, 4 paused and in need of a remedy.`,
		Example: `  pawl run create.yaml --input readers=2 --subject demo/default/c1
  pawl get
  pawl resume gk3v --from failed --wait 10m
  pawl dev --flows flows/`,
		SilenceErrors: true, SilenceUsage: true, SuggestionsMinimumDistance: 3,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.flags.config, "config", "", "YAML `file` with values for flags")
	f.StringVar(&a.flags.server, "server", "", "`URL` of a server to ask instead of a store; its token is PAWL_TOKEN")
	f.StringVar(&a.flags.store, "store", "", "memory, sqlite or postgres (default: what --dsn says); on Kubernetes run or configmap")
	f.StringVar(&a.flags.dsn, "dsn", "", "SQLite `file` or postgres://… (default pawl.db in the user's state folder)")
	f.BoolVar(&a.flags.kubernetes, "kubernetes", false, "ask the Kubernetes cluster of the current context instead of a store")
	f.StringVar(&a.flags.context, "context", "", "ask the Kubernetes cluster of this `context`")
	f.StringVar(&a.flags.kubeconfig, "kubeconfig", "", "ask the Kubernetes cluster of this `file` (default $KUBECONFIG, ~/.kube/config)")
	f.StringVarP(&a.flags.output, "output", "o", "", "text, json, yaml or name")
	f.BoolVar(&a.flags.noColor, "no-color", false, "no colors; NO_COLOR does the same")
	f.StringVar(&a.flags.as, "as", "", "`name` of the one who asks, for history (default $USER)")
	f.DurationVar(&a.flags.timeout, "timeout", 0, "end the command after this time with exit code 3 if it is not done")
	f.StringVar(&a.flags.logLevel, "log-level", "", "debug, info, warn or error")
	f.StringSliceVar(&a.flags.flows, "flows", nil, "`files` and folders of flows, groups, faults and machines to load")
	f.StringSliceVar(&a.flags.machines, "machines", nil, "`files` and folders of machines to load")
	f.StringSliceVar(&a.flags.actions, "actions", nil, "ready-made `actions` that flows may use")
	f.StringSliceVar(&a.flags.httpAllow, "http-allow", nil, "loopback and other local `addresses` that http actions may reach")
	f.StringVar(&a.flags.secretsDir, "secrets-dir", "", "`folder` with a file for each secret; PAWL_SECRET_NAME_KEY does the same")
	setCompletions(root, map[string]completion{"output": fixedCompletion("text", "json", "yaml", "name"), "store": fixedCompletion("memory", "sqlite", "postgres", "run", "configmap"), "context": completeContexts(a), "log-level": fixedCompletion("debug", "info", "warn", "error")})

	groups := []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"runs", "Runs:", []*cobra.Command{a.runCommand(), a.pauseCommand(), a.resumeCommand(), a.cancelCommand(), a.skipCommand(), a.signalCommand(), a.progressCommand()}},
		{"look", "Look:", []*cobra.Command{a.getCommand(), a.describeCommand(), a.watchCommand(), a.historyCommand(), a.explainCommand()}},
		{"objects", "Objects:", []*cobra.Command{a.applyCommand(), a.editCommand(), a.annotateCommand(), a.deleteCommand()}},
		{"files", "Files:", []*cobra.Command{a.lintCommand(), a.planCommand(), a.graphCommand(), a.diffCommand(), a.schemaCommand()}},
		{"clusters", "Container clusters:", []*cobra.Command{a.clusterCommand()}},
		{"accounts", "Accounts:", a.accountVerbs()},
		{"servers", "Servers:", []*cobra.Command{a.serverCommand(), a.devCommand(), a.operatorCommand()}},
		{"care", "Maintenance:", []*cobra.Command{a.storeCommand(), a.importCommand(), a.benchCommand(), a.versionCommand()}},
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
			a.namespaceFlags(g.id, c)
		}
	}
	root.AddCommand(a.docsCommand(), a.nodeCommand(), a.instanceCommand(), a.managerCommand())
	root.SetHelpCommandGroupID("care")
	root.SetCompletionCommandGroupID("care")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := err.Error()
		if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
			text += didYouMeanFlag(cmd, name)
		}
		return Usage.Errorf("%s: %s", cmd.CommandPath(), text)
	})
	return root
}

func didYouMeanFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return suggest(name, names)
}

// joinWaits lets --wait stand alone or with a time behind it: --wait 10m is --wait=10m.
func joinWaits(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if args[i] == "--wait" && i+1 < len(args) {
			if new(span).Set(args[i+1]) == nil {
				out = append(out, "--wait="+args[i+1])
				i++
				continue
			}
		}
		out = append(out, args[i])
	}
	return out
}

// forever is the time of --wait without one.
const forever = time.Duration(1<<63 - 1)

// waitFlag adds --wait.
func waitFlag(cmd *cobra.Command, wait *time.Duration, otherwise time.Duration, text string) {
	*wait = otherwise
	f := cmd.Flags().VarPF((*span)(wait), "wait", "", text)
	f.NoOptDefVal = foreverWord
	f.DefValue = ""
}

const foreverWord = "forever"

// span is a duration of a flag; it may be forever.
type span time.Duration

// String implements pflag.Value.
func (s *span) String() string {
	if time.Duration(*s) == forever {
		return foreverWord
	}
	return time.Duration(*s).String()
}

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	if text == foreverWord {
		*s = span(forever)
		return nil
	}
	d, err := time.ParseDuration(text)
	*s = span(d)
	return err
}

// Type implements pflag.Value.
func (s *span) Type() string { return "duration" }

// countText is a number with its noun.
func countText(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// suggest ends a message about an unknown word with the nearest known one.
func suggest(word string, known []string) string { return machine.DidYouMean(word, known) }
