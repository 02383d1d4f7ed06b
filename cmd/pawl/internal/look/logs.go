package look

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
)

// maxTail is the largest --tail that a server answers.
const maxTail = 10_000

func (a verbs) logsCommand() *cobra.Command {
	var of backend.LogsOf
	var since time.Duration
	var times bool
	var namespace string
	cmd := &cobra.Command{
		Use: "logs RUN [STEP] | KIND NAME [STEP]", Short: "Print what the steps of a run, or of all runs of an object, have printed",
		Long: `Prints what steps write to standard output and standard error, and what Go steps log,
in the order of time. Lines of all steps begin with step and attempt; those of one
STEP are as they were printed. STEP may be a group or a loop: all steps inside it.

With KIND NAME prints the lines of the newest 50 runs of an object, or of a container
cluster (KIND cluster); each begins with its run. -f goes on with runs that begin later,
until the object is gone.

Of an attempt the first and the last 128 KiB are kept, of a run the newest 4 MiB; a line
says how much is left out. Secrets that the run has read are ***.`,
		Example:           "  pawl logs gk3v\n  pawl logs gk3v Build -f\n  pawl logs gk3v --since 5m --tail 100 --timestamps\n  pawl logs gk3v -o json\n  pawl logs run gk3v Build\n  pawl logs etcd c1 -f --tail 20\n  pawl logs cluster blue --since 1h",
		Args:              cobra.RangeArgs(1, 3),
		ValidArgsFunction: a.CompleteLogs,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if of.Tail < 0 || of.Tail > maxTail {
				return cli.Usage.Errorf("--tail %d: it is a number of lines up to %d, or 0 for all", of.Tail, maxTail)
			}
			if since < 0 {
				return cli.Usage.Errorf("--since %s: it is a time such as 5m", since)
			}
			if since > 0 {
				of.Since = time.Now().Add(-since)
			}
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			r, s, step, err := a.logged(ctx, b, args, namespace)
			if err != nil {
				return err
			}
			of.Step = step
			if s != nil {
				return a.subjectLogs(ctx, b, s, of, times)
			}
			return a.logs(ctx, b, r, of, times)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&of.Follow, "follow", "f", false, "go on until the run, the step or the object has ended; -o json prints each line by itself")
	f.DurationVar(&since, "since", 0, "only lines that are not older than this `time`")
	f.IntVar(&of.Tail, "tail", 0, "begin with this `number` of the newest lines (default: all)")
	f.BoolVar(&times, "timestamps", false, "begin each line with the time when it was printed, in UTC")
	f.StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object, on Kubernetes of the run (default: default, on Kubernetes that of the context)")
	return cmd
}

func (a verbs) logs(ctx context.Context, b backend.Runs, r view.Run, of backend.LogsOf, times bool) error {
	all := view.Logs{Items: []view.LogLine{}}
	style := a.Style(a.Out)
	if of.Follow && view.ExitOfRun(r) == view.ExitRemedy {
		a.Hint("%s is %s: lines come when it goes on; see pawl describe %s", view.Short(r.ID), r.Phase, view.Short(r.ID))
	}
	printed := false
	err := b.Logs(ctx, r.ID, of, func(lines []view.LogLine) error {
		printed = printed || len(lines) > 0
		if !a.IsText() && !of.Follow {
			all.Items = append(all.Items, lines...)
			return nil
		}
		for _, l := range lines {
			var err error
			if a.IsText() {
				_, err = io.WriteString(a.Out, view.LogText(l, view.LogPrefix{Time: times, Step: of.Step == ""}, style)+"\n")
			} else {
				err = a.next(l)
			}
			if err != nil {
				return fmt.Errorf("standard output: %w", err)
			}
		}
		return nil
	})
	switch {
	case of.Follow:
		return cli.WatchEnded(ctx, err)
	case err != nil:
		return err
	case !a.IsText():
		return a.Emit(all, nil, nil)
	case !printed:
		a.Hint("nothing was printed")
	}
	return nil
}
