package servers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/provider/local/node"
)

// nodeCommand runs as a VM of the local provider. The provider starts it, not a
// person.
func (a verbs) nodeCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "node --dir DIR", Short: "Be a node of a container cluster on this machine", Hidden: true, Args: cobra.NoArgs,
		Example: "  pawl node --dir local/vms/vm-1f0c",
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return node.Run(ctx, dir)
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "", "data `directory` that the provider has made")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}
