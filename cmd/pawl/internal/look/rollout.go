package look

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
)

// rolloutHistory prints all records of a Rollout: those of its ConfigMaps, then those of its status.
func (a verbs) rolloutHistory(ctx context.Context, objects control.Objects, o control.Object) error {
	records, err := backend.RolloutRecords(ctx, objects, o)
	switch {
	case err == nil:
	case records != nil && fault.Of(err).Class == fault.Blocked: // without the right to read them, the newest are shown
		a.Hint("pawl: older records cannot be read: %v", err)
	default:
		return err
	}
	return a.Emit(records, nil, func() string { return view.RolloutHistory(records, a.Style(a.Out)).Text(a.Style(a.Out)) })
}

// readRollout reads a Rollout, with its pods where they can be read.
func readRollout(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) (view.Rollout, error) {
	if rollouts, ok := b.(backend.Rollouts); ok {
		return rollouts.Rollout(ctx, ref)
	}
	o, err := objects.Get(ctx, ref)
	if err != nil {
		return view.Rollout{}, err
	}
	return view.RolloutOf(o)
}

// watchRollout shows a Rollout until it has ended or needs somebody: on a terminal it draws the batches,
// in a pipe it prints a line whenever something has changed.
func (a verbs) watchRollout(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error {
	last, ended := view.Rollout{}, false
	read := func() (err error) {
		last, err = readRollout(ctx, b, objects, ref)
		ended = err == nil && last.Exit() != view.ExitActive
		return err
	}
	var err error
	if a.IsLive() {
		err = a.draw(ctx, b, read, func() live.Drawing {
			shown := last
			return func(style view.Style) []string { return view.DrawRollout(shown, time.Now(), style) }
		}, &ended)
	} else {
		err = a.repeat(ctx, b, true, func() (any, []string, cli.Drawing, error) {
			err := read()
			return last, []string{ref.String()}, cli.Fixed(last.Line(time.Now())), err
		}, func() bool { return ended })
	}
	switch {
	case fault.Of(err) == control.NotFound:
		a.Say("%s is gone", ref)
		return nil
	case err != nil:
		return err
	case ended:
		if last.Remedy != "" && last.Exit() != view.ExitDone {
			a.Hint("  remedy: %s", last.Remedy)
		}
		return cli.End(last.Exit())
	}
	return cli.End(view.ExitActive)
}

// draw draws over itself at each change, and each second for the times, until it is over.
func (a verbs) draw(ctx context.Context, b backend.Runs, read func() error, drawing func() live.Drawing, over *bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := b.Changes(ctx, "")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	screen := live.Open(a.Out, a.Style(a.Out))
	defer screen.Close()
	for fresh := true; ; {
		if fresh {
			if err := read(); err != nil {
				return cli.WatchEnded(ctx, err)
			}
		}
		screen.Show(drawing())
		if *over {
			return nil
		}
		select {
		case <-ctx.Done():
			return cli.WatchEnded(ctx, nil)
		case <-changes:
			fresh = true
		case <-tick.C:
			fresh = false
		}
	}
}
