package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 2 * time.Second

// firstRuns is how many runs the text of a plan names.
const firstRuns = 5

// manyText is the part of the help of each verb that takes a selection.
const manyText = `
With --flow, --fault, --phase, --selector, --text or --since instead of a RUN it is
a bulk: the same request to all runs that are selected. Its plan comes first, and a question; --yes
answers it. A server carries the bulk out, also when this command has ended; on a
local store this process does. pawl describe bulk NAME is its record.`

// selection are the flags that select runs for a bulk.
type selection struct {
	flow, fault, selector string
	text                  string
	since, until          time.Time
	phases                []string
	confirmation          cli.Confirmation
	detach                bool

	many bool // runs are selected, and none is named
}

func (o *selection) flags(a verbs, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.flow, "flow", "", "all runs of this `flow`")
	f.StringVar(&o.fault, "fault", "", "all runs that are paused with this `code`")
	f.StringSliceVar(&o.phases, "phase", nil, "all runs in these `phases` (default: those that the verb is for)")
	f.StringVarP(&o.selector, "selector", "l", "", "all runs with these `labels`: key=value, key!=value, key, !key")
	f.StringVar(&o.text, "text", "", "all runs with this `text` in the id, the flow, the subject or a label (key=value)")
	cli.TimeFlag(cmd, &o.since, "since", "all runs that were created at this `time` or later: 2026-11-01T00:00:00Z, or 5m for five minutes ago")
	cli.TimeFlag(cmd, &o.until, "until", "of these, only runs that were created at this `time` or earlier")
	f.BoolVarP(&o.confirmation.Yes, "yes", "y", false, "do not ask before a bulk")
	f.BoolVar(&o.confirmation.Dry, "dry-run", false, "only print the plan of a bulk")
	f.BoolVarP(&o.detach, "detach", "d", false, "only order a bulk, and do not wait for its end")
	phases := []string{string(runtype.Queued), string(runtype.Running), string(runtype.Waiting), string(runtype.Paused), string(runtype.Cancelling)}
	cli.SetCompletions(cmd, map[string]cli.Completion{"flow": a.CompleteFlows, "fault": cli.CompleteCodes, "phase": cli.FixedCompletion(phases...)})
}

// args takes so many arguments with a run, and from least to most of them with a selection.
func (o *selection) args(one, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		o.many = o.flow != "" || o.fault != "" || o.selector != "" || len(o.phases) > 0 || o.text != "" || !o.since.IsZero()
		switch {
		case !o.many && (o.confirmation.Dry || o.confirmation.Yes || o.detach || !o.until.IsZero()):
			return cli.Usage.Errorf("--yes, --dry-run, --detach and --until are for many runs: select them with --flow, --fault, --phase, --selector, --text or --since")
		case !o.many:
			return cobra.ExactArgs(one)(cmd, args)
		case len(args) < least || len(args) > most:
			return cli.Usage.Errorf("the runs are selected by --flow, --fault, --phase, --selector, --text and --since: leave out the RUN, or these flags")
		}
		for _, name := range []string{"wait", "revision"} {
			if cmd.Flags().Changed(name) {
				return cli.Usage.Errorf("--%s is for one run, and these flags select many", name)
			}
		}
		return nil
	}
}

