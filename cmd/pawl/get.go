package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err == nil && n < 0 {
		err = errors.New("it is negative")
	}
	return n, err
}

type getOptions struct {
	namespace, selector, flow, subject, parent, cursor string
	phases                                             []string
	active, watch, all                                 bool
	limit                                              int
}

// The kinds of `pawl get` that are no objects.
var listed = []string{"runs", "flows", "machines", "faults"}

func (a *app) getCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use: "get [KIND [NAME]]", Short: "List runs, objects of a kind, flows, machines or faults",
		Long: `Without arguments lists runs, newest first. With a kind lists its objects; runs,
flows, machines and faults are kinds of their own.`,
		Example:           "  pawl get --active\n  pawl get etcd -l tier=gold -w\n  pawl get etcd c1 -n prod -o yaml\n  pawl get flows",
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.completeKinds,
		RunE: a.verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			b, err := a.open(ctx, reads)
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
	f.StringVar(&o.subject, "subject", "", "only runs of this `subject`; the uid of an object may be left out")
	f.StringVar(&o.parent, "parent", "", "only runs that this `run` started")
	f.StringSliceVar(&o.phases, "phase", nil, "only runs in these `phases`")
	f.BoolVar(&o.active, "active", false, "only runs that have not ended")
	f.IntVar(&o.limit, "limit", 100, "at most this `number` of entries")
	f.BoolVar(&o.all, "all", false, "all entries, however many")
	f.StringVar(&o.cursor, "cursor", "", "go on behind an earlier page, with its `next`")
	return cmd
}

func (a *app) get(ctx context.Context, b backend.Backend, args []string, o getOptions) error {
	kind := "runs"
	if len(args) > 0 {
		kind = args[0]
	}
	name := ""
	if len(args) == 2 {
		name = args[1]
	}
	if name == "" && strings.Count(kind, "/") > 0 {
		kind, name, _ = strings.Cut(kind, "/")
	}
	o.namespace = a.listNamespace(o.namespace)
	lower := strings.ToLower(kind)
	if o.selector != "" && slices.Contains([]string{"flow", "flows", "machine", "machines", "fault", "faults"}, lower) {
		return Usage.Errorf("%s have no labels: --selector is for runs and objects", strings.TrimSuffix(lower, "s")+"s")
	}
	switch lower {
	case "run", "runs":
		if name != "" {
			return a.getRun(ctx, b, name)
		}
		return a.repeat(ctx, b, o.watch, func() (any, []string, string, error) { return a.runTable(ctx, b, o) }, endless)
	case "flow", "flows":
		return a.getFlows(ctx, b, name)
	case "machine", "machines":
		return a.getMachines(ctx, b, name)
	case "fault", "faults":
		return a.getFaults(ctx, b, name)
	}
	return a.repeat(ctx, b, o.watch, func() (any, []string, string, error) { return a.objectTable(ctx, b, kind, name, o) }, endless)
}

// endless is the watch of a list.
func endless() bool { return false }

// repeat prints a list, and with --watch again whenever it has changed, until
// it is over.
func (a *app) repeat(ctx context.Context, b backend.Runs, watch bool, read func() (any, []string, string, error), over func() bool) error {
	if !watch {
		v, names, text, err := read()
		if err != nil {
			return err
		}
		return a.emit(v, names, func() string { return text })
	}
	before := ""
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := b.Changes(watching, "")
	for {
		v, names, text, err := read()
		if err != nil {
			return watchEnded(ctx, err)
		}
		if rendered := withoutAge(text); rendered != before {
			if err := a.emit(v, names, func() string { return newLines(before, text) }); err != nil {
				return err
			}
			before = rendered
		}
		if over() {
			return nil
		}
		select {
		case <-ctx.Done():
			return watchEnded(ctx, nil)
		case <-changes:
		}
	}
}

// watchEnded is the end of a watch: --timeout is an end as good as any.
func watchEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // see above
	}
	return err
}

// withoutAge is a table without its times, which change by themselves.
func withoutAge(text string) string {
	lines := strings.Split(text, "\n")
	at := strings.Index(lines[0], "AGE")
	if at < 0 {
		return text
	}
	for i, line := range lines {
		runes := []rune(line)
		if len(runes) > at {
			end := at
			for end < len(runes) && runes[end] != ' ' {
				end++
			}
			lines[i] = string(runes[:at]) + string(runes[end:])
		}
	}
	return strings.Join(lines, "\n")
}

