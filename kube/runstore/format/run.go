package format

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// runs keeps runs as objects of the kind Run.
type runs struct{}

func (runs) Resource() (group, resource, selector, status string) {
	return api.GroupVersion.Group, "runs", "", "status"
}
func (runs) HistoryResource() (group, resource string) { return api.GroupVersion.Group, "runhistories" }
func (runs) NewObject() runtime.Object                 { return &api.Run{} }
func (runs) NewList() runtime.Object                   { return &api.RunList{} }
func (runs) NewHistoryList() runtime.Object            { return &api.RunHistoryList{} }
func (runs) Name(id string) string                     { return id }

func (runs) Items(list runtime.Object) []runtime.Object {
	all := list.(*api.RunList).Items
	items := make([]runtime.Object, len(all))
	for i := range all {
		items[i] = &all[i]
	}
	return items
}

func (runs) Create(o *Object) (any, error) {
	meta := NewMeta(o.Name, o.Namespace, Marked(map[string]string{}, o.Operator))
	if len(o.Owners) > 0 {
		meta["ownerReferences"] = o.Owners
	}
	return map[string]any{"apiVersion": api.GroupVersion.String(), "kind": "Run", "metadata": meta, "spec": o.Spec}, nil
}

func (runs) Decode(from runtime.Object) (*Object, error) {
	r, ok := from.(*api.Run)
	if !ok {
		return nil, fmt.Errorf("a %T is not a Run", from)
	}
	o := &Object{Spec: r.Spec, Status: r.Status}
	o.setMeta(&r.ObjectMeta)
	o.ResolveStatus()
	if o.Accepted() {
		o.RunID = o.Name
		if o.Status.ID != "" {
			o.RunID = o.Status.ID
		}
	}
	return o, nil
}

func (runs) Subject(from runtime.Object) string {
	r, ok := from.(*api.Run)
	if !ok {
		return ""
	}
	return (&Object{Name: r.Name, Namespace: r.Namespace, Spec: api.RunSpec{Subject: r.Spec.Subject}}).Subject()
}

func (runs) MatchesName(name string) bool { return !strings.HasPrefix(name, ConfigMapPrefix) }

func (runs) Save(o *Object, e *Edit) ([]byte, error) {
	from := api.RunStatus{}
	if !o.Fresh {
		from = Head(&o.Status)
	}
	status, err := change(from, e.Head)
	if err != nil {
		return nil, err
	}
	if steps := (Tree{}); len(e.Steps) > 0 {
		for name, step := range e.Steps {
			if old, known := o.Status.Steps[name]; known && !o.Fresh {
				part, err := change(old, step)
				if err != nil {
					return nil, err
				}
				if len(part) > 0 {
					steps[name] = part
				}
				continue
			}
			steps[name] = step
		}
		status["steps"] = steps
	}
	putPart(status, "events", e.Events)
	putPart(status, "outbox", e.Outbox)
	if len(e.consumed) > 0 {
		part := Tree{}
		for key, id := range e.consumed {
			part[key] = id
			if id == "" {
				part[key] = nil
			}
		}
		status["consumed"] = part
	}
	return client.Encode(Tree{"metadata": Tree{"resourceVersion": VersionText(o.Version)}, "status": status})
}

// putPart sets a map in a patch unless it is empty. nil values are removals.
func putPart[T any](into Tree, name string, part map[string]*T) {
	if len(part) > 0 {
		into[name] = part
	}
}

func (runs) PatchSignals(o *Object, p *SignalEdit) ([]byte, error) {
	signals := Tree{}
	for key, s := range p.Add {
		signals[key] = s
	}
	for _, key := range p.Remove {
		signals[key] = nil
	}
	spec := Tree{"signals": signals}
	if p.Mail != o.Spec.Mail {
		spec["mail"] = p.Mail
	}
	return client.Encode(Tree{"metadata": Tree{"resourceVersion": VersionText(o.Version)}, "spec": spec})
}

// historyOwner makes a run the owner of its history, which is deleted with it.
func historyOwner(o *Object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: o.Name, UID: types.UID(o.UID)}}
}

func (runs) NewHistory(o *Object, events []runtype.Event) (any, error) {
	data, err := client.Encode(events)
	if err != nil {
		return nil, err
	}
	first, last := events[0].Seq, events[len(events)-1].Seq
	meta := NewMeta(fmt.Sprintf("%s-%s", o.Name, Number(first)), o.Namespace, map[string]string{LabelRun: LabelValue(o.Name)})
	meta["ownerReferences"] = historyOwner(o, api.GroupVersion.String(), "Run")
	return map[string]any{"apiVersion": api.GroupVersion.String(), "kind": "RunHistory", "metadata": meta,
		"run": o.ID(), "first": first, "last": last, "events": string(data)}, nil
}

func (runs) DecodeHistory(list runtime.Object) ([]runtype.Event, error) {
	var events []runtype.Event
	for _, item := range list.(*api.RunHistoryList).Items {
		var part []runtype.Event
		if err := json.Unmarshal([]byte(item.Events), &part); err != nil {
			return nil, runstore.StoreCorrupt.Errorf("RunHistory %s/%s: %w", item.Namespace, item.Name, err)
		}
		events = append(events, part...)
	}
	return events, nil
}
