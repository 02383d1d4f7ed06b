package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/manifest"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	operator "github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/operator/rollout/gate"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// rolloutSpec is the part of a Rollout's spec that a plan without a cluster needs.
type rolloutSpec struct {
	TargetRef *workloadRef    `json:"targetRef"`
	SourceRef *workloadRef    `json:"sourceRef"`
	Plan      json.RawMessage `json:"rolloutPlan"`

	application bool
	replicas    int // of the component of an Application; -1: not known
}

// at is the field that names the workload.
func (s rolloutSpec) at() string {
	if s.application {
		return "components"
	}
	return "targetRef"
}

// specOf reads what a plan needs of a Rollout, or of the one that an Application would drive.
func specOf(m manifest.Manifest) (rolloutSpec, error) {
	spec := rolloutSpec{replicas: -1}
	if m.Object.Kind == "Rollout" {
		err := json.Unmarshal(m.Object.Spec, &spec)
		return spec, err
	}
	var of struct {
		Components       []api.ApplicationComponent `json:"components"`
		RolloutComponent string                     `json:"rolloutComponent"`
		Plan             json.RawMessage            `json:"rolloutPlan"` // as it was written: a fault names its field
	}
	if err := json.Unmarshal(m.Object.Spec, &of); err != nil {
		return spec, err
	}
	known := api.ApplicationSpec{Components: of.Components, RolloutComponent: of.RolloutComponent}
	c, err := backend.PlannedComponent(known, known)
	if err != nil {
		return spec, err
	}
	w, err := backend.WorkloadOf(c)
	if err != nil {
		return spec, err
	}
	spec = rolloutSpec{Plan: of.Plan, application: true, replicas: 1, TargetRef: &workloadRef{APIVersion: c.Workload.APIVersion, Kind: c.Workload.Kind, Name: c.Name}}
	if w.Replicas != nil {
		spec.replicas = max(int(*w.Replicas), 0)
	}
	return spec, nil
}

type workloadRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// kind is the kind of workload that targetRef names.
func (s rolloutSpec) kind() (rollout.Kind, error) {
	group := groupOf(s.TargetRef.APIVersion)
	switch {
	case s.TargetRef.Kind == "StatefulSet" && group == "apps.kruise.io":
		return rollout.AdvancedStatefulSet, nil
	case group == "apps" && (s.TargetRef.Kind == "StatefulSet" || s.TargetRef.Kind == "Deployment"):
		return rollout.Kind(s.TargetRef.Kind), nil
	case group == "apps.kruise.io" && s.TargetRef.Kind == "CloneSet":
		return rollout.CloneSet, nil
	default:
		return "", rollout.UnsupportedWorkload.Errorf("%s %s: there are Deployment and StatefulSet of apps/v1, CloneSet and StatefulSet of apps.kruise.io", s.TargetRef.APIVersion, s.TargetRef.Kind)
	}
}

// A template that was written a moment ago is not observed by its controller yet, or a pod is starting: it is
// looked at again.
const settleEvery, settleWithin = 200 * time.Millisecond, 15 * time.Second

// planLive previews a Rollout of a cluster. A plan that would be refused ends with 1.
func (a verbs) planLive(ctx context.Context, b backend.Rollouts, ref control.Ref) error {
	var p view.RolloutPlan
	var err error
	_ = wait.PollUntilContextTimeout(ctx, settleEvery, settleWithin, true, func(ctx context.Context) (bool, error) { // p and err tell
		p, err = b.PlanRollout(ctx, ref, nil)
		return fault.Of(err) != rollout.WorkloadBusy, nil
	})
	if err != nil {
		a.Fail(ctx, err)
		return cli.End(view.ExitFailed)
	}
	return a.Emit(p, []string{p.Rollout}, func() string { return p.Text(a.Style(a.Out)) })
}

// planRollouts previews the Rollouts among manifests. Without a cluster, replicas below 0 are those of
// the workload in the same files.
func (a verbs) planRollouts(ctx context.Context, manifests []manifest.Manifest, replicas int) error {
	live, done, err := a.liveRollouts(ctx, manifests, replicas)
	if err != nil {
		return err
	}
	defer done()
	plans := []view.RolloutPlan{}
	var text strings.Builder
	var wrong flowfile.Problems
	for _, m := range manifests {
		if !planned(m) {
			continue
		}
		p, problems, err := planRollout(m, manifests, replicas)
		if live != nil && len(problems) == 0 {
			p, err = planApplied(ctx, live, m, manifests, p, err)
		}
		if of, ok := refusal(m, err); ok {
			problems, err = append(problems, of), nil
		}
		if err != nil {
			return err
		}
		wrong = append(wrong, problems...)
		plans = append(plans, p)
		text.WriteString(p.Text(a.Style(a.Out)))
	}
	if len(wrong) > 0 {
		wrong.Sort()
		return wrong
	}
	if len(plans) == 1 {
		return a.Emit(plans[0], []string{plans[0].Rollout}, text.String)
	}
	return a.Emit(cli.ListOf(plans), nil, text.String)
}

