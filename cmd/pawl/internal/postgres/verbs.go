// Package postgres has the verbs of pawl for the PostgreSQL of shared-storage clusters.
//
//	pawl pg VERB CLUSTER ─▶ cluster: object, spec, status ─┬─ status, promote, restart, hibernate, wake: read or ask the operator
//	                                                       └─ host: pods (exec, logs) or processes ─▶ psql, pgbench, logs, report
//
// A verb that changes a cluster sends a request to its operator, or changes a field of its spec. The password of a cluster reaches a
// program in its environment only.
package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command { return []*cobra.Command{verbs{a}.group()} }

type verbs struct{ *cli.App }

func (a verbs) group() *cobra.Command {
	group := &cobra.Command{
		Use: "pg", Short: "Look after PostgreSQL clusters: status, psql, logs, promote, restart, hibernate, wake, compare, report",
		Long: `Looks after the PostgreSQL of SharedStorageCluster objects: of a Kubernetes cluster, and of
pawl server or pawl dev. CLUSTER is the name of one, or NAMESPACE/NAME.

On Kubernetes psql, pgbench and the queries of status and report run in the pods, with your
right to create pods/exec. Standalone they run here, on the machine of the server.`,
		Example: "  pawl pg status orders\n  pawl pg psql orders -- -c 'SELECT 1'\n  pawl pg logs orders -f\n  pawl pg promote orders 2 --wait\n  pawl pg report orders --file orders.tar.gz",
	}
	group.AddCommand(a.statusCommand(), a.psqlCommand(), a.logsCommand(), a.promoteCommand(), a.restartCommand(), a.hibernateCommand(), a.wakeCommand(), a.pgbenchCommand(), a.compareCommand(), a.reportCommand())
	return group
}

// where says which cluster a verb means.
type where struct{ namespace string }

// verb makes a verb of a cluster: its first argument.
func (a verbs) verb(use, short, example string, args cobra.PositionalArgs, do func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error) *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: args, ValidArgsFunction: a.complete,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			c, err := a.open(ctx, w, args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			return do(ctx, cmd, c, args[1:])
		}),
	}
	cmd.Flags().StringVarP(&w.namespace, "namespace", "n", "", "`namespace` of the cluster (default: default, on Kubernetes that of the context)")
	a.CompleteNamespaces(cmd)
	return cmd
}

// complete suggests a cluster.
func (a verbs) complete(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.CompleteKinds(cmd, []string{sharedstorage.Kind}, start)
}

// completeInstances suggests a cluster, then one of its instances.
func (a verbs) completeInstances(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return a.complete(cmd, args, start)
	}
	namespace, _ := cmd.Flags().GetString("namespace")
	return cli.OpenForCompletion(a.App, cmd, func(ctx context.Context) (*cluster, error) { return a.open(ctx, where{namespace}, args[0]) }, func(_ context.Context, c *cluster) []string {
		var ids []string
		for _, id := range slices.Sorted(maps.Keys(c.status.Instances)) {
			i := c.status.Instances[id]
			ids = append(ids, id+"\t"+i.Role+" "+i.Name+" on "+i.Node)
		}
		return ids
	})
}

// instanceFlag adds --instance.
func (a verbs) instanceFlag(cmd *cobra.Command, id *string, text string) {
	cmd.Flags().StringVar(id, "instance", "", text)
	cli.SetCompletions(cmd, map[string]cli.Completion{"instance": func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeInstances(cmd, args[:1], start)
	}})
}
