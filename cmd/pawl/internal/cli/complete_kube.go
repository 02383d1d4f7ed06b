package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
)

// CompleteContexts suggests those of the user's file.
func CompleteContexts(a *App) Completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := clientConfig(a.Flags.Kubeconfig, "").RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNamespaces suggests those of the cluster, or those that objects stand in.
func (a *App) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completing(cmd, func(ctx context.Context, b backend.Backend) []string {
		if known, ok := b.(interface {
			Namespaces(ctx context.Context) ([]string, error)
		}); ok {
			all, err := known.Namespaces(ctx)
			if err != nil {
				return nil
			}
			return all
		}
		return namespacesOf(ctx, b)
	})
}
