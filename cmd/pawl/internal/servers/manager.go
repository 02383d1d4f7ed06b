package servers

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// managerCommand watches the engines of one shared-storage cluster. The operator
// starts it, not a person.
func (a verbs) managerCommand() *cobra.Command {
	var c postgres.WatchCommand
	var inPod bool
	cmd := &cobra.Command{
		Use: "cluster-manager --dir DIR", Short: "Watch a shared-storage cluster and fail over", Hidden: true, Args: cobra.NoArgs,
		Long: `Looks at the writer every second and fails over after five looks without one,
if failover is on. In strict durability it does so only if every reader that may
be the only one with an answered commit can be asked. Tells what it sees over
HTTP. What it must not forget is in DIR/state.json.

The configuration is JSON: cluster (namespace, name), listen, tokenFile,
grantDir, and optional node, version, certFile, keyFile, every, misses.
The file of the token is a regular one, of any mode.

With --kubernetes the configuration is the variable PAWL_MANAGER_CONFIG, the
grant is a Lease, and what must not be forgotten is in a ConfigMap.`,
		Example: "  pawl cluster-manager --dir /var/lib/pawl/default/c1/manager",
		RunE: a.daemon(&inPod, func(ctx context.Context, log *slog.Logger) error {
			switch c.Log = log; {
			case inPod:
				config, err := cli.KubeConfig("", "")
				if err != nil {
					return err
				}
				return kube.Process{Config: config, Log: log}.Manager(ctx)
			case c.Dir == "":
				return cli.Usage.Errorf("--dir is required")
			}
			return c.Run(ctx)
		}),
	}
	cmd.Flags().StringVar(&c.Dir, "dir", "", "`folder` for what it must not forget")
	cmd.Flags().StringVar(&c.Config, "config", "", "JSON `file` with the configuration (default config.json in the folder)")
	cmd.Flags().BoolVar(&inPod, "kubernetes", false, "run in a pod")
	return cmd
}