// newLines leaves out the rows that were printed before.
func newLines(before, text string) string {
	if before == "" {
		return text
	}
	known := strings.Split(before, "\n")
	rendered := strings.Split(withoutAge(text), "\n")
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if line != "" && !slices.Contains(known, rendered[i]) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func (a *app) getRun(ctx context.Context, b backend.Backend, id string) error {
	r, err := b.Run(ctx, id)
	if err != nil {
		return err
	}
	return a.emit(r, []string{r.ID}, func() string { return view.RunTable([]view.Run{r}, time.Now()).String() })
}

func (a *app) runTable(ctx context.Context, b backend.Backend, o getOptions) (any, []string, string, error) {
	q := runstore.Query{Active: o.active, Flow: o.flow, Parent: o.parent, Limit: o.limit, Cursor: o.cursor}
	var err error
	if q.Labels, err = view.Labels(o.selector); err != nil {
		return nil, nil, "", err
	}
	for _, p := range o.phases {
		phase, err := parsePhase(p)
		if err != nil {
			return nil, nil, "", err
		}
		q.Phases = append(q.Phases, phase)
	}
	if o.all || q.Limit <= 0 {
		q.Limit = 500
	}
	all := view.Runs{Items: []view.Run{}}
	subjects := a.subjectsOf(ctx, b, o.subject)
	for _, q.Subject = range subjects {
		found, err := listRuns(ctx, b, q, o.all || len(subjects) > 1) // no cursor stands in two lists
		if err != nil {
			return nil, nil, "", err
		}
		all.Items, all.Next = append(all.Items, found.Items...), found.Next
	}
	slices.SortStableFunc(all.Items, func(x, y view.Run) int { return y.CreatedAt.Compare(x.CreatedAt) })
	more := ""
	if all.Next != "" {
		more = fmt.Sprintf("more: pawl get --cursor %s, or --all\n", all.Next)
	}
	if len(subjects) > 1 && !o.all && len(all.Items) > q.Limit {
		all.Items, more = all.Items[:q.Limit], fmt.Sprintf("more: pawl get --subject %s --all\n", o.subject)
	}
	text := view.RunTable(all.Items, time.Now()).String()
	if len(all.Items) == 0 {
		text = "no runs\n"
	}
	return all, namesOf(all.Items, func(r view.Run) string { return r.ID }), text + more, nil
}

func listRuns(ctx context.Context, b backend.Runs, q runstore.Query, whole bool) (all view.Runs, err error) {
	all.Items, all.Next, err = pages(q.Cursor, whole, func(cursor string) ([]view.Run, string, error) {
		q.Cursor = cursor
		page, err := b.List(ctx, q)
		return page.Items, page.Next, err
	})
	return all, err
}

// pages reads one page of a list, or the whole of it.
func pages[T any](cursor string, whole bool, read func(cursor string) ([]T, string, error)) (all []T, next string, err error) {
	all = []T{}
	for next = cursor; ; {
		var page []T
		if page, next, err = read(next); err != nil {
			return nil, "", err
		}
		all = append(all, page...)
		if !whole || next == "" {
			return all, next, nil
		}
	}
}

// list is a list in the answer of a verb.
type list[T any] struct {
	Items []T `json:"items"`
}

// listOf returns a list that is [] if it is empty.
func listOf[T any](items []T) list[T] {
	if items == nil {
		items = []T{}
	}
	return list[T]{items}
}

// namesOf are what -o name prints.
func namesOf[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = name(one)
	}
	return names
}

// subjectsOf are the names that runs may have for a subject: an object's runs
// carry its uid, and people leave it out.
func (a *app) subjectsOf(ctx context.Context, b backend.Backend, subject string) []string {
	if strings.Count(subject, "/") != 2 {
		return []string{subject}
	}
	objects, err := b.Objects()
	if err != nil {
		return []string{subject}
	}
	kind, name, _ := strings.Cut(subject, "/")
	o, err := objects.Get(ctx, a.refOf(kind, "", name))
	if err != nil {
		return []string{subject}
	}
	return subjectNames(o)
}

// subjectNames are the subjects of an object's runs: those that its machine
// started, and those that people did.
func subjectNames(o control.Object) []string {
	return []string{o.Ref.String() + "/" + o.UID, o.Ref.String()}
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
	return "", Usage.Errorf("--phase %s: it is one of %s", text, strings.Join(names, ", "))
}

