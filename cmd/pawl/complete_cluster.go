package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/view"
)

// completion suggests words for an argument or a flag.
type completion = func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective)

// fixedCompletion suggests a fixed list.
func fixedCompletion[S ~string](all ...S) completion {
	texts := namesOf(all, func(s S) string { return string(s) })
	return cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)
}

// setCompletions sets the completions of a command's flags.
func setCompletions(cmd *cobra.Command, flags map[string]completion) {
	for name, of := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, of); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// The values of flags that several verbs have.
var (
	completeRecovery  = fixedCompletion("none", "restart", "restart,replace", "restart,replace,adopt")
	completeOnFailure = fixedCompletion(cluster.Rollback, cluster.Lazy, cluster.KeepPartial)
)

// completeCatalog suggests entries of the providers' catalogs.
func (a *app) completeCatalog(kind string) completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.suggestions(cmd, func(ctx context.Context, r *backend.Remote) []string {
			entries, err := r.Catalog(ctx, kind)
			if err != nil {
				return nil
			}
			return namesOf(entries, func(e view.CatalogEntry) string { return e.ID })
		})
	}
}

// completeWorkers suggests the workers of the cluster that is named before.
func (a *app) completeWorkers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.suggestions(cmd, func(ctx context.Context, r *backend.Remote) []string {
		nodes, err := r.ClusterNodes(ctx, args[0])
		var workers nodeList
		for _, n := range nodes {
			if err == nil && n.Role == cluster.Worker {
				workers.Items = append(workers.Items, n)
			}
		}
		return workers.names()
	})
}

func (a *app) completeClusters(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.suggestions(cmd, func(ctx context.Context, r *backend.Remote) []string {
		page, err := r.Clusters(ctx, url.Values{"limit": {"500"}})
		if err != nil {
			return nil
		}
		return namesOf(page.Items, func(c view.Cluster) string { return c.Name })
	})
}

func (a *app) completeNodes(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return a.completeClusters(cmd, args, text)
	}
	return a.suggestions(cmd, func(ctx context.Context, r *backend.Remote) []string {
		nodes, err := r.ClusterNodes(ctx, args[0])
		if err != nil {
			return nil
		}
		return nodeList{Items: nodes}.names()
	})
}

// suggestions reads from the server.
func (a *app) suggestions(cmd *cobra.Command, read func(context.Context, *backend.Remote) []string) ([]string, cobra.ShellCompDirective) {
	return openForCompletion(a, cmd, a.remote, read)
}
