package servers

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/operator/sharedstorage/pooler"
)

// poolerCommand runs beside each pgbouncer of a shared-storage cluster. The operator starts it, not a
// person.
func (a verbs) poolerCommand() *cobra.Command {
	var c pooler.Command
	cmd := &cobra.Command{
		Use: "pooler --dir DIR", Short: "Run one PgBouncer of a shared-storage cluster", Hidden: true, Args: cobra.NoArgs,
		Long: `Writes the configuration of pgbouncer below DIR, keeps it running, sends its
clients to the writer, and lets them wait during a planned switch, as it is told
over HTTP. A pause ends by itself at its limit. Ended with SIGTERM, or killed, it
takes pgbouncer with it.

The configuration is JSON: cluster (namespace, name), name, listen, host, port,
tokenFile, passwordFile, and optional program and user. With --kubernetes it is
the variable PAWL_POOLER_CONFIG.`,
		Example: "  pawl pooler --dir /var/lib/pawl/default/c1/pooler/c1-pooler-1",
		RunE: a.daemon(&c.InPod, func(ctx context.Context, log *slog.Logger) error {
			if c.Dir == "" {
				return cli.Usage.Errorf("--dir is required")
			}
			c.Log = log
			return c.Run(ctx)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&c.Dir, "dir", "", "`folder` for the files of pgbouncer and the state")
	f.StringVar(&c.Config, "config", "", "JSON `file` with the configuration (default config.json in the folder)")
	f.BoolVar(&c.InPod, "kubernetes", false, "run in a pod")
	return cmd
}