func (a *app) objectTable(ctx context.Context, b backend.Backend, kind, name string, o getOptions) (any, []string, string, error) {
	objects, err := b.Objects()
	if err != nil {
		return nil, nil, "", err
	}
	if name != "" {
		object, err := objects.Get(ctx, a.refOf(kind, o.namespace, name))
		if err != nil {
			return nil, nil, "", err
		}
		return object, []string{object.Ref.String()}, view.ObjectTable([]control.Object{object}, time.Now()).String(), nil
	}
	selector, err := control.ParseSelector(o.selector)
	if err != nil {
		return nil, nil, "", err
	}
	q := control.Query{Kind: kind, Namespace: o.namespace, Selector: selector, Limit: o.limit, Cursor: o.cursor}
	if kind == "all" || kind == "objects" {
		q.Kind = ""
	}
	if o.all {
		q.Limit = control.MaxPage
	}
	var all control.Page
	all.Items, all.Next, err = pages(q.Cursor, o.all, func(cursor string) ([]control.Object, string, error) {
		q.Cursor = cursor
		page, err := objects.List(ctx, q)
		return page.Items, page.Next, err
	})
	if err != nil {
		return nil, nil, "", err
	}
	text := view.ObjectTable(all.Items, time.Now()).String()
	if len(all.Items) == 0 {
		text = "no objects of kind " + kind + suggest(kind, listed) + "\n"
	}
	if all.Next != "" {
		text += fmt.Sprintf("more: pawl get %s --cursor %s, or --all\n", kind, all.Next)
	}
	return all, namesOf(all.Items, func(o control.Object) string { return o.Ref.String() }), text, nil
}

func (a *app) getFlows(ctx context.Context, b backend.Backend, name string) error {
	if name != "" {
		f, err := b.Flow(ctx, name)
		if err != nil {
			return err
		}
		return a.emit(f, []string{f.Name}, func() string { return view.FlowTable([]view.Flow{f}).String() })
	}
	flows, err := b.Flows(ctx)
	if err != nil {
		return err
	}
	for i, f := range flows {
		flows[i] = f.Brief()
	}
	return a.emit(view.Flows{Items: flows}, namesOf(flows, func(f view.Flow) string { return f.Name }), func() string {
		if len(flows) == 0 {
			return "no flows are loaded; name files with --flows\n"
		}
		return view.FlowTable(flows).String()
	})
}

func (a *app) getMachines(ctx context.Context, b backend.Backend, name string) error {
	if a.flags.server != "" && !a.target.kubernetes {
		return LocalOnly.Errorf("a server does not list its machines: name their files, as in pawl get machines --machines DIR")
	}
	machines, err := b.Machines(ctx)
	if err != nil {
		return err
	}
	type machineView struct {
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		Initial string `json:"initial"`
		States  int    `json:"states"`
		File    string `json:"file,omitempty"`
	}
	items, names := []machineView{}, []string{}
	t := view.Table{Head: []string{"NAME", "KIND", "INITIAL", "STATES", "FILE"}}
	for _, m := range machines {
		if name != "" && m.Table.Name != name {
			continue
		}
		v := machineView{Name: m.Table.Name, Kind: m.Table.Kind, Initial: string(m.Table.Initial), States: len(m.Table.States), File: m.File}
		items, names = append(items, v), append(names, v.Name)
		t.Rows = append(t.Rows, []string{v.Name, v.Kind, v.Initial, strconv.Itoa(v.States), v.File})
	}
	if name != "" && len(items) == 0 {
		return backend.MachineUnknown.Errorf("no machine %s is loaded", name)
	}
	return a.emit(listOf(items), names, func() string {
		if len(items) == 0 {
			return "no machines are loaded; name files with --machines\n"
		}
		return t.String()
	})
}

func (a *app) getFaults(ctx context.Context, b backend.Backend, code string) error {
	if code != "" {
		k, err := b.Fault(ctx, code)
		if err != nil {
			return err
		}
		return a.emit(k, []string{string(k.Code)}, func() string { return view.KindTable([]view.Kind{k}).String() })
	}
	kinds, err := b.Faults(ctx)
	if err != nil {
		return err
	}
	return a.emit(view.Kinds{Items: kinds}, namesOf(kinds, func(k view.Kind) string { return string(k.Code) }), func() string { return view.KindTable(kinds).String() })
}

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain CODE", Short: "Explain a fault: title, class, remedy, guide, healer",
		Example:           "  pawl explain RETRIES_EXHAUSTED\n  pawl explain PodLost\n  pawl explain DISK_FULL --flows flows/",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeCodes,
		RunE: a.verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if (a.flags.server == "" || a.target.kubernetes) && len(a.flags.flows) == 0 {
				if k, ok := fault.Lookup(args[0]); ok { // no store is needed for what the binary knows
					v := view.OfKind(k, nil)
					return a.emit(v, []string{args[0]}, func() string { return view.Explain(v, a.style(a.out)) })
				}
			}
			b, err := a.open(ctx, reads)
			if err != nil {
				return err
			}
			defer b.Close()
			k, err := b.Fault(ctx, args[0])
			if err != nil {
				return err
			}
			return a.emit(k, []string{string(k.Code)}, func() string { return view.Explain(k, a.style(a.out)) })
		}),
	}
}
