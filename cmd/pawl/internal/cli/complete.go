package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// completeWithin is how long a completion may take.
const completeWithin = 2 * time.Second

// OpenForCompletion opens the backend of a completion; without an answer there are no suggestions.
func OpenForCompletion[B io.Closer](a *App, cmd *cobra.Command, open func(ctx context.Context) (B, error), read func(ctx context.Context, b B) []string) ([]string, cobra.ShellCompDirective) {
	base := cmd.Context()
	if base == nil {
		base = context.Background()
	}
	ctx, cancel := context.WithTimeout(base, completeWithin)
	defer cancel()
	a.completes = true
	if a.configured(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	b, err := open(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer b.Close()
	return read(ctx, b), cobra.ShellCompDirectiveNoFileComp
}

// completing reads suggestions from the backend.
func (a *App) completing(cmd *cobra.Command, do func(ctx context.Context, b backend.Backend) []string) ([]string, cobra.ShellCompDirective) {
	return OpenForCompletion(a, cmd, func(ctx context.Context) (backend.Backend, error) { return a.Open(ctx, Looks) }, do)
}

func runIDs(ctx context.Context, b backend.Backend) []string {
	page, err := b.List(ctx, runstore.Query{Limit: 50})
	if err != nil {
		return nil
	}
	var ids, out []string
	for _, r := range page.Items {
		ids = append(ids, r.ID)
	}
	for _, r := range page.Items {
		out = append(out, view.Short(r.ID, ids...)+"\t"+r.Flow+" "+r.Subject+" "+string(r.Phase))
	}
	return out
}

// kindNames returns the kinds of objects.
func kindNames(ctx context.Context, b backend.Backend) []string {
	if known, ok := b.(interface{ Kinds() []string }); ok {
		return known.Kinds()
	}
	objects, err := b.Objects()
	if err != nil {
		return nil
	}
	var kinds []string
	page, err := objects.List(ctx, control.Query{Kind: "", Limit: control.MaxPage})
	if err != nil {
		return nil
	}
	for _, o := range page.Items {
		kinds = append(kinds, o.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// namespacesOf returns the namespaces of objects.
func namespacesOf(ctx context.Context, b backend.Backend) []string {
	objects, err := b.Objects()
	if err != nil {
		return nil
	}
	page, err := objects.List(ctx, control.Query{Limit: control.MaxPage})
	if err != nil {
		return nil
	}
	names := NamesOf(page.Items, func(o control.Object) string { return o.Namespace })
	slices.Sort(names)
	return slices.Compact(names)
}

func (a *App) objectNames(ctx context.Context, b backend.Backend, kind string) []string {
	objects, err := b.Objects()
	if err != nil {
		return nil
	}
	page, err := objects.List(ctx, control.Query{Kind: a.KindOf(kind), Limit: control.MaxPage})
	if err != nil {
		return nil
	}
	var names []string
	for _, o := range page.Items {
		name := o.Name
		if home := a.RefOf("", a.Target.NamespaceFlag, "").Namespace; o.Namespace != home {
			name = o.Namespace + "/" + o.Name
		}
		names = append(names, name)
	}
	return names
}

// CompleteRuns suggests ids of runs.
func (a *App) CompleteRuns(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completing(cmd, runIDs)
}

// CompleteRunSteps suggests a run, then those of its steps that are not settled.
func (a *App) CompleteRunSteps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeSteps(cmd, args, func(s view.Step) bool { return !s.Phase.Settled() })
}

// CompleteLogs suggests a run and its steps, or a kind and the names of its objects.
func (a *App) CompleteLogs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	any := func(view.Step) bool { return true }
	switch {
	case len(args) == 0:
		words, directive := a.CompleteRunsOrKinds(cmd, args, typed)
		return append(words, "run"), directive
	case isRun(args[0]):
		return a.completeSteps(cmd, args[1:], any)
	case len(args) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	steps, directive := a.completeSteps(cmd, args, any)
	if len(steps) > 0 {
		return steps, directive
	}
	return a.CompleteKinds(cmd, args, typed)
}

func (a *App) completeSteps(cmd *cobra.Command, args []string, wanted func(view.Step) bool) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completing(cmd, runIDs)
	case 1:
		return a.completing(cmd, func(ctx context.Context, b backend.Backend) []string {
			r, err := b.Run(ctx, args[0])
			if err != nil {
				return nil
			}
			var steps []string
			for _, s := range r.Steps {
				if wanted(s) {
					steps = append(steps, s.Name+"\t"+string(s.Phase))
				}
			}
			return steps
		})
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// CompleteKinds suggests a kind, then the names of its objects.
func (a *App) CompleteKinds(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completing(cmd, func(ctx context.Context, b backend.Backend) []string { return append(kindNames(ctx, b), Listed...) })
	case 1:
		return a.completing(cmd, func(ctx context.Context, b backend.Backend) []string { return a.objectNames(ctx, b, args[0]) })
	}
	if cmd.ValidateArgs(append(slices.Clone(args), "another")) != nil { // the verb takes no more
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completing(cmd, func(ctx context.Context, b backend.Backend) []string {
		return slices.DeleteFunc(a.objectNames(ctx, b, args[0]), func(name string) bool { return slices.Contains(args[1:], name) })
	})
}

// CompleteRunsOrKinds suggests a run or a kind, then names of objects.
func (a *App) CompleteRunsOrKinds(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completing(cmd, func(ctx context.Context, b backend.Backend) []string {
			return append(runIDs(ctx, b), kindNames(ctx, b)...)
		})
	}
	return a.CompleteKinds(cmd, args, "")
}

// CompleteFlows suggests flows and files.
func (a *App) CompleteFlows(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := a.completing(cmd, func(ctx context.Context, b backend.Backend) []string {
		flows, err := b.Flows(ctx)
		if err != nil {
			return nil
		}
		var names []string
		for _, f := range flows {
			names = append(names, f.Name)
		}
		return names
	})
	return names, cobra.ShellCompDirectiveDefault // files too
}

// CompleteCodes suggests codes of faults.
func CompleteCodes(_ *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	var codes []string
	if len(args) == 0 {
		for _, k := range fault.All() {
			if strings.HasPrefix(string(k.Code), strings.ToUpper(start)) {
				codes = append(codes, string(k.Code)+"\t"+k.Title)
			}
		}
	}
	return codes, cobra.ShellCompDirectiveNoFileComp
}

// Completion suggests words for an argument or a flag.
type Completion = func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective)

// FixedCompletion suggests a fixed list.
func FixedCompletion[S ~string](all ...S) Completion {
	texts := NamesOf(all, func(s S) string { return string(s) })
	return cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)
}

// SetCompletions sets the completions of a command's flags.
func SetCompletions(cmd *cobra.Command, flags map[string]Completion) {
	for name, of := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, of); err != nil {
			panic(err) // there is no such flag
		}
	}
}