// liveRollouts is the cluster that is asked for a dry run; nil without one, or with replicas that are
// only assumed.
func (a verbs) liveRollouts(ctx context.Context, manifests []manifest.Manifest, replicas int) (live backend.Rollouts, done func(), err error) {
	if !a.Target.Kubernetes || replicas >= 0 {
		return nil, func() {}, nil
	}
	b, err := a.Open(ctx, cli.Reads)
	if err != nil {
		return nil, nil, err
	}
	live, _ = b.(backend.Rollouts)
	return live, func() { _ = b.Close() }, nil
}

// planApplied is the plan of a manifest as the API server would take it, and with it those of its workloads,
// with the pods that they have. While the workload does not exist, the plan from the files stands.
func planApplied(ctx context.Context, live backend.Rollouts, m manifest.Manifest, all []manifest.Manifest, assumed view.RolloutPlan, failed error) (view.RolloutPlan, error) {
	spec, err := specOf(m)
	if err != nil {
		return assumed, err
	}
	var beside []operator.Applied
	for _, ref := range spec.workloads() {
		of, ok := manifestOf(ref, m, all)
		if !ok {
			continue
		}
		applied, err := live.ApplyWorkload(ctx, cmp.Or(of.APIVersion, ref.APIVersion), of.Object)
		if err != nil {
			return assumed, placed(of, specField(err), err)
		}
		beside = append(beside, applied)
	}
	p, err := live.PlanRollout(ctx, m.Object.Ref, &m.Object, beside...)
	if fault.Of(err) == rollout.TargetMissing {
		return assumed, failed
	}
	if refusals[fault.Of(err)] {
		return p, err
	}
	var e *fault.Error
	if errors.As(err, &e) && e.Details["field"] != nil {
		return p, placed(m, fieldOf(err), err)
	}
	return p, placed(m, specField(err), err)
}

// placed names the place of an error: a field of the spec, or the manifest.
func placed(m manifest.Manifest, field []string, err error) error {
	if err == nil {
		return nil
	}
	line, column := m.Line, m.Column
	if field != nil {
		at := m.SpecProblem(field, "")
		line, column = at.Line, at.Column
	}
	return fmt.Errorf("%s:%d:%d: %w", m.File, line, column, err)
}

// specField is the field of the spec that the API server refuses; nil: it names none.
func specField(err error) []string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if field, ok := strings.CutPrefix(cause.Field, "spec."); ok {
				return steps.FindAllString(field, -1)
			}
		}
	}
	return nil
}

func planRollout(m manifest.Manifest, all []manifest.Manifest, replicas int) (view.RolloutPlan, flowfile.Problems, error) {
	none := view.RolloutPlan{}
	refuse := func(path []string, message string) (view.RolloutPlan, flowfile.Problems, error) {
		return none, flowfile.Problems{m.SpecProblem(path, message)}, nil
	}
	spec, err := specOf(m)
	if fault.Of(err) == rollout.ComponentAmbiguous {
		return none, nil, fmt.Errorf("%s:%d: name it in spec.rolloutComponent: %w", m.File, m.Line, err)
	}
	if err != nil {
		return refuse(nil, "spec: "+err.Error())
	}
	switch {
	case spec.TargetRef == nil || spec.TargetRef.Name == "":
		return refuse([]string{"targetRef"}, "spec.targetRef: a plan without a cluster needs apiVersion, kind and name of the workload")
	case spec.Plan == nil:
		return refuse(nil, "spec.rolloutPlan is missing")
	}
	kind, err := spec.kind()
	if err != nil {
		return refuse([]string{spec.at()}, "spec."+spec.at()+": "+err.Error())
	}
	p, err := rollout.ParsePlan(spec.Plan)
	if err != nil {
		return refuse(fieldOf(err), "spec.rolloutPlan."+fault.Message(err))
	}
	var wrong flowfile.Problems
	for _, found := range p.Problems() {
		wrong = append(wrong, m.SpecProblem(pathOf(found.Path), string(found.Code)+": spec.rolloutPlan."+found.String()))
	}
	for _, found := range (&gate.Set{}).Findings(p) {
		wrong = append(wrong, m.SpecProblem(pathOf(found.Path), string(rollout.GateInvalid.Code)+": spec.rolloutPlan."+found.Error()))
	}
	if wrong != nil {
		return none, wrong, nil
	}
	if replicas < 0 {
		replicas = spec.replicas
	}
	if replicas < 0 {
		of, ok := spec.sized(m, all)
		if !ok {
			return none, nil, cli.Usage.Errorf("%s:%d:%d: give --replicas, or the manifest of %s %s beside it", m.File, m.Line, m.Column, spec.TargetRef.Kind, spec.TargetRef.Name)
		}
		if replicas, err = replicasOf(of); err != nil {
			return none, flowfile.Problems{of.SpecProblem([]string{"replicas"}, err.Error())}, nil
		}
	}
	batches, err := rollout.Preview(p, rollout.IdealFacts(kind, spec.TargetRef.Name, replicas, p))
	if err != nil {
		return none, nil, err
	}
	return view.RolloutPlan{
		Rollout: m.Object.Namespace + "/" + m.Object.Name, Workload: string(kind) + " " + spec.TargetRef.Name, Replicas: replicas, Batches: batches,
	}, nil, nil
}