// bulk sends a request to all runs of a selection: it shows the plan, asks, orders the bulk, and follows it.
func (a verbs) bulk(ctx context.Context, o selection, by requestOptions, spec bulk.Spec) error {
	spec.Actor, spec.Reason = a.Actor(), by.reason
	spec.Flow, spec.Fault, spec.Selector = o.flow, fault.Code(o.fault), o.selector
	spec.Text, spec.CreatedAfter, spec.CreatedBefore = o.text, o.since, o.until
	for _, text := range o.phases {
		phase := runtype.Phase(text)
		for _, p := range []runtype.Phase{runtype.Queued, runtype.Running, runtype.Waiting, runtype.Paused, runtype.Cancelling, runtype.Cancelled, runtype.Succeeded} {
			if strings.EqualFold(string(p), text) {
				phase = p
			}
		}
		spec.Phases = append(spec.Phases, phase)
	}
	if err := spec.Check(); err != nil {
		return bulk.Invalid.Errorf("%w", err)
	}
	how := cli.Sends
	if o.confirmation.Dry || a.StoreAbsent() {
		how = cli.Looks
	}
	b, err := a.Open(ctx, how)
	if err != nil {
		return err
	}
	defer b.Close()
	plans, ok := b.(backend.Bulks)
	if !ok {
		return cli.Usage.Errorf("a Kubernetes cluster keeps no bulks: name the runs one by one")
	}
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	ref := control.Ref{Kind: bulk.Kind, Namespace: "default", Name: "b" + shortHash(newRequestID())}
	if by.requestID != "" {
		ref.Name = "b" + shortHash(by.requestID)
		if _, err := objects.Get(ctx, ref); err == nil { // it was ordered before
			return a.followBulk(ctx, b, ref)
		} else if fault.Of(err) != control.NotFound {
			return err
		}
	}
	plan, err := plans.PlanBulk(ctx, spec)
	if err != nil {
		return err
	}
	if o.confirmation.Dry || plan.Runs == 0 {
		return a.Emit(plan, cli.NamesOf(plan.First, func(r view.Run) string { return r.ID }), func() string { return planText(spec.Verb, plan, a.Style(a.Out)) })
	}
	if a.IsText() {
		fmt.Fprint(a.Err, planText(spec.Verb, plan, a.Style(a.Err)))
	}
	if err := a.Confirm(o.confirmation); err != nil {
		return err
	}
	if spec.Planned = plan.Runs; spec.CreatedBefore.IsZero() {
		spec.CreatedBefore = plan.At
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	ordered, err := objects.Apply(ctx, control.Object{Ref: ref, Spec: raw, Revision: control.MustNotExist})
	if err != nil {
		return err
	}
	if o.detach {
		if b.Alone() {
			defer a.Hint("nobody works on the store now; go on with: pawl bulk resume %s", ref.Name)
		}
		return a.Emit(ordered, []string{ref.String()}, func() string { return "accepted " + ref.String() + "\n" })
	}
	return a.followBulk(ctx, b, ref)
}

// planText is the plan of a bulk for people.
func planText(verb runtype.Verb, plan view.BulkPlan, style view.Style) string {
	if plan.Runs == 0 {
		return "no runs match\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s:\n", verb, cli.CountText(plan.Runs, "run"))
	b.WriteString(view.TableOf(plan.Groups, []view.Column[bulk.Group]{
		{Head: "RUNS", Cell: func(g bulk.Group) string { return strconv.Itoa(g.Runs) }},
		{Head: "FLOW", Cell: func(g bulk.Group) string { return g.Flow }},
		{Head: "PHASE", Cell: func(g bulk.Group) string { return string(g.Phase) }},
		{Head: "FAULT", Cell: func(g bulk.Group) string { return cmp.Or(string(g.Fault), "-") }},
	}).Text(style))
	first := plan.First[:min(len(plan.First), firstRuns)]
	fmt.Fprintf(&b, "the oldest of them:\n%s", view.RunTable(first, time.Now()).Text(style))
	return b.String()
}

// followBulk shows the progress of a bulk until it has ended, and carries it out if nobody else does.
func (a verbs) followBulk(ctx context.Context, b backend.Backend, ref control.Ref) error {
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	worked := make(chan error, 1)
	local, here := b.(*backend.Local)
	if here = here && local.Alone(); here {
		var worker sync.WaitGroup
		worker.Go(func() { worked <- local.CarryOut(watching, ref) })
		defer func() {
			cancel()
			worker.Wait()
		}()
	}
	changes := b.Changes(watching, "")
	told := time.Now()
	for {
		o, err := objects.Get(ctx, ref)
		if fault.Of(err) == control.NotFound {
			return control.NotFound.Errorf("%s was deleted: it asks no more runs", ref)
		}
		if err != nil {
			return a.unfinished(ctx, err, ref, here)
		}
		status, err := bulk.StatusOf(o)
		if err != nil {
			return err
		}
		_, paused := o.Annotations[bulk.PauseAnnotation]
		if status.Ended() || paused && status.State == bulk.StatePaused {
			return a.ended(o, status)
		}
		if time.Since(told) >= progressEvery {
			told = time.Now()
			a.Hint("%s", bulkLine(o, status))
		}
		select {
		case <-ctx.Done():
			return a.unfinished(ctx, ctx.Err(), ref, here)
		case err := <-worked:
			worked = nil
			if err != nil {
				return a.unfinished(ctx, err, ref, here)
			}
		case <-changes:
		}
	}
}

// unfinished says how a bulk goes on whose end nobody has waited for.
func (a verbs) unfinished(ctx context.Context, err error, ref control.Ref, here bool) error {
	if here {
		a.Hint("%s has stopped; go on with: pawl bulk resume %s", ref, ref.Name)
	} else {
		a.Hint("%s goes on; see: pawl describe bulk %s", ref, ref.Name)
	}
	if ctx.Err() != nil {
		return cli.End(view.ExitActive)
	}
	return err
}

// bulkLine is how far a bulk is.
func bulkLine(o control.Object, status bulk.Status) string {
	spec, _ := bulk.Parse(o.Spec) // the worker reports a wrong one
	line := fmt.Sprintf("%s: %d accepted", spec.Verb, status.Done)
	if spec.Planned > 0 {
		line = fmt.Sprintf("%s: %d of %s accepted", spec.Verb, status.Done, cli.CountText(spec.Planned, "run"))
	}
	if status.Refused > 0 {
		line += fmt.Sprintf(", %d refused", status.Refused)
	}
	return line
}

// ended prints the result of a bulk. Its error says whether runs have refused.
func (a verbs) ended(o control.Object, status bulk.Status) error {
	err := a.Emit(o, []string{o.Ref.String()}, func() string {
		lines := []string{bulkLine(o, status) + "  (pawl describe bulk " + o.Name + ")"}
		for _, r := range status.Refusals {
			lines = append(lines, fmt.Sprintf("  %d  %s  %s", r.Count, r.Code, r.Message))
		}
		return strings.Join(lines, "\n") + "\n"
	})
	switch {
	case err != nil:
		return err
	case status.State == bulk.StatePaused:
		a.Hint("%s is paused: %s; go on with: pawl bulk resume %s", o.Ref, o.Annotations[bulk.PauseAnnotation], o.Name)
		return cli.End(view.ExitActive)
	case status.Fault == nil:
		return nil
	}
	kind := bulk.Refused
	if status.State == bulk.StateInvalid {
		kind = bulk.Invalid
	}
	return kind.Errorf("%s: %s", o.Ref, status.Fault.Message)
}

func (a verbs) bulkCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "bulk", Short: "Steer a request to many runs: pause, resume",
		Long: `A bulk is an object of kind Bulk: a verb, the runs that it is for, and the record of
what became of them. resume, pause, cancel, skip and signal order one if they get
--flow, --fault, --phase, --selector, --text or --since instead of a run.

A paused bulk asks no more runs until it is resumed; pawl delete bulk NAME ends it for
good. resume also goes on with a bulk of a local store whose process was killed. Each
run is asked once, however often a bulk is stopped.`,
		Example: "  pawl get bulk\n  pawl describe bulk b7k2mqxa\n  pawl bulk pause b7k2mqxa --reason 'too many at once'\n  pawl bulk resume b7k2mqxa",
	}
	var reason string
	pause := a.bulkVerb("pause", "Ask no more runs until the bulk is resumed", "  pawl bulk pause b7k2mqxa --reason 'too many at once'",
		func(ctx context.Context, _ backend.Backend, objects control.Objects, ref control.Ref) error {
			why := "by " + a.Actor()
			if reason != "" {
				why += ": " + reason
			}
			o, err := control.Modify(ctx, objects, ref, func(o *control.Object) error {
				if o.Annotations == nil {
					o.Annotations = map[string]string{}
				}
				if _, already := o.Annotations[bulk.PauseAnnotation]; !already {
					o.Annotations[bulk.PauseAnnotation] = why
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.Emit(o, []string{ref.String()}, func() string { return ref.String() + " paused\n" })
		})
	pause.Flags().StringVar(&reason, "reason", "", "`text` for describe")
	resume := a.bulkVerb("resume", "Go on with a bulk that is paused, or whose process was killed", "  pawl bulk resume b7k2mqxa",
		func(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error {
			o, err := control.Modify(ctx, objects, ref, func(o *control.Object) error {
				delete(o.Annotations, bulk.PauseAnnotation)
				return nil
			})
			if err != nil {
				return err
			}
			return a.followBulk(ctx, b, o.Ref)
		})
	group.AddCommand(pause, resume)
	return group
}

// bulkVerb makes a verb of one bulk.
func (a verbs) bulkVerb(name, short, example string, do func(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short, Example: example, Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return a.CompleteKinds(cmd, slices.Concat([]string{bulk.Kind}, args), typed)
		},
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			how := cli.Sends
			if a.StoreAbsent() {
				how = cli.Looks
			}
			b, err := a.Open(ctx, how)
			if err != nil {
				return err
			}
			defer b.Close()
			objects, err := b.Objects()
			if err != nil {
				return err
			}
			return do(ctx, b, objects, a.RefOf(bulk.Kind, "", args[0]))
		}),
	}
}
