package rollout

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// locateRevisions finds the workloads of a pair of revisions. A rollout under way keeps those that it
// has recorded, whatever becomes of the revisions and whatever is asked for: it has to let them go.
func (p *pass) locateRevisions(ctx context.Context) outcome.Outcome {
	r := p.rollout()
	a := *r.Spec.Application
	target, err := p.revision(ctx, a.TargetRevision)
	if err != nil {
		return outcome.Fail(err)
	}
	source, err := p.revision(ctx, a.SourceRevision)
	if err != nil {
		return outcome.Fail(err)
	}
	if refs := refsOf(r); refs != nil && (moves(p.was.State) || p.deleting()) {
		p.recorded = p.was.TargetRevision != a.TargetRevision || p.was.SourceRevision != a.SourceRevision
		p.workload.Target = workload.Ref(refs[0])
		for _, ref := range refs[1:] {
			p.workload.Sources = append(p.workload.Sources, workload.Ref(ref))
		}
		return p.templates(ctx, target, source)
	}
	switch {
	case target == nil:
		p.missing = a.TargetRevision
		return outcome.Done()
	case source == nil && a.SourceRevision != "":
		p.missing = a.SourceRevision
		return outcome.Done()
	}
	name, err := rollout.Component(a.Component, componentsOf(target), componentsOf(source))
	if err != nil && !p.deleting() {
		p.waits(outcome.Wait(0, fault.Of(err).Reason(), "%s", fault.Message(err)))
	}
	if err != nil {
		return outcome.Done()
	}
	p.workload.Target = refOf(*componentOf(target, name))
	if err := p.sources(ctx, source, name); err != nil {
		return outcome.Fail(err)
	}
	return p.templates(ctx, target, source)
}

// revision reads a revision; nil without an error: it does not exist.
func (p *pass) revision(ctx context.Context, name string) (*api.ApplicationRevision, error) {
	if name == "" {
		return nil, nil
	}
	r := &api.ApplicationRevision{}
	err := p.cache.Client().Get(ctx, client.ObjectKey{Namespace: p.key.Namespace, Name: name}, r)
	if errors.Is(err, control.NotFound) {
		return nil, nil
	}
	return r, err
}

func componentsOf(r *api.ApplicationRevision) (names []string) {
	if r == nil {
		return nil
	}
	for _, c := range r.Spec.Components {
		names = append(names, c.Name)
	}
	return names
}

