package clusters

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
)

// The values of flags that several verbs have.
var (
	completeRecovery  = cli.FixedCompletion("none", "restart", "restart,replace", "restart,replace,adopt")
	completeOnFailure = cli.FixedCompletion(cluster.Rollback, cluster.Lazy, cluster.KeepPartial)
)

// completeCatalog suggests entries of the providers' catalogs.
func (a verbs) completeCatalog(kind string) cli.Completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.suggestions(cmd, func(ctx context.Context, api *client.Client) []string {
			catalog, err := api.Catalog(ctx, kind)
			if err != nil {
				return nil
			}
			return cli.NamesOf(catalog.Items, func(e view.CatalogEntry) string { return e.ID })
		})
	}
}

// completeWorkers suggests the workers of the cluster that is named before.
func (a verbs) completeWorkers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
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

func (a verbs) completeClusters(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.suggestions(cmd, func(ctx context.Context, api *client.Client) []string {
		page, err := api.ListClusters(ctx, client.ListClustersParams{Limit: 500})
		if err != nil {
			return nil
		}
		return cli.NamesOf(page.Items, func(c view.Cluster) string { return c.Name })
	})
}

func (a verbs) completeNodes(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
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
func (a verbs) suggestions(cmd *cobra.Command, read func(context.Context, *client.Client) []string) ([]string, cobra.ShellCompDirective) {
	return cli.OpenForCompletion(a.App, cmd, func(context.Context) (*client.Client, error) { return a.Remote() }, read)
}
