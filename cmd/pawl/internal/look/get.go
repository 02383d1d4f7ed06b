package look

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

type getOptions struct {
	namespace, selector, flow, fault, text, subject, parent, cursor, sortBy string
	phases                                                                  []string
	since, until                                                            time.Time
	active, watch, all                                                      bool
	limit                                                                   int
}

func (a verbs) getCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use: "get [KIND [NAME...]]", Short: "List runs, objects of a kind, flows, machines, faults, workers or locks",
		Long: `Without arguments lists runs, newest first. With a kind lists its objects; runs,
flows, machines, faults, workers and locks are kinds of their own. A worker is a process that has
claimed runs; a lock is shared by processes, and names its holder and whom it denies.`,
		Example:           "  pawl get --active\n  pawl get --fault DISK_FULL --since 2h\n  pawl get --text region=eu\n  pawl get etcd -l tier=gold -w\n  pawl get etcd c1 c2 -n prod -o yaml\n  pawl get --sort-by .createdAt -o custom-columns=ID:.id,PHASE:.phase\n  pawl get flows -o jsonpath={.items[*].name}\n  pawl get --active -o wide\n  pawl get workers\n  pawl get locks",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.CompleteKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			how := cli.Looks
			if o.watch { // the store may come to be while it is watched
				how = cli.Reads
			}
			b, err := a.Open(ctx, how)
			if err != nil {
				return err
			}
			defer b.Close()
			return a.get(ctx, b, args, o)
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "only objects of this `namespace` (a name without it means default)")
	f.StringVarP(&o.selector, "selector", "l", "", "only runs or objects with these `labels`: key=value, key!=value, key, !key")
	f.BoolVarP(&o.watch, "watch", "w", false, "go on and print what changes")
	f.StringVar(&o.flow, "flow", "", "only runs of this `flow`")
	f.StringVar(&o.fault, "fault", "", "only runs that are paused by this `code`")
	f.StringVar(&o.text, "text", "", "only runs with this `text` in the id, the flow, the subject or a label (key=value)")
	cli.TimeFlag(cmd, &o.since, "since", "only runs that were created at this `time` or later: 2026-11-01T00:00:00Z, or 5m for five minutes ago")
	cli.TimeFlag(cmd, &o.until, "until", "only runs that were created at this `time` or earlier")
	f.StringVar(&o.subject, "subject", "", "only runs of this `subject`; the uid of an object may be left out")
	f.StringVar(&o.parent, "parent", "", "only runs that this `run` started")
	f.StringSliceVar(&o.phases, "phase", nil, "only runs in these `phases`")
	f.BoolVar(&o.active, "active", false, "only runs that have not ended")
	f.StringVar(&o.sortBy, "sort-by", "", "order what is listed by this `JSONPath` of an entry, such as .phase")
	f.IntVar(&o.limit, "limit", 100, "at most this `number` of entries")
	f.BoolVar(&o.all, "all", false, "all entries, however many")
	f.StringVar(&o.cursor, "cursor", "", "go on behind an earlier page, with its `next`")
	cli.SetCompletions(cmd, map[string]cli.Completion{"flow": a.CompleteFlows, "fault": cli.CompleteCodes})
	return cmd
}

func (a verbs) get(ctx context.Context, b backend.Backend, args []string, o getOptions) error {
	kind := "runs"
	var names []string
	if len(args) > 0 {
		kind, names = args[0], args[1:]
	}
	if before, name, ok := strings.Cut(kind, "/"); ok && len(names) == 0 {
		kind, names = before, []string{name}
	}
	o.namespace = a.ListNamespace(o.namespace)
	lower := strings.ToLower(kind)
	if o.selector != "" && slices.Contains([]string{"flow", "flows", "machine", "machines", "fault", "faults", "worker", "workers", "lock", "locks"}, lower) {
		return cli.Usage.Errorf("%s have no labels: --selector is for runs and objects", strings.TrimSuffix(lower, "s")+"s")
	}
	switch lower {
	case "run", "runs":
		if len(names) > 0 {
			return a.getRuns(ctx, b, names, o)
		}
		return a.repeat(ctx, b, o.watch, func() (any, []string, cli.Drawing, error) { return a.runTable(ctx, b, o) }, endless)
	case "flow", "flows":
		return a.getFlows(ctx, b, names, o)
	case "machine", "machines":
		return a.getMachines(ctx, b, names, o)
	case "fault", "faults":
		return a.getFaults(ctx, b, names, o)
	case "worker", "workers":
		return a.getWorkers(ctx, b, names, o)
	case "lock", "locks":
		return a.getLocks(ctx, b, names, o)
	}
	return a.repeat(ctx, b, o.watch, func() (any, []string, cli.Drawing, error) { return a.objectTable(ctx, b, kind, names, o) }, endless)
}

// endless is the watch of a list.
func endless() bool { return false }

