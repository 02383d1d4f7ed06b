package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// objects is the API server as one instance of the operator sees it.
type objects struct {
	w     *World
	owner string
}

// Event is an Event that was told.
type Event struct {
	At        time.Time
	Owner     string
	Kind      string
	Namespace string
	Name      string
	port.Event
}

// Events returns the Events that were told, in order.
func (w *World) Events() []Event { return slices.Clone(w.events) }

// fill gives an object of the caller the value of another one.
func fill(into, from port.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}

// table returns the objects of the kind of an object.
func (o *objects) table(object port.Object) (*table, error) {
	kind := kindOf(object)
	namespaced, known := kinds[kind]
	switch {
	case !known:
		return nil, control.Invalid.Errorf("the API server has no kind %s", kind)
	case object.GetName() == "" || namespaced && object.GetNamespace() == "":
		return nil, control.Invalid.Errorf("%s %s: namespace or name is missing", kind, nameOf(object))
	case !namespaced && object.GetNamespace() != "":
		return nil, control.Invalid.Errorf("%s %s has no namespace", kind, nameOf(object))
	}
	return o.w.store.tables[kind], nil
}

// call does a call, with the faults that hit it. A person meets none.
func (o *objects) call(ctx context.Context, verb, kind, called string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return fault.APIUnavailable.Errorf("%s %s %s: %w", verb, kind, called, err)
	}
	if err := o.w.hooks.alive(o.owner); err != nil {
		return err
	}
	o.w.hooks.count(o.owner, verb, kind)
	if o.owner == "" {
		return do()
	}
	lost := o.w.faults.hit(FaultUnavailable, verb, kind, called)
	if lost != nil && lost.Before {
		return fault.APIUnavailable.Errorf("%s %s %s: connection refused", verb, kind, called)
	}
	err := do()
	if lost != nil {
		return fault.APIUnavailable.Errorf("%s %s %s: connection reset by peer", verb, kind, called)
	}
	return err
}

// write does a call that changes something, between the hooks.
func (o *objects) write(ctx context.Context, verb string, object port.Object, do func(*table) error) error {
	t, err := o.table(object)
	if err != nil {
		return err
	}
	kind := kindOf(object)
	if o.owner != "" {
		o.w.hooks.writes++
	}
	return o.call(ctx, verb, kind, object.GetName(), func() error {
		e := Effect{Owner: o.owner, Verb: verb, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		return o.w.hooks.effect(e, func() error { return do(t) })
	})
}

// conflict is an injected conflict.
func (o *objects) conflict(verb string, object port.Object) error {
	if o.owner != "" && o.w.faults.hit(FaultConflict, verb, kindOf(object), object.GetName()) != nil {
		return fault.WriteConflict.Errorf("%s %s: the object has been modified", kindOf(object), nameOf(object))
	}
	return nil
}

// Get fills object.
func (o *objects) Get(ctx context.Context, object port.Object) (found bool, err error) {
	t, err := o.table(object)
	if err != nil {
		return false, err
	}
	err = o.call(ctx, "Get", kindOf(object), object.GetName(), func() error {
		stored := t.objects[nameOf(object)]
		if found = stored != nil; found {
			fill(object, stored)
		}
		return nil
	})
	return found && err == nil, err
}

// List fills list, in the order of namespaces and names.
func (o *objects) List(ctx context.Context, list runtime.Object, namespace string, labels map[string]string) error {
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	if !items.IsValid() {
		return control.Invalid.Errorf("%T is no list", list)
	}
	kind := items.Type().Elem().Name()
	namespaced, known := kinds[kind]
	if !known || !namespaced && namespace != "" {
		return control.Invalid.Errorf("the API server has no list of %s in %q", kind, namespace)
	}
	return o.call(ctx, "List", kind, "", func() error {
		var lag time.Duration
		if f := o.w.faults.hit(FaultStaleList, "List", kind, ""); f != nil && o.owner != "" {
			lag = f.Lag
		}
		found := reflect.MakeSlice(items.Type(), 0, 0)
		for _, object := range o.w.store.view(kind, lag) {
			if (namespace == "" || object.GetNamespace() == namespace) && has(object.GetLabels(), labels) {
				found = reflect.Append(found, reflect.ValueOf(object.DeepCopyObject()).Elem())
			}
		}
		items.Set(found)
		return nil
	})
}

// has reports whether labels contain all others.
func has(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if own, there := labels[key]; !there || own != value {
			return false
		}
	}
	return true
}

// Create stores a new object.
func (o *objects) Create(ctx context.Context, object port.Object) error {
	return o.write(ctx, "Create", object, func(t *table) error {
		kind := kindOf(object)
		if t.objects[nameOf(object)] != nil {
			return control.Exists.Errorf("%s %s exists", kind, nameOf(object))
		}
		if o.owner != "" {
			if o.w.faults.hit(FaultRefused, "Create", kind, object.GetName()) != nil {
				return fmt.Errorf("%s %q is forbidden: denied by an admission webhook", kind, object.GetName())
			}
			if kind == "Pod" && o.w.faults.hit(FaultQuota, "Create", kind, object.GetName()) != nil {
				return fmt.Errorf("pods %q is forbidden: exceeded quota", object.GetName())
			}
		}
		next := clone(object)
		if err := cmp.Or(o.serialized(next), o.w.admit(next)); err != nil {
			return err
		}
		o.w.store.add(next)
		if stored := t.objects[nameOf(object)]; stored != nil {
			fill(object, stored)
		}
		return nil
	})
}