// refusals are the faults of a plan that cannot be.
var refusals = map[*fault.Kind]bool{rollout.PlanInvalid: true, rollout.BudgetImpossible: true, rollout.FieldNotHonoured: true, rollout.GateInvalid: true}

// refusal is the problem of a plan that cannot be, at the field that the fault names.
func refusal(m manifest.Manifest, err error) (flowfile.Problem, bool) {
	kind := fault.Of(err)
	if err == nil || !refusals[kind] {
		return flowfile.Problem{}, false
	}
	path := fieldOf(err)
	at := "spec.rolloutPlan."
	switch {
	case path[0] != "rolloutPlan":
		at = "spec."
	case len(path) == 1 && kind == rollout.PlanInvalid:
		path, at = pathOf("rolloutBatches"), "spec.rolloutPlan: "
	case len(path) == 1:
		at = "spec.rolloutPlan: "
	}
	return m.SpecProblem(path, string(kind.Code)+": "+at+fault.Message(err)+". "+kind.Remedy), true
}

// workloads are those that the Rollout names. An Application has its own.
func (s rolloutSpec) workloads() (refs []workloadRef) {
	for _, ref := range []*workloadRef{s.SourceRef, s.TargetRef} {
		if ref != nil && !s.application {
			refs = append(refs, *ref)
		}
	}
	return refs
}

// sized is the manifest of the workload whose pods move: of Deployments they are those of the source.
func (s rolloutSpec) sized(m manifest.Manifest, all []manifest.Manifest) (manifest.Manifest, bool) {
	for _, ref := range s.workloads() {
		if of, ok := manifestOf(ref, m, all); ok {
			return of, true
		}
	}
	return manifest.Manifest{}, false
}

// manifestOf is the last manifest of a workload in the namespace of its Rollout.
func manifestOf(ref workloadRef, r manifest.Manifest, all []manifest.Manifest) (manifest.Manifest, bool) {
	for _, m := range slices.Backward(all) {
		same := m.APIVersion == "" || groupOf(m.APIVersion) == groupOf(ref.APIVersion)
		if same && m.Object.Kind == ref.Kind && m.Object.Name == ref.Name && m.Object.Namespace == r.Object.Namespace {
			return m, true
		}
	}
	return manifest.Manifest{}, false
}

func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// replicasOf is the size in the manifest of a workload.
func replicasOf(m manifest.Manifest) (int, error) {
	var spec struct {
		Replicas json.RawMessage `json:"replicas"`
	}
	if err := json.Unmarshal(m.Object.Spec, &spec); len(m.Object.Spec) > 0 && err != nil {
		return 0, err
	}
	if len(spec.Replicas) == 0 || string(spec.Replicas) == "null" {
		return 1, nil
	}
	n, err := strconv.Atoi(string(spec.Replicas))
	if err != nil || n < 0 || n > mostReplicas {
		return 0, fmt.Errorf("spec.replicas: %s is no number of pods from 0 to %d", spec.Replicas, mostReplicas)
	}
	return n, nil
}

func fieldOf(err error) []string {
	var e *fault.Error
	if errors.As(err, &e) {
		field, ok := e.Details["field"].(string)
		switch {
		case ok && (field == "sourceRef" || field == "targetRef"): // they stand beside the plan
			return []string{field}
		case ok:
			return pathOf(field)
		}
	}
	return []string{"rolloutPlan"}
}

var steps = regexp.MustCompile(`[^.\[\]]+`)

// pathOf splits rolloutBatches[2].replicas into the steps below spec.
func pathOf(path string) []string {
	return append([]string{"rolloutPlan"}, steps.FindAllString(path, -1)...)
}

func hasRollout(manifests []manifest.Manifest) bool { return slices.ContainsFunc(manifests, planned) }

// planned reports whether a manifest says how pods are moved in batches.
func planned(m manifest.Manifest) bool {
	var spec struct {
		Plan json.RawMessage `json:"rolloutPlan"`
	}
	return m.Object.Kind == "Rollout" || view.IsApplication(m.Object) && json.Unmarshal(m.Object.Spec, &spec) == nil && spec.Plan != nil
}

// mostReplicas is the largest workload that is previewed without a cluster.
const mostReplicas = 100_000

// parseReplicas reads --replicas; empty is -1.
func parseReplicas(text string) (int, error) {
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostReplicas {
		return 0, cli.Usage.Errorf("--replicas %q is no number of pods from 0 to %d", text, mostReplicas)
	}
	return n, nil
}
