package backend

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// NotOnKubernetes is the fault of a verb that Kubernetes does not support.
var NotOnKubernetes = fault.Declare(fault.Kind{
	Code: "NOT_ON_KUBERNETES", Class: fault.Invalid,
	Title:  "the verb has no meaning on Kubernetes",
	Remedy: "Use what the message names; or ask a server or a store: --server URL, --dsn FILE.",
})

// brought returns the flows that this program has without any file: those of its operators.
type brought struct {
	flows   []workflow.Flow
	actions []workflow.Action
	healers map[fault.Code]workflow.Healer
}

func load() (b brought, err error) {
	nowhere := port.Ports{Storage: struct{ port.Storage }{}, Instances: struct{ port.Instances }{}, Engine: struct{ port.Engine }{}, Manager: struct{ port.Manager }{}}
	o, err := sharedstorage.New(sharedstorage.Options{Store: struct{ sharedstorage.ClusterStore }{}, Ports: nowhere}) // only its flows are read
	if err != nil {
		return b, err
	}
	b.flows, err = o.Flows()
	b.actions, b.healers = o.Actions(), o.Healers()
	return b, err
}

// definitions are what is loaded here: that of this program and of --flows.
func (k *Kube) definitions() *Local {
	healers := maps.Clone(k.brought.healers)
	maps.Copy(healers, k.library.Healers)
	lib := k.library
	lib.Healers = healers
	return &Local{library: lib}
}

func (k *Kube) flows() []workflow.Flow { return slices.Concat(k.library.Flows, k.brought.flows) }

// Flows implements Definitions.
func (k *Kube) Flows(context.Context) ([]view.Flow, error) {
	flows := []view.Flow{}
	for _, f := range k.flows() {
		v, err := view.OfFlow(f)
		if err != nil {
			return nil, err
		}
		flows = append(flows, v)
	}
	return flows, nil
}

// Flow implements Definitions.
func (k *Kube) Flow(_ context.Context, name string) (view.Flow, error) {
	kind, kindsWithoutSpec := flowName(name)
	if f := workflow.FlowFor(k.flows(), kindsWithoutSpec, kind); f != nil {
		return view.OfFlow(*f)
	}
	return view.Flow{}, workflow.FlowUnknown.Errorf("no flow %q is known here: an operator may have one; name its file with --flows", kindsWithoutSpec)
}

// Faults implements Definitions.
func (k *Kube) Faults(ctx context.Context) ([]view.Kind, error) { return k.definitions().Faults(ctx) }

// Fault implements Definitions.
func (k *Kube) Fault(ctx context.Context, code string) (view.Kind, error) {
	return k.definitions().Fault(ctx, code)
}

// Machines implements Definitions.
func (k *Kube) Machines(ctx context.Context) ([]view.Machine, error) {
	return k.definitions().Machines(ctx)
}

// Machine implements Definitions.
func (k *Kube) Machine(ctx context.Context, name string) (view.Machine, error) {
	return k.definitions().Machine(ctx, name)
}

// PlanFlow implements Definitions.
func (k *Kube) PlanFlow(ctx context.Context, flow string, input []byte) (view.Plan, error) {
	from, err := k.runs(ctx, k.options.Namespace)
	if err != nil {
		return view.Plan{}, err
	}
	p, err := from.engine.Plan(flow, input)
	return view.OfPlan(p), err
}

// PlanObject implements Definitions for the kinds that this program brings; the API server says
// what a manifest would become.
func (k *Kube) PlanObject(ctx context.Context, ref control.Ref, manifest *control.Object) (machine.Plan, error) {
	kind, err := k.kind(ref.Kind)
	if err != nil {
		return machine.Plan{}, err
	}
	if !slices.ContainsFunc(k.kinds, func(s driver.ServedKind) bool { return s.Kind == kind.kind.Kind }) {
		return machine.Plan{}, MachineUnknown.Errorf("only its operator knows the machine of kind %s: pawl describe %s %s tells what it does", kind.kind.Kind, kind.kind.Kind, ref.Name)
	}
	ref = kind.ref(ref)
	var o control.Object
	if objects := (kubeObjects{k}); manifest != nil {
		o, err = objects.apply(ctx, *manifest, []string{metav1.DryRunAll})
	} else {
		o, err = objects.Get(ctx, ref)
	}
	if err != nil {
		return machine.Plan{}, err
	}
	return driver.Plan(ctx, k.kinds, o)
}

// planShared plans clusters on shared storage.
func (k *Kube) planShared(ctx context.Context, o control.Object) (machine.Plan, error) {
	c := &sharedstorage.Cluster{
		Kind: o.Kind, Ref: port.Ref{Namespace: o.Namespace, Name: o.Name, UID: o.UID}, Generation: o.Generation,
		CreatedAt: o.CreatedAt, DeletedAt: o.DeletionMark, Annotations: o.Annotations, Finalized: len(o.Finalizers) > 0,
	}
	var err error
	if len(o.Spec) > 0 {
		err = json.Unmarshal(o.Spec, &c.Spec)
	}
	if err == nil && len(o.Status) > 0 {
		err = json.Unmarshal(o.Status, &c.Status)
	}
	if err != nil {
		return machine.Plan{}, machine.PositionInvalid.Errorf("%s: %w", o.Ref, err)
	}
	operator, err := k.planner(ctx)
	if err != nil {
		return machine.Plan{}, err
	}
	return operator.PlanFor(ctx, c)
}

// planner is an operator that only reads: claims and pods, and the engines
// that can be reached from here.
func (k *Kube) planner(ctx context.Context) (*sharedstorage.Operator, error) {
	from, err := k.runs(ctx, k.options.Namespace)
	if err != nil {
		return nil, err
	}
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(k.options.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, controller.Fault(err)
	}
	placement, err := kube.NewPlacement(kube.Options{Client: c, Image: "none", ForeignImages: true, Log: k.options.Logger})
	if err != nil {
		return nil, err
	}
	operator, err := sharedstorage.New(sharedstorage.Options{Store: kube.NewClusterStore(c, c), Ports: placement.Ports(), CallTimeout: 2 * time.Second, Logger: k.options.Logger})
	if err != nil {
		return nil, err
	}
	err = operator.Bind(from.engine)
	return operator, err
}