func componentOf(r *api.ApplicationRevision, name string) *api.ApplicationRevisionComponent {
	i := slices.IndexFunc(r.Spec.Components, func(c api.ApplicationRevisionComponent) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Spec.Components[i]
}

func refOf(c api.ApplicationRevisionComponent) workload.Ref {
	return workload.Ref{APIVersion: c.Workload.APIVersion, Kind: c.Workload.Kind, Name: c.WorkloadName}
}

// sources adds the Deployments to leave: that of the source revision, and before it those that earlier
// pairs have left.
func (p *pass) sources(ctx context.Context, source *api.ApplicationRevision, component string) error {
	target := p.workload.Target
	if source == nil || target.Kind != string(rollout.Deployment) {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(target.APIVersion)
	list.SetKind(target.Kind + "List")
	err := p.cache.List(ctx, list, client.InNamespace(p.key.Namespace), client.MatchingLabels{workload.RolloutLabel: p.key.Name, workload.ComponentLabel: component})
	if err != nil {
		return controller.Fault(err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	named := componentOf(source, component).WorkloadName
	var names []string
	for _, o := range list.Items {
		if o.GetName() != named {
			names = append(names, o.GetName())
		}
	}
	for _, name := range append(names, named) {
		if name != target.Name {
			p.workload.Sources = append(p.workload.Sources, workload.Ref{APIVersion: target.APIVersion, Kind: target.Kind, Name: name})
		}
	}
	return nil
}

// templates gives the workload the templates of the revisions that count: of the recorded pair first
// while that moves.
func (p *pass) templates(ctx context.Context, target, source *api.ApplicationRevision) outcome.Outcome {
	t := &workload.Templates{Plain: p.was.Rollback != nil, Complete: p.memory.templates}
	var all []*api.ApplicationRevision
	for _, name := range []string{p.was.TargetRevision, p.was.SourceRevision} {
		r, err := p.revision(ctx, name)
		if err != nil {
			return outcome.Fail(err)
		}
		all = append(all, r)
	}
	if all = append(all, target, source); !moves(p.was.State) {
		slices.Reverse(all[2:])
		slices.Reverse(all)
	}
	for _, r := range all {
		if r == nil || p.workload.Target.Kind == string(rollout.Deployment) {
			continue
		}
		if raw := templateOf(r, p.workload.Target); raw != nil && !slices.ContainsFunc(t.All, func(of workload.Template) bool { return of.Name == r.Name }) {
			t.All = append(t.All, workload.Template{Name: r.Name, Raw: raw})
		}
	}
	p.workload.Templates = t
	return outcome.Done()
}

// templateOf is the pod template that a revision has for a workload; nil: none.
func templateOf(r *api.ApplicationRevision, ref workload.Ref) map[string]any {
	for _, c := range r.Spec.Components {
		var spec map[string]any
		if c.WorkloadName != ref.Name || c.Workload.Kind != ref.Kind || utiljson.Unmarshal(c.Workload.Spec.Raw, &spec) != nil {
			continue
		}
		template, _, _ := unstructured.NestedMap(spec, "template")
		return template
	}
	return nil
}

// wantRevisions is what a pair of revisions asks for. A target with the content that the pods had
// before is the source: a rollout under way goes back, and one that went back has nothing to do.
func (p *pass) wantRevisions(w *rollout.Wanted) {
	a := p.rollout().Spec.Application
	w.Named, w.TargetRevision, w.SourceRevision, w.HasSource = true, a.TargetRevision, a.SourceRevision, a.SourceRevision != ""
	if a.TargetRevision != p.was.TargetRevision && (p.was.State == rollout.InBatch || p.was.Rollback != nil) && p.goesBack(a.TargetRevision) {
		w.TargetRevision = p.was.SourceRevision
	}
}

func (p *pass) goesBack(target string) bool {
	if p.kind != rollout.Deployment {
		t := p.workload.Templates
		return t != nil && p.was.SourceHash != "" && t.Revisions[target] == p.was.SourceHash
	}
	sources := p.rollout().Status.Sources
	r, err := p.revision(context.Background(), target) // of the cache
	return err == nil && r != nil && len(sources) > 0 &&
		slices.ContainsFunc(r.Spec.Components, func(c api.ApplicationRevisionComponent) bool { return c.WorkloadName == sources[len(sources)-1] })
}

// sourceName is a revision with the content that the pods had before: of several targets in one rollout the
// recorded source is only the last but one. Without a revision of that content it is the hash.
func (p *pass) sourceName(at rollout.Position) string {
	a := p.rollout().Spec.Application
	if a == nil || p.workload == nil { // the plan was refused before it was looked for
		return at.SourceRevision
	}
	t := p.workload.Templates
	if t == nil || at.SourceHash == "" || t.Revisions[at.SourceRevision] == "" {
		return at.SourceRevision
	}
	for _, name := range []string{at.SourceRevision, a.TargetRevision, a.SourceRevision} {
		if t.Revisions[name] == at.SourceHash {
			return name
		}
	}
	return at.SourceHash
}

// writeRefs records the workloads of a pair of revisions.
func (p *pass) writeRefs(s *api.RolloutStatus) {
	target := p.workload.Target
	if p.rollout().Spec.Application == nil || target.Name == "" || !moves(p.decision.Position.State) {
		return
	}
	s.Workload, s.Sources = new(api.WorkloadRef(target)), nil
	for _, ref := range p.workload.Sources {
		s.Sources = append(s.Sources, ref.Name)
	}
}

// workloadName is the name of the workload of a Rollout.
func workloadName(r *api.Rollout) string {
	if refs := refsOf(r); refs != nil {
		return refs[0].Name
	}
	return ""
}

// naming are the Rollouts that name a revision.
func (o *Operator) naming(ctx context.Context, obj client.Object) (all []types.NamespacedName) {
	var list api.RolloutList
	if err := o.cache.ListShared(ctx, &list, client.InNamespace(obj.GetNamespace())); err != nil {
		return nil
	}
	for _, r := range list.Items {
		if a := r.Spec.Application; a != nil && (a.TargetRevision == obj.GetName() || a.SourceRevision == obj.GetName()) {
			all = append(all, client.ObjectKeyFromObject(&r))
		}
	}
	return all
}
