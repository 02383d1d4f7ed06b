package look

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/follow"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// describeEvents is the number of newest events that describe shows.
const describeEvents = 10

func (a verbs) describeCommand() *cobra.Command {
	var namespace string
	var allSteps, tree bool
	cmd := &cobra.Command{
		Use: "describe RUN | KIND NAME...", Short: "Tell all that is known of a run or an object",
		Long: `Tells all that is known of a run or an object.

With --tree a run is drawn as a tree: its steps below their groups and loops, below a
step its attempts, if it had several, and the run that it started, with the steps of that.`,
		Example:           "  pawl describe gk3v\n  pawl describe gk3v --tree\n  pawl describe run gk3v -o json --tree\n  pawl describe etcd c1 c2 -n prod",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteRunsOrKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			describe := func(kind, name string) error {
				if tree {
					return cli.Usage.Errorf("--tree is for a run")
				}
				return a.describeObject(ctx, b, a.RefOf(kind, namespace, name))
			}
			if _, isRun := cli.RunOf(args[:min(len(args), 2)]); isRun {
				describe = func(_, id string) error { return a.describeRun(ctx, b, id, allSteps, tree) }
			}
			if len(args) == 1 {
				kind, name, ok := strings.Cut(args[0], "/")
				if !ok {
					name = kind
				}
				return describe(kind, name)
			}
			return a.each(args[1:], func(name string) error { return describe(args[0], name) })
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	cmd.Flags().BoolVar(&allSteps, "all-steps", false, "all steps of a run, not the newest 1,000")
	cmd.Flags().BoolVar(&tree, "tree", false, "draw a run as a tree, with attempts and the runs that it started")
	return cmd
}

func (a verbs) describeRun(ctx context.Context, b backend.Backend, id string, allSteps, tree bool) error {
	r, err := b.Run(ctx, id)
	if err == nil && allSteps {
		r, err = wholeRun(ctx, b, r)
	}
	if err != nil {
		return err
	}
	if tree {
		t, err := readTree(ctx, b, r, allSteps)
		if err != nil {
			return err
		}
		return a.Emit(t, []string{r.ID}, func() string { return t.Text(time.Now(), a.Style(a.Out)) })
	}
	return a.Emit(r, []string{r.ID}, func() string {
		events, err := b.History(ctx, r.ID, max(0, r.Seq-describeEvents), describeEvents)
		if err != nil {
			a.Hint("pawl: the history cannot be read: %v", err)
		}
		return view.Describe(r, events, time.Now(), a.Style(a.Out))
	})
}

// wholeRun is the run with all its steps.
func wholeRun(ctx context.Context, b backend.Runs, r view.Run) (view.Run, error) {
	if r.EarlierSteps == 0 {
		return r, nil
	}
	r.Steps, r.EarlierSteps = nil, 0
	for {
		page, err := b.Steps(ctx, r.ID, len(r.Steps))
		if err != nil {
			return r, err
		}
		r.Steps = append(r.Steps, page.Items...)
		if page.Next == "" {
			return r, nil
		}
	}
}

// each describes one after the other.
func (a verbs) each(names []string, describe func(name string) error) error {
	for i, name := range names {
		switch {
		case a.Flags.Output == "yaml" && len(names) > 1:
			fmt.Fprintln(a.Out, "---")
		case i > 0 && a.IsText():
			fmt.Fprintln(a.Out)
		}
		if err := describe(name); err != nil {
			return err
		}
	}
	return nil
}

func (a verbs) describeObject(ctx context.Context, b backend.Backend, ref control.Ref) error {
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	o, err := objects.Get(ctx, ref)
	if err != nil {
		return a.Elsewhere(ref.Kind, err)
	}
	if o.Kind == view.RolloutKind {
		r, err := readRollout(ctx, b, objects, o.Ref)
		if err != nil {
			return err
		}
		return a.Emit(r, []string{o.Ref.String()}, func() string { return view.DescribeRollout(r, time.Now(), a.Style(a.Out)) })
	}
	if view.IsApplication(o) {
		return a.describeApplication(ctx, b, objects, o)
	}
	if report.KindOf(o.Kind) != "" {
		return a.describeDatabase(b, o)
	}
	switch o.Kind {
	case schedule.Kind:
		return a.describeSchedule(ctx, b, o)
	case bulk.Kind:
		return a.describeBulk(o, nowOf(b))
	}
	runs, err := runsOf(ctx, b, o, 5)
	if err != nil {
		return err
	}
	type described struct {
		Object control.Object `json:"object"`
		Runs   []view.Run     `json:"runs"`
	}
	return a.Emit(described{o, runs}, []string{o.Ref.String()}, func() string { return view.DescribeObject(o, runs, nowOf(b), a.Style(a.Out)) })
}

// runsOf returns the newest runs whose subject is an object.
func runsOf(ctx context.Context, b backend.Runs, o control.Object, most int) ([]view.Run, error) {
	page, err := b.List(ctx, runstore.Query{Subject: o.Ref.String(), UID: o.UID, Limit: most})
	return page.Items, err
}

func (a verbs) watchCommand() *cobra.Command {
	var namespace string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "watch RUN | KIND NAME", Short: "Watch a run until it rests, or an object",
		Long:              "Watches a run until it has ended or is paused, or an object until it is gone or\nneeds a remedy (exit code 4), without working on it.",
		Example:           "  pawl watch gk3v\n  pawl watch etcd c1 --timeout 10m",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteRunsOrKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			id, isRun := cli.RunOf(args)
			if !isRun {
				ref, _ := a.ObjectOf(args, namespace)
				return a.watchObject(ctx, b, ref, wait)
			}
			first, err := b.Run(ctx, id)
			if err != nil {
				return err
			}
			r, err := follow.Follower{App: a.App}.Show(ctx, b, follow.Reading{ID: first.ID, Wait: wait})
			if err != nil && !follow.IsEnd(err) {
				return err
			}
			if !a.IsText() {
				if err := a.Emit(r, []string{r.ID}, nil); err != nil {
					return err
				}
			}
			return cli.End(view.ExitOfRun(r))
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	cli.WaitFlag(cmd, &wait, cli.Forever, "watch at most this long")
	return cmd
}

// watchObject prints an object's row whenever it has changed.
func (a verbs) watchObject(ctx context.Context, b backend.Backend, ref control.Ref, wait time.Duration) error {
	if wait < cli.Forever {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	first, err := objects.Get(ctx, ref)
	if err != nil {
		return a.Elsewhere(ref.Kind, err)
	}
	ref = first.Ref
	if first.Kind == view.RolloutKind {
		return a.watchRollout(ctx, b, objects, ref)
	}
	if view.IsApplication(first) {
		return a.watchApplication(ctx, b, objects, ref)
	}
	if report.KindOf(first.Kind) != "" {
		return a.watchDatabase(ctx, b, objects, ref)
	}
	var last control.Object
	held := false
	err = a.repeat(ctx, b, true, func() (any, []string, cli.Drawing, error) {
		o, err := objects.Get(ctx, ref)
		last = o
		return o, []string{o.Ref.String()}, view.ObjectTable([]control.Object{o}, time.Now()).Text, err
	}, func() bool {
		held = follow.NeedsRemedy(ctx, b, last)
		return held
	})
	if errors.Is(err, control.NotFound) {
		a.Say("%s is gone", ref)
		return nil
	}
	switch {
	case err == nil && held:
		if f := view.StateOf(last).Fault; f != nil {
			a.Hint("  remedy: %s", f.Remedy)
		}
		return cli.End(view.ExitRemedy)
	case err == nil && ctx.Err() != nil:
		return cli.End(view.ExitActive)
	}
	return err
}