// repeat prints a list, and with --watch again whenever it has changed, until
// it is over.
func (a verbs) repeat(ctx context.Context, b backend.Runs, watch bool, read func() (any, []string, cli.Drawing, error), over func() bool) error {
	if !watch {
		v, names, draw, err := read()
		if err != nil {
			return err
		}
		return a.Emit(v, names, func() string { return draw(a.Style(a.Out)) })
	}
	var printed cli.Printed
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := b.Changes(watching, "")
	for {
		v, names, draw, err := read()
		if err != nil {
			return cli.WatchEnded(ctx, err)
		}
		if text, changed := printed.Next(draw, a.Style(a.Out)); changed {
			if err := a.Emit(v, names, func() string { return text }); err != nil {
				return err
			}
		}
		if over() {
			return nil
		}
		select {
		case <-ctx.Done():
			return cli.WatchEnded(ctx, nil)
		case <-changes:
		}
	}
}

// named reads the entries of some names, in the order of the names or of --sort-by.
func named[T any](names []string, o getOptions, read func(name string) (T, error)) ([]T, error) {
	var all []T
	for _, name := range names {
		one, err := read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, cli.SortBy(all, o.sortBy)
}

// oneOrList is what is printed of named entries: one by itself, several as a list.
func oneOrList[T any](all []T) any {
	if len(all) == 1 {
		return all[0]
	}
	return cli.ListOf(all)
}

func (a verbs) getRuns(ctx context.Context, b backend.Backend, ids []string, o getOptions) error {
	runs, err := named(ids, o, func(id string) (view.Run, error) { return b.Run(ctx, id) })
	if err != nil {
		return err
	}
	return a.Emit(oneOrList(runs), cli.NamesOf(runs, func(r view.Run) string { return r.ID }), func() string { return view.RunTable(runs, time.Now()).Text(a.Style(a.Out)) })
}

func (a verbs) runTable(ctx context.Context, b backend.Backend, o getOptions) (any, []string, cli.Drawing, error) {
	q := runstore.Query{Active: o.active, Flow: o.flow, Fault: fault.Code(o.fault), Text: o.text, Since: o.since, Until: o.until, Parent: o.parent, Limit: o.limit, Cursor: o.cursor}
	var err error
	if q.Labels, err = view.Labels(o.selector); err != nil {
		return nil, nil, nil, err
	}
	for _, p := range o.phases {
		phase, err := parsePhase(p)
		if err != nil {
			return nil, nil, nil, err
		}
		q.Phases = append(q.Phases, phase)
	}
	if o.all || q.Limit <= 0 {
		q.Limit = 500
	}
	q.Subject, q.UID = o.subject, a.uidOf(ctx, b, o.subject)
	all, err := listRuns(ctx, b, q, o.all)
	if err == nil {
		err = cli.SortBy(all.Items, o.sortBy)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	more := ""
	if all.Next != "" {
		more = fmt.Sprintf("more: pawl get --cursor %s, or --all\n", all.Next)
	}
	now := time.Now()
	return all, cli.NamesOf(all.Items, func(r view.Run) string { return r.ID }), func(style view.Style) string {
		if len(all.Items) == 0 {
			return "no runs\n" + more
		}
		return view.RunTable(all.Items, now).Text(style) + more
	}, nil
}

func listRuns(ctx context.Context, b backend.Runs, q runstore.Query, whole bool) (all view.Runs, err error) {
	all.Items, all.Next, err = cli.Pages(q.Cursor, whole, func(cursor string) ([]view.Run, string, error) {
		q.Cursor = cursor
		page, err := b.List(ctx, q)
		return page.Items, page.Next, err
	})
	return all, err
}

// uidOf returns the uid of the object that a subject names without it; empty: there is none.
func (a verbs) uidOf(ctx context.Context, b backend.Backend, subject string) string {
	if strings.Count(subject, "/") != 2 {
		return ""
	}
	objects, err := b.Objects()
	if err != nil {
		return ""
	}
	kind, name, _ := strings.Cut(subject, "/")
	o, err := objects.Get(ctx, a.RefOf(kind, "", name))
	if err != nil {
		return ""
	}
	return o.UID
}

func parsePhase(text string) (runtype.Phase, error) {
	phases := []runtype.Phase{runtype.Queued, runtype.Running, runtype.Waiting, runtype.Paused, runtype.Cancelling, runtype.Cancelled, runtype.Succeeded}
	var names []string
	for _, p := range phases {
		if strings.EqualFold(string(p), text) {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", cli.Usage.Errorf("--phase %s: it is one of %s", text, strings.Join(names, ", "))
}

func (a verbs) objectTable(ctx context.Context, b backend.Backend, kind string, names []string, o getOptions) (any, []string, cli.Drawing, error) {
	kind = a.KindOf(kind)
	objects, err := b.Objects()
	if err != nil {
		return nil, nil, nil, err
	}
	refs := func(all []control.Object) []string {
		return cli.NamesOf(all, func(o control.Object) string { return o.Ref.String() })
	}
	if len(names) > 0 {
		all, err := named(names, o, func(name string) (control.Object, error) {
			return objects.Get(ctx, a.RefOf(kind, o.namespace, name))
		})
		if err != nil {
			return nil, nil, nil, a.Elsewhere(kind, err)
		}
		return oneOrList(all), refs(all), tableOf(all, nowOf(b)).Text, nil
	}
	selector, err := control.ParseSelector(o.selector)
	if err != nil {
		return nil, nil, nil, err
	}
	q := control.Query{Kind: kind, Namespace: o.namespace, Selector: selector, Limit: o.limit, Cursor: o.cursor}
	if kind == "all" || kind == "objects" {
		q.Kind = ""
	}
	if o.all {
		q.Limit = control.MaxPage
	}
	var all control.Page
	all.Items, all.Next, err = cli.Pages(q.Cursor, o.all, func(cursor string) ([]control.Object, string, error) {
		q.Cursor = cursor
		page, err := objects.List(ctx, q)
		return page.Items, page.Next, err
	})
	if err == nil {
		err = cli.SortBy(all.Items, o.sortBy)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	draw, more := tableOf(all.Items, nowOf(b)).Text, ""
	if len(all.Items) == 0 {
		draw = cli.Fixed("no objects of kind " + kind + cli.Suggest(kind, cli.Listed) + a.ClusterHint(kind) + "\n")
	}
	if all.Next != "" {
		more = fmt.Sprintf("more: pawl get %s --cursor %s, or --all\n", kind, all.Next)
	}
	return all, refs(all.Items), func(style view.Style) string { return draw(style) + more }, nil
}

func (a verbs) getFlows(ctx context.Context, b backend.Backend, names []string, o getOptions) error {
	flowNames := func(all []view.Flow) []string { return cli.NamesOf(all, func(f view.Flow) string { return f.Name }) }
	if len(names) > 0 {
		all, err := named(names, o, func(name string) (view.Flow, error) { return b.Flow(ctx, name) })
		if err != nil {
			return err
		}
		return a.Emit(oneOrList(all), flowNames(all), func() string { return view.FlowTable(all).Text(a.Style(a.Out)) })
	}
	flows, err := b.Flows(ctx)
	if err != nil {
		return err
	}
	for i, f := range flows {
		flows[i] = f.Brief()
	}
	if err := cli.SortBy(flows, o.sortBy); err != nil {
		return err
	}
	return a.Emit(view.Flows{Items: flows}, flowNames(flows), func() string {
		if len(flows) == 0 {
			return "no flows are loaded; name files with --flows\n"
		}
		return view.FlowTable(flows).Text(a.Style(a.Out))
	})
}

func (a verbs) getMachines(ctx context.Context, b backend.Backend, names []string, o getOptions) error {
	machineNames := func(all []view.Machine) []string {
		return cli.NamesOf(all, func(m view.Machine) string { return m.Name })
	}
	if len(names) > 0 {
		all, err := named(names, o, func(name string) (view.Machine, error) { return b.Machine(ctx, name) })
		if err != nil {
			return err
		}
		return a.Emit(oneOrList(all), machineNames(all), func() string { return view.MachineTable(all).Text(a.Style(a.Out)) })
	}
	machines, err := b.Machines(ctx)
	if err != nil {
		return err
	}
	for i, m := range machines {
		machines[i] = m.Brief()
	}
	if err := cli.SortBy(machines, o.sortBy); err != nil {
		return err
	}
	return a.Emit(view.Machines{Items: machines}, machineNames(machines), func() string {
		if len(machines) == 0 {
			return "no machines are loaded; name files with --machines\n"
		}
		return view.MachineTable(machines).Text(a.Style(a.Out))
	})
}

func (a verbs) getFaults(ctx context.Context, b backend.Backend, names []string, o getOptions) error {
	codes := func(all []view.Kind) []string {
		return cli.NamesOf(all, func(k view.Kind) string { return string(k.Code) })
	}
	if len(names) > 0 {
		all, err := named(names, o, func(code string) (view.Kind, error) { return b.Fault(ctx, code) })
		if err != nil {
			return err
		}
		return a.Emit(oneOrList(all), codes(all), func() string { return view.KindTable(all).Text(a.Style(a.Out)) })
	}
	kinds, err := b.Faults(ctx)
	if err != nil {
		return err
	}
	if err := cli.SortBy(kinds, o.sortBy); err != nil {
		return err
	}
	return a.Emit(view.Kinds{Items: kinds}, codes(kinds), func() string { return view.KindTable(kinds).Text(a.Style(a.Out)) })
}

func (a verbs) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain CODE", Short: "Explain a fault: title, class, remedy, guide, healer",
		Example:           "  pawl explain RETRIES_EXHAUSTED\n  pawl explain PodLost\n  pawl explain DISK_FULL --flows flows/",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.CompleteCodes,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			explain := func(k view.Kind) error {
				return a.Emit(k, []string{string(k.Code)}, func() string { return view.Explain(k, a.Style(a.Out)) })
			}
			known, ok := fault.Lookup(args[0])
			if ok && (a.Flags.Server == "" || a.Target.Kubernetes) && len(a.Flags.Flows) == 0 {
				return explain(view.OfKind(known, nil)) // no store is needed for what the binary knows
			}
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			k, err := b.Fault(ctx, args[0])
			switch {
			case ok && fault.Of(err) == client.Unreachable: // that is when one reads about faults
				return explain(view.OfKind(known, nil))
			case err != nil:
				return err
			}
			return explain(k)
		}),
	}
}
