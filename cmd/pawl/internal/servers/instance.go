package servers

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// instanceCommand runs beside each engine of a shared-storage cluster.
// The operator starts it, not a person.
func (a verbs) instanceCommand() *cobra.Command {
	var c postgres.InstanceCommand
	var inPod bool
	var copyTo string
	cmd := &cobra.Command{
		Use: "instance --dir DIR", Short: "Run one PostgreSQL engine of a shared-storage cluster", Hidden: true, Args: cobra.NoArgs,
		Long: `Owns the data directory below DIR and the postgres process in it: installs,
starts, stops, promotes and rewinds as it is told over HTTP, renews the lease of
a writer, and stops the writer before its lease ends. Ended with SIGTERM it stops
the engine; killed, it finds the engine again when it comes back.

The configuration is JSON: cluster (namespace, name, instance), listen, host,
port, binaries, tokenFile, passwordFile, grantDir, and optional bind, version,
user, certFile, keyFile, seed, lease, grace, durability, parameters, command.
The files of token and password are regular ones, of any mode.

With --kubernetes DIR is the volume of a pod, the configuration is the variable
PAWL_INSTANCE_CONFIG, the grant is a Lease, and the log of the engine goes to the
output as lines of JSON. --copy-to only copies this
program, for a container of another image.`,
		Example: "  pawl instance --dir /var/lib/pawl/default/c1/instances/c1-1",
		RunE: a.daemon(&inPod, func(ctx context.Context, log *slog.Logger) error {
			switch c.Log = log; {
			case copyTo != "":
				return kube.CopyTo(copyTo)
			case c.Dir == "":
				return cli.Usage.Errorf("--dir is required")
			case !inPod:
				return c.Run(ctx)
			}
			config, err := cli.KubeConfig("", "")
			if err != nil {
				return err
			}
			return kube.Process{Config: config, Dir: c.Dir, Log: log, Out: a.Out}.Instance(ctx)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&c.Dir, "dir", "", "`folder` of the instance")
	f.StringVar(&c.Config, "config", "", "JSON `file` with the configuration (default config.json in the folder)")
	f.BoolVar(&c.Guard, "guard", false, "only stop the writer in time if its agent is killed; the agent starts this")
	f.BoolVar(&inPod, "kubernetes", false, "run in a pod")
	f.StringVar(&copyTo, "copy-to", "", "copy this program to a `file` and end")
	return cmd
}

// daemon wraps a verb that other programs start. Its --config is a file of its own, so
// flags come from the command line alone. In a pod its log is JSON, like that of the engine.
func (a verbs) daemon(inPod *bool, do func(ctx context.Context, log *slog.Logger) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := a.CheckFlags(); err != nil {
			return err
		}
		level := slog.LevelInfo
		if a.Flags.LogLevel != "" {
			_ = level.UnmarshalText([]byte(a.Flags.LogLevel)) // checked with the flags
		}
		options := &slog.HandlerOptions{Level: level}
		if *inPod {
			return do(cmd.Context(), slog.New(slog.NewJSONHandler(a.Err, options)))
		}
		return do(cmd.Context(), slog.New(slog.NewTextHandler(a.Err, options)))
	}
}