// admit sets what the API server sets in a new object, and refuses what it refuses.
func (w *World) admit(object port.Object) error {
	switch next := object.(type) {
	case *v1beta2.FoundationDBCluster:
		next.Status = v1beta2.FoundationDBClusterStatus{}
	case *v1beta2.FoundationDBBackup:
		next.Status = v1beta2.FoundationDBBackupStatus{}
	case *v1beta2.FoundationDBRestore:
		next.Status = v1beta2.FoundationDBRestoreStatus{}
	case *corev1.Pod:
		next.Status = corev1.PodStatus{Phase: corev1.PodPending}
		if len(next.Spec.Containers) == 0 {
			return control.Invalid.Errorf("pod %s: spec.containers: required value", nameOf(next))
		}
		if next.Spec.TerminationGracePeriodSeconds == nil {
			next.Spec.TerminationGracePeriodSeconds = new(int64(30))
		}
	case *corev1.PersistentVolumeClaim:
		next.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
		if !slices.Contains(next.Finalizers, claimProtection) {
			next.Finalizers = append(next.Finalizers, claimProtection)
		}
	case *corev1.Service:
		if next.Spec.ClusterIP == "" {
			next.Spec.ClusterIP = w.network.serviceIP(next)
			next.Spec.ClusterIPs = []string{next.Spec.ClusterIP}
		}
	}
	return nil
}

// Patch merges a patch into a stored object.
func (o *objects) Patch(ctx context.Context, object port.Object, patch []byte) error {
	return o.write(ctx, "Patch", object, func(t *table) error {
		if err := o.conflict("Patch", object); err != nil {
			return err
		}
		stored := t.objects[nameOf(object)]
		if stored == nil {
			return control.NotFound.Errorf("there is no %s %s", kindOf(object), nameOf(object))
		}
		next, err := patched(stored, patch)
		if err != nil {
			return err
		}
		others, err := o.w.keepUnknown(stored, patch)
		if err != nil {
			return err
		}
		if others || !same(stored, next) {
			if others || counted(kindOf(stored)) && !same(specOf(stored), specOf(next)) {
				next.SetGeneration(stored.GetGeneration() + 1)
			}
			o.w.store.put(next)
			o.w.store.finalized(next, o.owner)
			stored = next
		}
		if now := t.objects[nameOf(object)]; now != nil {
			stored = now
		}
		fill(object, stored)
		return nil
	})
}

// specOf returns the spec of an object.
func specOf(o port.Object) any {
	if field := reflect.ValueOf(o).Elem().FieldByName("Spec"); field.IsValid() {
		return field.Interface()
	}
	return nil
}

// Delete begins to delete an object.
func (o *objects) Delete(ctx context.Context, object port.Object) error {
	return o.write(ctx, "Delete", object, func(t *table) error {
		if stored := t.objects[nameOf(object)]; stored != nil && stored.GetUID() == object.GetUID() {
			o.w.store.delete(stored, o.owner)
		}
		return nil
	})
}

// SaveStatus stores the status of one of the three kinds.
func (o *objects) SaveStatus(ctx context.Context, object port.Object) error {
	if !custom(kindOf(object)) {
		return control.Invalid.Errorf("%s has no status that can be saved", kindOf(object))
	}
	return o.write(ctx, "SaveStatus", object, func(t *table) error {
		if err := o.conflict("SaveStatus", object); err != nil {
			return err
		}
		stored := t.objects[nameOf(object)]
		if stored == nil || object.GetUID() != "" && stored.GetUID() != object.GetUID() {
			return control.NotFound.Errorf("there is no %s %s", kindOf(object), nameOf(object))
		}
		if stored.GetResourceVersion() != object.GetResourceVersion() {
			return fault.WriteConflict.Errorf("%s %s has the resource version %s, not %s", kindOf(object), nameOf(object), stored.GetResourceVersion(), object.GetResourceVersion())
		}
		next := clone(stored)
		reflect.ValueOf(next).Elem().FieldByName("Status").Set(reflect.ValueOf(object.DeepCopyObject()).Elem().FieldByName("Status"))
		o.w.prune(next)
		if err := o.serialized(next); err != nil {
			return err
		}
		if !same(stored, next) {
			o.w.store.put(next)
			stored = next
		}
		fill(object, stored)
		return nil
	})
}

// serialized has an object go through JSON, as it does on its way to the API server and back.
func (o *objects) serialized(object port.Object) error {
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	fresh, ok := reflect.New(reflect.TypeOf(object).Elem()).Interface().(port.Object)
	if !ok {
		return errors.New("no object")
	}
	if err := json.Unmarshal(encoded, fresh); err != nil {
		return err
	}
	fill(object, fresh)
	return nil
}

// Tell records an Event.
func (o *objects) Tell(about port.Object, event port.Event) {
	if o.w.hooks.Dead(o.owner) || o.owner != "" && o.w.faults.hit(FaultEventLost, "", kindOf(about), about.GetName()) != nil {
		return
	}
	o.w.events = append(o.w.events, Event{
		At: o.w.Now(), Owner: o.owner, Kind: kindOf(about), Namespace: about.GetNamespace(), Name: about.GetName(), Event: event,
	})
}
