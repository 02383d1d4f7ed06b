package kube

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Objects implements port.Objects. Reads come from a cache; Get is never older than what this process has written.
type Objects struct {
	cache   *controller.Cache
	client  client.Client // reads from the cache
	live    client.Reader
	events  controller.Events
	log     *slog.Logger
	written written
	nodes   nodes
}

var _ port.Objects = &Objects{}

// ObjectsOptions of Objects.
type ObjectsOptions struct {
	// Selector chooses the clusters, backups and restores that this operator serves. nil: all.
	Selector labels.Selector
	Log      *slog.Logger // of what Tell records; nil: slog.Default
}

// NewObjects adds the cache of this operator to a manager, whose scheme has the kinds of AddToScheme.
func NewObjects(m *controller.Manager, options ObjectsOptions) (*Objects, error) {
	c, err := newCache(m, options.Selector)
	if err != nil {
		return nil, err
	}
	return &Objects{
		cache: c, client: c.Client(), live: m.Live(), events: m.Events("foundationdb"), log: cmp.Or(options.Log, slog.Default()),
		nodes: nodes{cache: c, live: m.Live(), inUse: make(chan struct{})},
	}, nil
}

// Get implements port.Objects.
func (o *Objects) Get(ctx context.Context, object port.Object) (bool, error) {
	if _, node := object.(*corev1.Node); node {
		if err := o.nodes.use(ctx); err != nil {
			return false, err
		}
	}
	into := named(object)
	found, err := exists(o.client.Get(ctx, client.ObjectKeyFromObject(object), into))
	if err != nil {
		return false, err
	}
	newer, behind := o.written.missing(into, found)
	switch {
	case behind && found && newer.object != nil:
		into = newer.object.DeepCopyObject().(client.Object)
	case behind, found && isForeign(into):
		into = named(object)
		if found, err = exists(o.live.Get(ctx, client.ObjectKeyFromObject(object), into)); err != nil {
			return false, err
		}
	}
	if found {
		fill(object, into)
	}
	return found, nil
}

// List implements port.Objects. Lists are in the order of namespaces and names.
func (o *Objects) List(ctx context.Context, list runtime.Object, namespace string, selected map[string]string) error {
	all, ok := list.(client.ObjectList)
	if !ok {
		return controller.Refused.Errorf("%T is no list", list)
	}
	if _, ok := list.(*corev1.NodeList); ok {
		if namespace != "" {
			return controller.Refused.Errorf("nodes are in no namespace, and not in %s", namespace)
		}
		if err := o.nodes.use(ctx); err != nil {
			return err
		}
	}
	options := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels(selected)}
	into := reflect.New(reflect.TypeOf(all).Elem()).Interface().(client.ObjectList)
	if err := o.client.List(ctx, into, options...); err != nil {
		return err
	}
	items := itemsOf(into)
	for i := range items.Len() {
		if !isForeign(itemAt(items, i)) {
			continue
		}
		into = reflect.New(reflect.TypeOf(all).Elem()).Interface().(client.ObjectList)
		if err := o.live.List(ctx, into, options...); err != nil {
			return err
		}
		items = itemsOf(into)
		break
	}
	sort.Slice(items.Interface(), func(i, j int) bool {
		a, b := itemAt(items, i), itemAt(items, j)
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName()) < 0
	})
	fill(list, into)
	return nil
}

func itemsOf(list client.ObjectList) reflect.Value {
	return reflect.ValueOf(list).Elem().FieldByName("Items")
}

func itemAt(items reflect.Value, i int) client.Object {
	return items.Index(i).Addr().Interface().(client.Object)
}

// Create implements port.Objects.
func (o *Objects) Create(ctx context.Context, object port.Object) error {
	made := object.DeepCopyObject().(client.Object)
	made.SetResourceVersion("")
	made.SetUID("")
	if err := o.client.Create(ctx, made); err != nil {
		return err
	}
	o.wrote(object, made)
	return nil
}

// Patch implements port.Objects.
func (o *Objects) Patch(ctx context.Context, object port.Object, patch []byte) error {
	stored := named(object)
	if err := o.client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	o.wrote(object, stored)
	return nil
}

