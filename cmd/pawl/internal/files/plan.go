package files

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/manifest"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func (a verbs) planCommand() *cobra.Command {
	var in cli.InputOptions
	var files []string
	var namespace, replicas string
	cmd := &cobra.Command{
		Use: "plan FILE | FLOW | KIND NAME | -f MANIFEST", Short: "Say what would happen; nothing is written",
		Long: `Of a flow: which steps a run with this input would execute or skip. Of an object:
which transition its machine would choose, why, and what was refused, or what each
link of its operator's chain would do; with -f as if the manifest had been applied.
Of a Rollout: which pods move in which batch, how many are away at each moment,
and where it stops. Of the manifest of a Rollout or an Application too: on Kubernetes
the API server is asked for a dry run, and the pods are those of the workload; without
a cluster they come from --replicas or from the manifest of the workload.`,
		Example:           "  pawl plan create.yaml --input readers=0\n  pawl plan etcd c1\n  pawl plan -f cluster.yaml --machines machines/ --flows flows/\n  pawl plan -f rollout.yaml --replicas 5\n  kubectl pawl plan rollout etcd",
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.CompleteKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			switch {
			case len(files) > 0 && len(args) == 0:
				return a.planManifests(ctx, files, namespace, replicas)
			case len(files) > 0 || len(args) == 0:
				return cli.Usage.Errorf("give a flow, KIND NAME, or -f MANIFEST")
			case len(args) == 2 || strings.Count(args[0], "/") == 2 && !IsFile(args[0]):
				return a.planObject(ctx, args, namespace)
			case IsFile(args[0]):
				return a.planFile(ctx, args[0], in)
			}
			return a.planFlow(ctx, args[0], in)
		}),
	}
	f := cmd.Flags()
	in.Flags(f)
	f.StringSliceVarP(&files, "filename", "f", nil, "`manifest` of an object, - for standard input")
	f.StringVar(&replicas, "replicas", "", "`number` of pods of a Rollout's workload (default: that of the workload's manifest)")
	f.StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	return cmd
}

func (a verbs) emitPlan(p view.Plan) error {
	return a.Emit(p, []string{p.Flow}, func() string { return strings.Join(view.PlanLines(p), "\n") + "\n" })
}

// planFile plans a flow of a file, whose actions need not be known here.
func (a verbs) planFile(_ context.Context, path string, in cli.InputOptions) error {
	name, err := FlowName(path)
	if err != nil {
		return err
	}
	lib, err := LoadFiles(append([]string{path}, a.Flags.Flows...))
	if err != nil {
		return err
	}
	f, _ := lib.Flow(name)
	rendered, err := view.OfFlow(f)
	if err != nil {
		return err
	}
	input, err := in.Input(rendered.Input, a.In)
	if err != nil {
		return err
	}
	engine, err := workflow.New(runstore.NewMemory(), lib.Flows, workflow.Options{Actions: library.WithStubs(lib.Flows, knownActions()), Logger: a.Logger()})
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
func (a verbs) planFlow(ctx context.Context, name string, in cli.InputOptions) error {
	b, err := a.Open(ctx, cli.Looks)
	if err != nil {
		return err
	}
	defer b.Close()
	f, err := b.Flow(ctx, name)
	if err != nil {
		return err
	}
	input, err := in.Input(f.Input, a.In)
	if err != nil {
		return err
	}
	p, err := b.PlanFlow(ctx, name, input)
	if err != nil {
		return err
	}
	return a.emitPlan(p)
}

func (a verbs) planObject(ctx context.Context, args []string, namespace string) error {
	ref, ok := a.ObjectOf(args, namespace)
	if !ok {
		return cli.Usage.Errorf("%s is no object: it is KIND NAME", args[0])
	}
	b, err := a.Open(ctx, cli.Looks)
	if err != nil {
		return err
	}
	defer b.Close()
	if rollouts, ok := b.(backend.Rollouts); ok && backend.IsRollout(ref.Kind) {
		return a.planLive(ctx, rollouts, ref)
	}
	if report.KindOf(ref.Kind) == report.ClusterKind {
		return a.planDatabase(ctx, b, ref)
	}
	p, err := b.PlanObject(ctx, ref, nil)
	if err != nil {
		return a.Elsewhere(ref.Kind, err)
	}
	return a.Emit(p, []string{p.Object}, func() string { return MachinePlanText(p, a.Style(a.Out)) })
}

// planDatabase prints the plan that the operator of FoundationDB has made. pawl fdb plan makes one of a manifest.
func (a verbs) planDatabase(ctx context.Context, b backend.Backend, ref control.Ref) error {
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	o, err := objects.Get(ctx, ref)
	if err != nil {
		return a.Elsewhere(ref.Kind, err)
	}
	c, err := report.ClusterOf(o)
	if err != nil {
		return err
	}
	p := report.PlanOf(c)
	return a.Emit(p, []string{o.Ref.String()}, func() string { return p.Text(time.Now(), a.Style(a.Out)) })
}

func (a verbs) planManifests(ctx context.Context, files []string, namespace, replicas string) error {
	manifests, err := manifest.ReadManifests(files, a.In)
	if err != nil {
		return err
	}
	pods, err := parseReplicas(replicas)
	switch {
	case err != nil:
		return err
	case hasRollout(manifests):
		manifest.InNamespace(a.Target.Namespace, manifests, namespace)
		return a.planRollouts(ctx, manifests, pods)
	case a.Target.Kubernetes && foundationdb.AreClusters(manifests):
		return foundationdb.PlanManifests(ctx, a.App, manifests, namespace)
	case pods >= 0:
		return cli.Usage.Errorf("--replicas is for the manifest of a Rollout, and there is none")
	}
	b, err := a.Open(ctx, cli.Looks)
	if err != nil {
		return err
	}
	defer b.Close()
	plans := []machine.Plan{}
	var text strings.Builder
	manifest.InNamespace(a.Target.Namespace, manifests, namespace)
	if err := manifest.Admit(ctx, b, manifests); err != nil {
		return err
	}
	for _, m := range manifests {
		p, err := b.PlanObject(ctx, m.Object.Ref, &m.Object)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", m.File, m.Line, err)
		}
		plans = append(plans, p)
		text.WriteString(MachinePlanText(p, a.Style(a.Out)))
	}
	if len(plans) == 1 {
		return a.Emit(plans[0], []string{plans[0].Object}, text.String)
	}
	return a.Emit(cli.ListOf(plans), nil, text.String)
}

// MachinePlanText describes the steps that a machine would take and the rules it considered, or
// the links of a chain.
func MachinePlanText(p machine.Plan, style view.Style) string {
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
		b.WriteString(view.Indent(view.TableOf(p.Considered, []view.Column[machine.Considered]{
			{Head: "EVENT", Cell: func(c machine.Considered) string { return c.Event }},
			{Head: "TO", Cell: func(c machine.Considered) string { return string(c.To) }},
			{Head: "VERDICT", Cell: func(c machine.Considered) string { return strings.TrimSpace(string(c.Verdict) + " " + c.Message) }},
			{Head: "WHEN", Cell: func(c machine.Considered) string { return c.When }},
		}).Text(style), "  "))
	}
	if len(p.Links) > 0 {
		b.WriteString(view.Indent(view.LinkTable(p.Links).Text(style), "  "))
	}
	if p.Flow != nil {
		fmt.Fprintf(&b, "  flow %s:\n", p.Flow.Flow)
		for _, line := range view.PlanLines(view.OfPlan(*p.Flow)) {
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}
