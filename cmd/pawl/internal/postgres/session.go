package postgres

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// target are the flags that choose an instance.
type target struct {
	id     string
	reader bool
}

func (a verbs) targetFlags(cmd *cobra.Command, t *target) {
	a.instanceFlag(cmd, &t.id, "the instance with this `id`, whatever its role")
	cmd.Flags().BoolVar(&t.reader, "reader", false, "a healthy reader in place of the writer")
}

func (a verbs) psqlCommand() *cobra.Command {
	var t target
	cmd := a.program("psql", "psql CLUSTER [-- ARGS…]", "Open psql on the writer, or on another instance",
		"  pawl pg psql orders\n  pawl pg psql orders --reader -- -c 'SELECT count(*) FROM orders'\n  pawl pg psql orders --instance 2 -- -d shop < check.sql", &t)
	cmd.Long = `Runs psql with the password of the user postgres, which is in its environment only, on the
database postgres. ARGS are those of psql: -d names another database, -U another user, who
then has another password. The exit code is that of psql.

On Kubernetes psql runs in the pod of the instance, standalone it runs here.`
	return cmd
}

func (a verbs) pgbenchCommand() *cobra.Command {
	var t target
	cmd := a.program("pgbench", "pgbench CLUSTER -- ARGS…", "Measure a cluster with pgbench",
		"  pawl pg pgbench orders -- -i -s 10\n  pawl pg pgbench orders -- -c 8 -j 2 -T 30\n  pawl pg pgbench orders --reader -- -S -n -T 30", &t)
	cmd.Long = `Runs pgbench as psql is run. -i makes its tables in the database postgres, or in the one that
ends ARGS; it replaces tables of these names. Without tables that -i has made it fails.

On Kubernetes pgbench runs in the pod of the instance and takes of its processor: what it
measures is less than what clients of their own see.`
	return cmd
}

// program makes a verb that runs a client program of PostgreSQL.
func (a verbs) program(name, use, short, example string, t *target) *cobra.Command {
	cmd := a.verb(use, short, example, cobra.MinimumNArgs(1), func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		if at := cmd.ArgsLenAtDash(); at > 1 || at < 0 && len(args) > 0 {
			return cli.Usage.Errorf("give what is for %s behind --: pawl pg %s", name, use)
		}
		if t.id != "" && t.reader {
			return cli.Usage.Errorf("give --instance or --reader, not both")
		}
		if name == "pgbench" && len(args) == 0 {
			return cli.Usage.Errorf("give what pgbench does behind --, such as -i -s 10, then -c 8 -T 30")
		}
		i, err := c.choose(t.id, t.reader)
		if err != nil {
			return err
		}
		code, err := c.host.run(ctx, i, name, args, streams{a.In, a.Out, a.Err})
		if err != nil {
			return err
		}
		return cli.End(code)
	})
	a.targetFlags(cmd, t)
	return cmd
}
