package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Draft is an object whose status a pass fills in, to be written once, at the
// end of the pass, and only if it has changed. One pass works with it at a time.
//
//	d, err := controller.Load(ctx, m.GetClient(), m.GetClient(), key, &v1alpha1.SharedStorageCluster{})
//	d.Object.Status.State = "Running"
//	_, err = d.Save(ctx)
type Draft[T client.Object] struct {
	Object  T
	before  T              // its status as it was read or written last
	encoded map[string]any // that of before, once it was needed
	client  client.Client
}

// Load reads an object into obj, from a cache or the API server, and begins a
// draft that is written through the client. control.NotFound if it is gone.
func Load[T client.Object](ctx context.Context, from client.Reader, to client.Client, key client.ObjectKey, obj T) (*Draft[T], error) {
	if err := from.Get(ctx, key, obj); err != nil {
		return nil, Fault(err)
	}
	return NewDraft(to, obj)
}

// NewDraft begins a draft of an object that was read just now.
func NewDraft[T client.Object](c client.Client, obj T) (*Draft[T], error) {
	before, ok := obj.DeepCopyObject().(T)
	if !ok {
		return nil, fmt.Errorf("controller: a copy of %T has another type", obj)
	}
	return &Draft[T]{Object: obj, before: before, client: c}, nil
}

// Save writes what has changed of the status since the draft began or was saved
// last, as one merge patch of exactly that version of the object; it reports
// whether there was anything to write. fault.WriteConflict if the object was
// changed or replaced in between; then nothing is written, and the draft is of
// no more use. Object is what the API server has answered, afterwards.
func (d *Draft[T]) Save(ctx context.Context) (wrote bool, err error) {
	change, err := d.change()
	if err != nil || len(change) == 0 {
		return false, err
	}
	patch, err := guarded(d.Object, map[string]any{}, map[string]any{"status": change})
	if err != nil {
		return false, err
	}
	if err := d.client.Status().Patch(ctx, d.Object, patch); err != nil {
		return false, Fault(err)
	}
	next, err := NewDraft(d.client, d.Object)
	if err == nil {
		*d = *next
	}
	return true, err
}

// Rebase is for a Save that met fault.WriteConflict: when only what is not ours
// was changed, the draft becomes one of the newest version, and Save may be
// called again. Others may have changed labels and those annotations that do not
// matter; anything else (the spec, the status, finalizers, a deletion) is to be
// judged anew: it reports false, and the draft is of no more use.
func (d *Draft[T]) Rebase(ctx context.Context, from client.Reader, matters func(annotation string) bool) (bool, error) {
	newest, ok := reflect.New(reflect.TypeOf(d.Object).Elem()).Interface().(T)
	if !ok {
		return false, fmt.Errorf("controller: %T is no pointer to an object", d.Object)
	}
	if err := from.Get(ctx, client.ObjectKeyFromObject(d.Object), newest); err != nil {
		return false, Fault(err)
	}
	foreign, err := d.changeTo(newest)
	if err != nil {
		return false, err
	}
	unasked := func(o client.Object) map[string]string {
		kept := maps.Clone(o.GetAnnotations())
		maps.DeleteFunc(kept, func(key, _ string) bool { return !matters(key) })
		return kept
	}
	old := d.Object
	if newest.GetUID() != old.GetUID() || newest.GetGeneration() != old.GetGeneration() || !newest.GetDeletionTimestamp().Equal(old.GetDeletionTimestamp()) ||
		!slices.Equal(newest.GetFinalizers(), old.GetFinalizers()) || !maps.Equal(unasked(newest), unasked(old)) ||
		len(foreign) > 0 {
		return false, nil
	}
	old.SetResourceVersion(newest.GetResourceVersion())
	old.SetAnnotations(newest.GetAnnotations())
	old.SetLabels(newest.GetLabels())
	return true, nil
}

// Changed reports whether Save would write. A typed status is compared and not encoded: Save may find that
// both are the same in JSON.
func (d *Draft[T]) Changed() bool {
	if was, is := typedStatus(d.before), typedStatus(d.Object); was.IsValid() && is.IsValid() {
		return !reflect.DeepEqual(was.Interface(), is.Interface())
	}
	change, err := d.change()
	return err != nil || len(change) > 0
}

func (d *Draft[T]) change() (map[string]any, error) { return d.changeTo(d.Object) }

// changeTo is the merge patch that makes the status that was read that of another object. It
// encodes nothing while the typed statuses are equal, and otherwise the statuses only.
func (d *Draft[T]) changeTo(now client.Object) (map[string]any, error) {
	was, is := typedStatus(d.before), typedStatus(now)
	if was.IsValid() && is.IsValid() && reflect.DeepEqual(was.Interface(), is.Interface()) {
		return nil, nil
	}
	if d.encoded == nil {
		from, err := statusOf(d.before)
		if err != nil {
			return nil, err
		}
		d.encoded = from
	}
	to, err := statusOf(now)
	if err != nil {
		return nil, err
	}
	return difference(d.encoded, to), nil
}

// typedStatus is the field Status of an object; invalid if it has none, as unstructured
// objects.
func typedStatus(obj client.Object) reflect.Value {
	v := reflect.Indirect(reflect.ValueOf(obj))
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName("Status")
}

// statusOf reads the status as JSON values; numbers keep all their digits.
func statusOf(obj client.Object) (map[string]any, error) {
	var all struct {
		Status map[string]any `json:"status"`
	}
	into, from := any(&all), any(obj)
	if status := typedStatus(obj); status.IsValid() {
		into, from = &all.Status, status.Interface()
	}
	raw, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("controller: the status of %s cannot be written as JSON: %w", client.ObjectKeyFromObject(obj), err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(into)
	return all.Status, err
}

// difference is the merge patch (RFC 7386) from one object to another, empty if
// there is none. Such a patch cannot say null: a key with null is as good as none.
func difference(from, to map[string]any) map[string]any {
	change := map[string]any{}
	for key, was := range from {
		if now, has := to[key]; was != nil && (!has || now == nil) {
			change[key] = nil
		}
	}
	for key, now := range to {
		was := from[key]
		before, wasObject := was.(map[string]any)
		after, isObject := now.(map[string]any)
		switch {
		case now == nil || reflect.DeepEqual(was, now):
		case wasObject && isObject:
			if inner := difference(before, after); len(inner) > 0 {
				change[key] = inner
			}
		default:
			change[key] = now
		}
	}
	return change
}

// guarded is a merge patch that counts only for the version of the object that
// was read: it names its uid and resourceVersion.
func guarded(obj client.Object, metadata, rest map[string]any) (client.Patch, error) {
	if obj.GetResourceVersion() == "" {
		return nil, fmt.Errorf("controller: %s was never read: it has no resourceVersion", client.ObjectKeyFromObject(obj))
	}
	metadata["resourceVersion"], metadata["uid"] = obj.GetResourceVersion(), obj.GetUID()
	rest["metadata"] = metadata
	raw, err := json.Marshal(rest)
	return client.RawPatch(types.MergePatchType, raw), err
}
