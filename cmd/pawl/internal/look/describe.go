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
	var allSteps bool
	cmd := &cobra.Command{
		Use: "describe RUN | KIND NAME...", Short: "Tell all that is known of a run or an object",
		Example:           "  pawl describe gk3v\n  pawl describe etcd c1 c2 -n prod",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteRunsOrKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			if len(args) > 2 {
				return a.describeObjects(ctx, b, args[0], namespace, args[1:])
			}
			if ref, ok := a.ObjectOf(args, namespace); ok {
				return a.describeObject(ctx, b, ref)
			}
			r, err := b.Run(ctx, args[0])
			if err == nil && allSteps {
				r, err = wholeRun(ctx, b, r)
			}
			if err != nil {
				return err
			}
			return a.Emit(r, []string{r.ID}, func() string {
				events, err := b.History(ctx, r.ID, max(0, r.Seq-describeEvents), describeEvents)
				if err != nil {
					a.Hint("pawl: the history cannot be read: %v", err)
				}
				return view.Describe(r, events, time.Now(), a.Style(a.Out))
			})
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	cmd.Flags().BoolVar(&allSteps, "all-steps", false, "all steps of a run, not the newest 1,000")
	return cmd
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

// describeObjects describes one after the other.
func (a verbs) describeObjects(ctx context.Context, b backend.Backend, kind, namespace string, names []string) error {
	for i, name := range names {
		switch {
		case a.Flags.Output == "yaml":
			fmt.Fprintln(a.Out, "---")
		case i > 0 && a.IsText():
			fmt.Fprintln(a.Out)
		}
		if err := a.describeObject(ctx, b, a.RefOf(kind, namespace, name)); err != nil {
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

func (a verbs) historyCommand() *cobra.Command {
	var namespace string
	var after int64
	var limit int
	var goesOn bool
	cmd := &cobra.Command{
		Use: "history RUN | KIND NAME", Short: "Tell what happened to a run, or to the runs of an object",
		Example:           "  pawl history gk3v\n  pawl history gk3v --after 7 -f\n  pawl history etcd c1",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteRunsOrKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			if ref, ok := a.ObjectOf(args, namespace); ok {
				return a.objectHistory(ctx, b, ref)
			}
			r, err := b.Run(ctx, args[0])
			if err != nil {
				return err
			}
			return a.history(ctx, b, r.ID, after, limit, goesOn)
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	f.Int64Var(&after, "after", 0, "only events behind this `number`")
	f.IntVar(&limit, "limit", 0, "at most this `number` of events (default: all)")
	f.BoolVarP(&goesOn, "follow", "f", false, "go on until the run has ended; -o json prints each event by itself")
	return cmd
}

func (a verbs) history(ctx context.Context, b backend.Backend, id string, after int64, limit int, goesOn bool) error {
	all := view.History{Items: []view.Event{}}
	read := func() error {
		for limit <= 0 || len(all.Items) < limit {
			page, err := b.History(ctx, id, after, 1000)
			if err != nil {
				return err
			}
			if limit > 0 {
				page = page[:min(len(page), limit-len(all.Items))]
			}
			if len(page) > 0 {
				after = page[len(page)-1].Seq
			}
			all.Items = append(all.Items, page...)
			switch {
			case a.IsText():
				follow.Follower{App: a.App}.Print(view.HistoryLines(page, a.Style(a.Out)))
			case goesOn:
				for _, e := range page {
					if err := a.next(e); err != nil {
						return err
					}
				}
			}
			if len(page) < 1000 {
				return nil
			}
		}
		return nil
	}
	changes := make(<-chan struct{})
	if goesOn {
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		changes = b.Changes(watching, id)
	}
	for {
		r, err := b.Run(ctx, id)
		if err == nil {
			err = read()
		}
		if err != nil {
			return cli.WatchEnded(ctx, err)
		}
		if !goesOn || r.Phase.Final() {
			break
		}
		select {
		case <-ctx.Done():
			return cli.WatchEnded(ctx, nil)
		case <-changes:
		}
	}
	if a.IsText() || goesOn {
		return nil
	}
	return a.Emit(all, nil, nil)
}

// next prints one document of a stream.
func (a verbs) next(v any) error {
	if a.Flags.Output == "yaml" {
		fmt.Fprintln(a.Out, "---")
	}
	return a.Emit(v, nil, nil)
}

// objectHistory prints the histories of an object's runs, oldest run first.
func (a verbs) objectHistory(ctx context.Context, b backend.Backend, ref control.Ref) error {
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	o, err := objects.Get(ctx, ref)
	if err != nil {
		return a.Elsewhere(ref.Kind, err)
	}
	if o.Kind == view.RolloutKind {
		return a.rolloutHistory(ctx, objects, o)
	}
	if view.IsApplication(o) {
		return a.applicationHistory(ctx, b, objects, o)
	}
	runs, err := runsOf(ctx, b, o, 50)
	if err != nil {
		return err
	}
	all := view.History{Items: []view.Event{}}
	var text strings.Builder
	for i := len(runs) - 1; i >= 0; i-- {
		events, err := b.History(ctx, runs[i].ID, 0, 1000)
		if err != nil {
			return err
		}
		all.Items = append(all.Items, events...)
		text.WriteString(view.Title(runs[i], a.Style(a.Out)) + "\n" + strings.Join(view.HistoryLines(events, a.Style(a.Out)), "\n") + "\n")
	}
	return a.Emit(all, nil, text.String)
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
			if ref, ok := a.ObjectOf(args, namespace); ok {
				return a.watchObject(ctx, b, ref, wait)
			}
			first, err := b.Run(ctx, args[0])
			if err != nil {
				return err
			}
			r, err := follow.Follower{App: a.App}.Watch(ctx, b, follow.Reading{ID: first.ID, Wait: wait}, follow.Follower{App: a.App}.Screen(nil))
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
