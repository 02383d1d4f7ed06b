package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// NotTaken is the fault of a run that nobody has started.
var NotTaken = fault.Declare(fault.Kind{
	Code: "RUN_NOT_TAKEN", Class: fault.Transient,
	Title:  "no operator has started the run yet",
	Remedy: "Check that an operator that has the flow serves the namespace: pawl get runs shows the run once it has begun. The Run object stays; kubectl delete runs.pawl.dev takes it away.",
})

// takenWithin is how long an operator has to start a run.
const takenWithin = 10 * time.Second

// Start implements Runs: a Run object is created, and an operator that has the flow starts it.
func (k *Kube) Start(ctx context.Context, req workflow.Request) (view.Run, error) {
	namespace := k.runNamespace(req.Subject)
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	if req.Priority != 0 {
		return view.Run{}, workflow.LimitsNotKept.Errorf("a Run object has no priority")
	}
	kind, err := k.kind("runs." + v1alpha1.GroupVersion.Group)
	if err != nil {
		return view.Run{}, err
	}
	spec := v1alpha1.RunSpec{Flow: req.Flow, Subject: req.Subject, Input: req.Input, Labels: req.Labels, Actor: req.Actor.Name, Reason: req.Actor.Reason}
	raw, err := json.Marshal(spec)
	if err != nil {
		return view.Run{}, err
	}
	name := workflow.RunID(req.Subject, req.Flow, req.RequestID) // the same request is the same object
	ref := control.Ref{Kind: kind.kind.Kind, Namespace: namespace, Name: name}
	objects := kubeObjects{k}
	_, err = objects.Apply(ctx, control.Object{Ref: ref, Spec: raw, Revision: control.MustNotExist})
	if err != nil && !errors.Is(err, control.Exists) {
		return view.Run{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	for {
		o, err := objects.Get(ctx, ref)
		if err != nil {
			return view.Run{}, err
		}
		status, err := begun(o, spec)
		if err != nil {
			return view.Run{}, err
		}
		if status.Revision > 0 {
			return k.Run(ctx, cmp.Or(status.ID, name))
		}
		select {
		case <-waiting.Done():
			return view.Run{}, NotTaken.Errorf("%s: %s", ref, cmp.Or(status.Message, "it waits for an operator"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// begun is the status of a Run object that was created for a spec. A refusal is an
// error, unless another operator may have the flow.
func begun(o control.Object, want v1alpha1.RunSpec) (status v1alpha1.RunStatus, err error) {
	var is v1alpha1.RunSpec
	err = json.Unmarshal(o.Spec, &is)
	if err == nil && len(o.Status) > 0 {
		err = json.Unmarshal(o.Status, &status)
	}
	if err != nil {
		return status, runstore.StoreCorrupt.Errorf("%s: %w", o.Ref, err)
	}
	same, err := equalJSON(is.Input, want.Input)
	if err != nil || !same {
		return status, runtype.InputInvalid.Errorf("%s was asked for with another input", o.Ref)
	}
	if last := status.LastRequest; last != nil && last.State == "Refused" && last.Code != string(workflow.FlowUnknown.Code) {
		kind, ok := fault.Lookup(last.Code)
		if !ok {
			kind = fault.Unknown
		}
		return status, kind.Errorf("%s", last.Message)
	}
	return status, nil
}

func equalJSON(a, b json.RawMessage) (bool, error) {
	var x, y any
	for from, into := range map[*json.RawMessage]*any{&a: &x, &b: &y} {
		if len(*from) == 0 {
			continue
		}
		if err := json.Unmarshal(*from, into); err != nil {
			return false, err
		}
	}
	return reflect.DeepEqual(x, y), nil
}
