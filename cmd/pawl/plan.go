package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func (a *app) planCommand() *cobra.Command {
	var in inputOptions
	var files []string
	var namespace string
	cmd := &cobra.Command{
		Use: "plan FILE | FLOW | KIND NAME | -f MANIFEST", Short: "Say what would happen; nothing is written",
		Long: `Of a flow: which steps a run with this input would execute or skip. Of an object:
which transition its machine would choose, why, and what was refused, or what each
link of its operator's chain would do; with -f as if the manifest had been applied.`,
		Example: "  pawl plan create.yaml --input readers=0\n  pawl plan etcd c1\n  pawl plan -f cluster.yaml --machines machines/ --flows flows/",
		Args:    cobra.MaximumNArgs(2),
		RunE: a.verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			switch {
			case len(files) > 0 && len(args) == 0:
				return a.planManifests(ctx, files, namespace)
			case len(files) > 0 || len(args) == 0:
				return Usage.Errorf("give a flow, KIND NAME, or -f MANIFEST")
			case len(args) == 2 || strings.Count(args[0], "/") == 2 && !isFile(args[0]):
				return a.planObject(ctx, args, namespace)
			case isFile(args[0]):
				return a.planFile(ctx, args[0], in)
			}
			return a.planFlow(ctx, args[0], in)
		}),
	}
	f := cmd.Flags()
	in.flags(f)
	f.StringSliceVarP(&files, "filename", "f", nil, "`manifest` of an object, - for standard input")
	f.StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	return cmd
}

func (a *app) emitPlan(p view.Plan) error {
	return a.emit(p, []string{p.Flow}, func() string { return strings.Join(view.PlanLines(p), "\n") + "\n" })
}

// planFile plans a flow of a file, whose actions need not be known here.
func (a *app) planFile(_ context.Context, path string, in inputOptions) error {
	name, err := flowName(path)
	if err != nil {
		return err
	}
	lib, err := loadFiles(append([]string{path}, a.flags.flows...))
	if err != nil {
		return err
	}
	f, _ := lib.flow(name)
	rendered, err := view.OfFlow(f)
	if err != nil {
		return err
	}
	input, err := in.input(rendered.Input, a.in)
	if err != nil {
		return err
	}
	engine, err := workflow.New(runstore.NewMemory(), lib.Flows, workflow.Options{Actions: library.WithStubs(lib.Flows, knownActions()), Logger: a.logger()})
	if err != nil {
		return err
	}
	p, err := engine.Plan(name, input)
	if err != nil {
		return err
	}
	return a.emitPlan(view.OfPlan(p))
}

// planFlow plans a loaded flow.
func (a *app) planFlow(ctx context.Context, name string, in inputOptions) error {
	b, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer b.Close()
	f, err := b.Flow(ctx, name)
	if err != nil {
		return err
	}
	input, err := in.input(f.Input, a.in)
	if err != nil {
		return err
	}
	p, err := b.PlanFlow(ctx, name, input)
	if err != nil {
		return err
	}
	return a.emitPlan(p)
}

func (a *app) planObject(ctx context.Context, args []string, namespace string) error {
	ref, ok := a.objectOf(args, namespace)
	if !ok {
		return Usage.Errorf("%s is no object: it is KIND NAME", args[0])
	}
	b, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer b.Close()
	p, err := b.PlanObject(ctx, ref, nil)
	if err != nil {
		return err
	}
	return a.emit(p, []string{p.Object}, func() string { return machinePlanText(p) })
}

func (a *app) planManifests(ctx context.Context, files []string, namespace string) error {
	manifests, err := readManifests(files, a.in)
	if err != nil {
		return err
	}
	b, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer b.Close()
	plans := []machine.Plan{}
	var text strings.Builder
	a.inNamespace(manifests, namespace)
	if err := a.admit(ctx, b, manifests); err != nil {
		return err
	}
	for _, m := range manifests {
		p, err := b.PlanObject(ctx, m.object.Ref, &m.object)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", m.file, m.line, err)
		}
		plans = append(plans, p)
		text.WriteString(machinePlanText(p))
	}
	if len(plans) == 1 {
		return a.emit(plans[0], []string{plans[0].Object}, text.String)
	}
	return a.emit(listOf(plans), nil, text.String)
}

// machinePlanText describes the steps that a machine would take and the rules it considered, or
// the links of a chain.
func machinePlanText(p machine.Plan) string {
	var b strings.Builder
	b.WriteString(p.Object)
	if p.State != "" {
		fmt.Fprintf(&b, "  %s", p.State)
	}
	fmt.Fprintf(&b, "  %s", p.Act)
	if p.To != "" {
		fmt.Fprintf(&b, " to %s", p.To)
	}
	if p.Event != "" {
		fmt.Fprintf(&b, " (%s)", p.Event)
	}
	b.WriteString("\n")
	if p.Why != "" {
		fmt.Fprintf(&b, "  why: %s\n", p.Why)
	}
	if p.Cancel != nil {
		fmt.Fprintf(&b, "  ends run %s first: %s\n", view.Short(p.Cancel.Run), p.Cancel.Mode)
	}
	if len(p.Params) > 0 {
		fmt.Fprintf(&b, "  params: %s\n", p.Params)
	}
	if p.Code != "" {
		fmt.Fprintf(&b, "  %s  remedy: %s\n", p.Code, p.Remedy)
	}
	if len(p.Considered) > 0 {
		t := view.Table{Head: []string{"EVENT", "TO", "VERDICT", "WHEN"}}
		for _, c := range p.Considered {
			t.Rows = append(t.Rows, []string{c.Event, string(c.To), strings.TrimSpace(string(c.Verdict) + " " + c.Message), c.When})
		}
		for line := range strings.Lines(t.String()) {
			b.WriteString("  " + line)
		}
	}
	if len(p.Links) > 0 {
		for line := range strings.Lines(view.LinkTable(p.Links).String()) {
			b.WriteString("  " + line)
		}
	}
	if p.Flow != nil {
		fmt.Fprintf(&b, "  flow %s:\n", p.Flow.Flow)
		for _, line := range view.PlanLines(view.OfPlan(*p.Flow)) {
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}
