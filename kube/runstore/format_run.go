package runstore

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

func (runs) resource() (group, resource, selector, status string) {
	return api.GroupVersion.Group, "runs", "", "status"
}
func (runs) historyResource() (group, resource string) { return api.GroupVersion.Group, "runhistories" }
func (runs) newObject() runtime.Object                 { return &api.Run{} }
func (runs) newList() runtime.Object                   { return &api.RunList{} }
func (runs) newHistoryList() runtime.Object            { return &api.RunHistoryList{} }
func (runs) name(id string) string                     { return id }

func (runs) items(list runtime.Object) []runtime.Object {
	all := list.(*api.RunList).Items
	items := make([]runtime.Object, len(all))
	for i := range all {
		items[i] = &all[i]
	}
	return items
}

func (runs) create(o *object) (any, error) {
	meta := newMeta(o.name, o.namespace, marked(map[string]string{}, o.operator))
	if len(o.owners) > 0 {
		meta["ownerReferences"] = o.owners
	}
	return map[string]any{"apiVersion": api.GroupVersion.String(), "kind": "Run", "metadata": meta, "spec": o.spec}, nil
}

func (runs) decode(from runtime.Object) (*object, error) {
	r, ok := from.(*api.Run)
	if !ok {
		return nil, fmt.Errorf("a %T is not a Run", from)
	}
	o := &object{spec: r.Spec, status: r.Status}
	o.setMeta(&r.ObjectMeta)
	o.resolveStatus()
	if o.accepted() {
		o.runID = o.name
		if o.status.ID != "" {
			o.runID = o.status.ID
		}
	}
	return o, nil
}

func (runs) subject(from runtime.Object) string {
	r, ok := from.(*api.Run)
	if !ok {
		return ""
	}
	return (&object{name: r.Name, namespace: r.Namespace, spec: api.RunSpec{Subject: r.Spec.Subject}}).subject()
}

func (runs) matchesName(name string) bool { return !strings.HasPrefix(name, configMapPrefix) }

func (runs) save(o *object, e *edit) ([]byte, error) {
	from := api.RunStatus{}
	if !o.fresh {
		from = head(&o.status)
	}
	status, err := change(from, e.head)
	if err != nil {
		return nil, err
	}
	if steps := (tree{}); len(e.steps) > 0 {
		for name, step := range e.steps {
			if old, known := o.status.Steps[name]; known && !o.fresh {
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
	putPart(status, "events", e.events)
	putPart(status, "outbox", e.outbox)
	if len(e.consumed) > 0 {
		part := tree{}
		for key, id := range e.consumed {
			part[key] = id
			if id == "" {
				part[key] = nil
			}
		}
		status["consumed"] = part
	}
	return client.Encode(tree{"metadata": tree{"resourceVersion": versionText(o.version)}, "status": status})
}

// putPart sets a map in a patch unless it is empty. nil values are removals.
func putPart[T any](into tree, name string, part map[string]*T) {
	if len(part) > 0 {
		into[name] = part
	}
}

func (runs) patchSignals(o *object, p *signalEdit) ([]byte, error) {
	signals := tree{}
	for key, s := range p.add {
		signals[key] = s
	}
	for _, key := range p.remove {
		signals[key] = nil
	}
	spec := tree{"signals": signals}
	if p.mail != o.spec.Mail {
		spec["mail"] = p.mail
	}
	return client.Encode(tree{"metadata": tree{"resourceVersion": versionText(o.version)}, "spec": spec})
}

// historyOwner makes a run the owner of its history, which is deleted with it.
func historyOwner(o *object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: o.name, UID: types.UID(o.uid)}}
}

func (runs) newHistory(o *object, events []runtype.Event) (any, error) {
	data, err := client.Encode(events)
	if err != nil {
		return nil, err
	}
	first, last := events[0].Seq, events[len(events)-1].Seq
	meta := newMeta(fmt.Sprintf("%s-%s", o.name, number(first)), o.namespace, map[string]string{labelRun: labelValue(o.name)})
	meta["ownerReferences"] = historyOwner(o, api.GroupVersion.String(), "Run")
	return map[string]any{"apiVersion": api.GroupVersion.String(), "kind": "RunHistory", "metadata": meta,
		"run": o.id(), "first": first, "last": last, "events": string(data)}, nil
}

func (runs) decodeHistory(list runtime.Object) ([]runtype.Event, error) {
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
