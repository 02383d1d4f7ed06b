// Package schedules has the verbs of pawl that steer schedules.
package schedules

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command { return []*cobra.Command{verbs{a}.scheduleCommand()} }

type verbs struct{ *cli.App }

func (a verbs) scheduleCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "schedule", Short: "Steer a schedule: pause, resume, trigger, backfill",
		Long: `A schedule is an object of kind Schedule: a calendar, and the flow that it starts.
apply, get, describe, edit and delete take it as any other object.

A paused schedule has no ticks; those of the pause are not made up for. trigger starts
a run at once, and backfill the runs of ticks of the past, each once however often it is
asked. Both wait in the queue of their subject, whatever the schedule says of overlap.`,
		Example: "  pawl describe schedule nightly\n  pawl schedule pause nightly --reason 'new disks'\n  pawl schedule backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-03T00:00:00Z --dry-run",
	}
	group.AddCommand(a.pauseCommand(), a.resumeCommand(), a.triggerCommand(), a.backfillCommand())
	return group
}

// verb makes a verb of one schedule.
func (a verbs) verb(name, short, example string, how cli.Access, do func(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: name + " NAME", Short: short, Example: example, Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return a.CompleteKinds(cmd, append([]string{schedule.Kind}, args...), typed)
		},
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			b, err := a.Open(ctx, how)
			if err != nil {
				return err
			}
			defer b.Close()
			objects, err := b.Objects()
			if err != nil {
				return err
			}
			return do(ctx, b, objects, a.RefOf(schedule.Kind, namespace, args[0]))
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the schedule (default: default)")
	return cmd
}

func (a verbs) pauseCommand() *cobra.Command {
	var reason string
	cmd := a.verb("pause", "Start nothing until the schedule is resumed", "  pawl schedule pause nightly --reason 'new disks'", cli.Looks,
		func(ctx context.Context, _ backend.Backend, objects control.Objects, ref control.Ref) error {
			why := "by " + a.Actor()
			if reason != "" {
				why += ": " + reason
			}
			return a.change(ctx, objects, ref, "paused", func(o *control.Object) { schedule.Pause(o, why) })
		})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for describe")
	return cmd
}

func (a verbs) resumeCommand() *cobra.Command {
	return a.verb("resume", "End a pause; what was due meanwhile is not made up for", "  pawl schedule resume nightly", cli.Looks,
		func(ctx context.Context, _ backend.Backend, objects control.Objects, ref control.Ref) error {
			return a.change(ctx, objects, ref, "resumed", schedule.Resume)
		})
}

func (a verbs) change(ctx context.Context, objects control.Objects, ref control.Ref, word string, change func(*control.Object)) error {
	o, err := control.Modify(ctx, objects, ref, func(o *control.Object) error { change(o); return nil })
	if err != nil {
		return err
	}
	return a.Emit(o, []string{o.Ref.String()}, func() string { return o.Ref.String() + " " + word + "\n" })
}

func (a verbs) triggerCommand() *cobra.Command {
	var reason string
	cmd := a.verb("trigger", "Start a run now", "  pawl schedule trigger nightly --reason 'before the upgrade'", cli.Sends,
		func(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error {
			o, err := objects.Get(ctx, ref)
			if err != nil {
				return err
			}
			req, err := schedule.TriggerOf(o, control.NewUID(), workflow.Actor{Name: a.Actor(), Reason: reason})
			if err != nil {
				return err
			}
			r, err := b.Start(ctx, req)
			if err != nil {
				return err
			}
			return a.Emit(r, []string{r.ID}, func() string { return "accepted " + view.Short(r.ID) + "\n" })
		})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for the history of the run")
	return cmd
}

func (a verbs) backfillCommand() *cobra.Command {
	var from, to string
	var dry bool
	cmd := a.verb("backfill", "Start the runs of ticks of the past that have none",
		"  pawl schedule backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-03T00:00:00Z --dry-run", cli.Sends,
		func(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error {
			first, err := moment("from", from)
			if err != nil {
				return err
			}
			last, err := moment("to", to)
			if err != nil {
				return err
			}
			o, err := objects.Get(ctx, ref)
			if err != nil {
				return err
			}
			return a.backfill(ctx, b, o, schedule.Backfill{From: first, To: last, DryRun: dry, By: a.Actor()})
		})
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "first `time`, as 2026-11-01T00:00:00Z")
	f.StringVar(&to, "to", "", "last `time`, not in the future")
	f.BoolVar(&dry, "dry-run", false, "only tell what would start")
	return cmd
}

func moment(flag, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, cli.Usage.Errorf("--%s %q: it is a time as 2026-11-01T00:00:00Z", flag, text)
	}
	return at, nil
}

func (a verbs) backfill(ctx context.Context, b backend.Backend, o control.Object, wanted schedule.Backfill) error {
	all := []schedule.Backfilled{}
	err := wanted.Run(ctx, o, starter{b}, time.Now(), func(one schedule.Backfilled) {
		a.Say("%s  run %s  %s", one.Tick.Format(time.RFC3339), view.Short(one.Run), one.Result)
		all = append(all, one)
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		a.Say("no ticks from %s to %s", wanted.From.Format(time.RFC3339), wanted.To.Format(time.RFC3339))
	}
	if a.IsText() {
		return nil
	}
	return a.Emit(cli.ListOf(all), nil, nil)
}

// starter is a schedule.Starter on a backend.
type starter struct{ backend.Backend }

// Exists implements schedule.Starter.
func (s starter) Exists(ctx context.Context, run string) (bool, error) {
	_, err := s.Run(ctx, run)
	if err != nil && fault.Of(err).Code == workflow.RunNotFound.Code {
		return false, nil
	}
	return err == nil, err
}

// Start implements schedule.Starter.
func (s starter) Start(ctx context.Context, r workflow.Request) error {
	_, err := s.Backend.Start(ctx, r)
	return err
}