// Delete implements port.Objects.
func (o *Objects) Delete(ctx context.Context, object port.Object) error {
	uid := object.GetUID()
	if uid == "" {
		return controller.Refused.Errorf("%s was never read: it has no UID", nameOf(object))
	}
	err := o.client.Delete(ctx, named(object), client.Preconditions{UID: &uid})
	if errors.Is(err, fault.WriteConflict) { // its UID, or something else?
		now := named(object)
		found, failed := exists(o.live.Get(ctx, client.ObjectKeyFromObject(object), now))
		if failed == nil && (!found || now.GetUID() != uid) {
			return nil
		}
		return err
	}
	if _, err = exists(err); err == nil {
		o.written.gone(object)
	}
	return err
}

// SaveStatus implements port.Objects. It writes what has changed, as one merge patch of exactly that version of the
// object, so that fields of a status that only others know stay. A status that has not changed is not written.
func (o *Objects) SaveStatus(ctx context.Context, object port.Object) error {
	if !isOurKind(object) {
		return controller.Refused.Errorf("%T has no status of this operator", object)
	}
	base, err := o.base(ctx, object)
	if err != nil {
		return err
	}
	draft, err := controller.NewDraft(o.client, base)
	if err != nil {
		return err
	}
	draft.Object = named(object)
	draft.Object.SetResourceVersion(base.GetResourceVersion())
	draft.Object.SetUID(base.GetUID())
	statusOf(draft.Object).Set(statusOf(object))
	wrote, err := draft.Save(ctx)
	if err != nil || !wrote {
		return err
	}
	o.wrote(object, draft.Object)
	return nil
}

// base returns the object, which the caller must not change, in the version with which a status is to be saved.
func (o *Objects) base(ctx context.Context, object port.Object) (client.Object, error) {
	same := func(known client.Object) bool {
		return known.GetResourceVersion() == object.GetResourceVersion() && known.GetUID() == object.GetUID()
	}
	if known := o.written.content(object); known != nil && same(known) {
		return known, nil
	}
	known := named(object)
	if found, err := exists(o.client.Get(ctx, client.ObjectKeyFromObject(object), known, client.UnsafeDisableDeepCopy)); err != nil || found && same(known) {
		return known, err
	}
	known = named(object)
	if err := o.live.Get(ctx, client.ObjectKeyFromObject(object), known); err != nil {
		return nil, err
	}
	if !same(known) {
		return nil, fault.WriteConflict.Errorf("%s is in version %s, and its status is of version %q", nameOf(object), known.GetResourceVersion(), object.GetResourceVersion())
	}
	return known, nil
}

// Tell implements port.Objects. The log has it too, since Events do not last.
func (o *Objects) Tell(about port.Object, event port.Event) {
	level, tell := slog.LevelInfo, o.events.Normal
	if event.Warning {
		level, tell = slog.LevelWarn, o.events.Warn
	}
	o.log.Log(context.Background(), level, event.Message, "reason", event.Reason, "object", nameOf(about))
	tell(about, event.Reason, "%s", event.Message)
}

// wrote gives the caller what was stored, and remembers it.
func (o *Objects) wrote(object port.Object, stored client.Object) {
	fill(object, stored)
	o.written.stored(stored, isOurKind(stored))
}

func isOurKind(object runtime.Object) bool {
	switch object.(type) {
	case *v1beta2.FoundationDBCluster, *v1beta2.FoundationDBBackup, *v1beta2.FoundationDBRestore:
		return true
	}
	return false
}

// exists reports whether an answer has an object; that there is none is no error.
func exists(err error) (bool, error) {
	if errors.Is(err, control.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// named returns an empty object of the same type and name.
func named(object client.Object) client.Object {
	empty := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	empty.SetNamespace(object.GetNamespace())
	empty.SetName(object.GetName())
	return empty
}

// nameOf is how logs and errors call an object: FoundationDBCluster n/blue.
func nameOf(object client.Object) string {
	return reflect.TypeOf(object).Elem().Name() + " " + client.ObjectKeyFromObject(object).String()
}

// fill replaces the content of an object or a list by that of another one of its type.
func fill(object, from runtime.Object) {
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(from).Elem())
}

// statusOf returns the field Status of one of our kinds.
func statusOf(object client.Object) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName("Status")
}
