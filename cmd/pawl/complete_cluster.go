package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cluster"
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
		return a.suggestions(cmd, func(ctx context.Context, api *client.Client) []string {
			catalog, err := api.Catalog(ctx, kind)
			if err != nil {
				return nil
			}
			return namesOf(catalog.Items, func(e view.CatalogEntry) string { return e.ID })
		})
	}
}

// completeWorkers suggests the workers of the cluster that is named before.
func (a *app) completeWorkers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.suggestions(cmd, func(ctx context.Context, api *client.Client) []string {
		nodes, err := api.ClusterNodes(ctx, args[0])
		var workers nodeList
		for _, n := range nodes.Items {
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
	return a.suggestions(cmd, func(ctx context.Context, api *client.Client) []string {
		page, err := api.ListClusters(ctx, client.ListClustersParams{Limit: 500})
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
	return a.suggestions(cmd, func(ctx context.Context, api *client.Client) []string {
		nodes, err := api.ClusterNodes(ctx, args[0])
		if err != nil {
			return nil
		}
		return nodeList(nodes).names()
	})
}

// suggestions reads from the server.
func (a *app) suggestions(cmd *cobra.Command, read func(context.Context, *client.Client) []string) ([]string, cobra.ShellCompDirective) {
	return openForCompletion(a, cmd, func(context.Context) (*client.Client, error) { return a.remote() }, read)
}
