package look

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/follow"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/view"
)

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
			id, isRun := cli.RunOf(args)
			if !isRun {
				ref, _ := a.ObjectOf(args, namespace)
				return a.objectHistory(ctx, b, ref)
			}
			r, err := b.Run(ctx, id)
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
			page, err := b.History(ctx, id, after, historyPage)
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
			if len(page) < historyPage {
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
		events, err := b.History(ctx, runs[i].ID, 0, historyPage)
		if err != nil {
			return err
		}
		all.Items = append(all.Items, events...)
		text.WriteString(view.Title(runs[i], a.Style(a.Out)) + "\n" + strings.Join(view.HistoryLines(events, a.Style(a.Out)), "\n") + "\n")
	}
	return a.Emit(all, nil, text.String)
}

// wholeHistory reads all events of a run.
func wholeHistory(ctx context.Context, b backend.Runs, id string) (all []view.Event, err error) {
	for after := int64(0); ; {
		page, err := b.History(ctx, id, after, historyPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < historyPage {
			return all, nil
		}
		after = page[len(page)-1].Seq
	}
}

// historyPage is the largest page of events.
const historyPage = 1000
