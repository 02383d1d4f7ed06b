package backend

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
)

// manager is the owner of the fields that the verbs write.
const manager = "pawl"

// kubeObjects are the objects of a cluster. They look as they do standalone; what
// other programs keep in them is neither shown nor removed.
type kubeObjects struct{ k *Kube }

func (o kubeObjects) at(kind kubeKind, namespace string) dynamic.ResourceInterface {
	return o.k.client.Resource(kind.resource).Namespace(namespace)
}

// kubeFault translates an error of the API server into a fault; a missing object reads as in a store.
func kubeFault(err error, ref control.Ref) error {
	switch err = controller.Fault(err); fault.Of(err) {
	case control.NotFound:
		return control.NotFoundError(ref)
	case control.Exists:
		return control.Exists.Errorf("%s exists already", ref)
	}
	return err
}

// Get implements control.Objects.
func (o kubeObjects) Get(ctx context.Context, ref control.Ref) (control.Object, error) {
	found, _, err := o.get(ctx, ref)
	if err != nil {
		return control.Object{}, err
	}
	return objectOf(found)
}

func (o kubeObjects) get(ctx context.Context, ref control.Ref) (*unstructured.Unstructured, kubeKind, error) {
	kind, err := o.k.kind(ref.Kind)
	if err != nil {
		return nil, kind, err
	}
	o.k.watches.touch(o.k, kind, ref.Namespace, ref.Name)
	found, err := o.at(kind, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return found, kind, kubeFault(err, kind.ref(ref))
}

// List implements control.Objects. A list of all kinds is one page.
func (o kubeObjects) List(ctx context.Context, q control.Query) (control.Page, error) {
	namespace := q.Namespace
	if namespace == "" {
		namespace = o.k.options.Namespace
	}
	limit := int64(q.Limit)
	if limit <= 0 {
		limit = control.DefaultPage
	}
	options := metav1.ListOptions{LabelSelector: q.Selector.String(), Limit: limit, Continue: q.Cursor}
	var kinds []kubeKind
	if q.Kind != "" {
		kind, err := o.k.kind(q.Kind)
		if err != nil {
			return control.Page{}, err
		}
		kinds = append(kinds, kind)
	} else {
		var err error
		if kinds, err = o.k.listed(); err != nil {
			return control.Page{}, err
		}
		options.Limit, options.Continue = 0, ""
	}
	page := control.Page{Items: []control.Object{}}
	for _, kind := range kinds {
		o.k.watches.touch(o.k, kind, namespace, "")
		list, err := o.at(kind, namespace).List(ctx, options)
		if err != nil {
			return control.Page{}, controller.Fault(err)
		}
		for i := range list.Items {
			one, err := objectOf(&list.Items[i])
			if err != nil {
				return control.Page{}, err
			}
			page.Items = append(page.Items, one)
		}
		page.Next = list.GetContinue()
	}
	return page, nil
}

// writeTries is the number of attempts at a change that conflicts with others.
const writeTries = 5

// Apply implements control.Objects. Labels and annotations that are not named stay.
func (o kubeObjects) Apply(ctx context.Context, want control.Object) (control.Object, error) {
	return o.apply(ctx, want, nil)
}

// apply with dry is a dry run at the API server.
func (o kubeObjects) apply(ctx context.Context, want control.Object, dry []string) (control.Object, error) {
	for try := 1; ; try++ {
		created, err := o.applyOnce(ctx, want, dry)
		if fault.Of(err) != fault.WriteConflict || want.Revision != 0 || try == writeTries {
			return created, err
		}
	}
}

func (o kubeObjects) applyOnce(ctx context.Context, want control.Object, dry []string) (control.Object, error) {
	is, kind, err := o.get(ctx, want.Ref)
	ref := kind.ref(want.Ref)
	switch {
	case fault.Of(err) == control.NotFound && want.Revision <= 0 && want.UID == "":
		created, err := o.create(ctx, kind, want, dry)
		if err != nil {
			return control.Object{}, kubeFault(err, ref)
		}
		return objectOf(created)
	case err != nil:
		return control.Object{}, err
	case want.Revision == control.MustNotExist:
		return control.Object{}, control.Exists.Errorf("%s exists already", ref)
	case want.Revision != 0 && want.Revision != revisionOf(is), want.UID != "" && want.UID != string(is.GetUID()):
		return control.Object{}, fault.WriteConflict.Errorf("%s was changed meanwhile", ref)
	case !is.GetDeletionTimestamp().IsZero() && want.Spec != nil:
		if next, err := specOf(want); err != nil || sets(difference(contentOf(is), next)) {
			return control.Object{}, control.BeingDeleted.Errorf("%s is being deleted since %s; its spec cannot be changed", ref, is.GetDeletionTimestamp().UTC().Format(time.RFC3339))
		}
	}
	patch := map[string]any{}
	if want.Spec != nil {
		next, err := specOf(want)
		if err != nil {
			return control.Object{}, err
		}
		patch = difference(contentOf(is), next)
	}
	metadata := map[string]any{}
	for name, pair := range map[string][2]map[string]string{"labels": {is.GetLabels(), want.Labels}, "annotations": {is.GetAnnotations(), want.Annotations}} {
		if changed := named(pair[0], pair[1]); len(changed) > 0 {
			metadata[name] = changed
		}
	}
	return o.patch(ctx, kind, is, metadata, patch, dry)
}

// named returns the entries that a map changes.
func named(is, want map[string]string) map[string]any {
	changed := map[string]any{}
	for key, value := range want {
		if was, has := is[key]; !has || was != value {
			changed[key] = value
		}
	}
	return changed
}

// patch changes exactly the version that was read; nothing, if there is nothing to change.
func (o kubeObjects) patch(ctx context.Context, kind kubeKind, is *unstructured.Unstructured, metadata, patch map[string]any, dry []string) (control.Object, error) {
	if len(metadata) == 0 && len(patch) == 0 {
		return objectOf(is)
	}
	metadata["resourceVersion"], metadata["uid"] = is.GetResourceVersion(), is.GetUID()
	patch["metadata"] = metadata
	data, err := json.Marshal(patch)
	if err != nil {
		return control.Object{}, err
	}
	created, err := o.at(kind, is.GetNamespace()).Patch(ctx, is.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: manager, DryRun: dry})
	if err != nil {
		return control.Object{}, kubeFault(err, control.Ref{Kind: is.GetKind(), Namespace: is.GetNamespace(), Name: is.GetName()})
	}
	return objectOf(created)
}

func (o kubeObjects) create(ctx context.Context, kind kubeKind, want control.Object, dry []string) (*unstructured.Unstructured, error) {
	content, err := specOf(want)
	if err != nil {
		return nil, err
	}
	created := &unstructured.Unstructured{Object: content}
	created.SetGroupVersionKind(kind.kind)
	created.SetNamespace(want.Namespace)
	created.SetName(want.Name)
	created.SetLabels(want.Labels)
	created.SetAnnotations(want.Annotations)
	created.SetFinalizers(want.Finalizers)
	return o.at(kind, want.Namespace).Create(ctx, created, metav1.CreateOptions{FieldManager: manager, DryRun: dry})
}

// Update implements control.Objects for people: status is the operator's and stays.
func (o kubeObjects) Update(ctx context.Context, next control.Object) (control.Object, error) {
	is, kind, err := o.get(ctx, next.Ref)
	if err != nil {
		return control.Object{}, err
	}
	if next.Revision != revisionOf(is) || next.UID != "" && next.UID != string(is.GetUID()) {
		return control.Object{}, fault.WriteConflict.Errorf("%s was changed meanwhile", kind.ref(next.Ref))
	}
	content, err := specOf(next)
	if err != nil {
		return control.Object{}, err
	}
	shown, err := objectOf(is)
	if err != nil {
		return control.Object{}, err
	}
	metadata := map[string]any{}
	for name, pair := range map[string][2]map[string]string{"labels": {shown.Labels, next.Labels}, "annotations": {shown.Annotations, next.Annotations}} {
		changed := named(pair[0], pair[1])
		for key := range pair[0] {
			if _, stays := pair[1][key]; !stays {
				changed[key] = nil
			}
		}
		if len(changed) > 0 {
			metadata[name] = changed
		}
	}
	return o.patch(ctx, kind, is, metadata, difference(contentOf(is), content), nil)
}

// Delete implements control.Objects.
func (o kubeObjects) Delete(ctx context.Context, ref control.Ref, revision int64) (control.Object, error) {
	is, kind, err := o.get(ctx, ref)
	if err != nil {
		return control.Object{}, err
	}
	gone, err := objectOf(is)
	if err != nil {
		return control.Object{}, err
	}
	if revision != 0 && revision != gone.Revision {
		return gone, fault.WriteConflict.Errorf("%s has revision %d, not %d", gone.Ref, gone.Revision, revision)
	}
	uid, background := is.GetUID(), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}
	if revision != 0 {
		version := is.GetResourceVersion()
		options.Preconditions.ResourceVersion = &version
	}
	if err := o.at(kind, ref.Namespace).Delete(ctx, ref.Name, options); err != nil {
		return control.Object{}, kubeFault(err, kind.ref(ref))
	}
	left, err := o.Get(ctx, ref)
	if err == nil && left.UID == gone.UID {
		return left, nil
	}
	if err != nil && fault.Of(err) != control.NotFound {
		return control.Object{}, err
	}
	gone.Finalizers = nil
	if !gone.Deleting() {
		gone.DeletionMark = time.Now().UTC()
	}
	return gone, nil
}

// Feed implements control.Objects for backends that only wait for changes; see Changes.
func (kubeObjects) Feed(string) control.Source[control.Object] { return noFeed{} }

// Metadata of an object that is neither content nor shown.
var envelope = []string{"apiVersion", "kind", "metadata", "status"}

// foreign are annotations of other programs that say nothing to people.
var foreign = []string{"kubectl.kubernetes.io/last-applied-configuration"}

// contentOf is the desired content: the spec, or of kinds without one all fields.
func contentOf(u *unstructured.Unstructured) map[string]any {
	content := maps.Clone(u.Object)
	for _, key := range envelope {
		delete(content, key)
	}
	return content
}

// bare are the kinds whose content does not stand in a spec. Standalone it does.
var bare = map[string]bool{"ConfigMap": true, "Secret": true}

// specOf is the desired content of an object.
func specOf(o control.Object) (map[string]any, error) {
	var spec map[string]any
	if len(o.Spec) > 0 {
		if err := utiljson.Unmarshal(o.Spec, &spec); err != nil {
			return nil, control.Invalid.Errorf("%s: the spec: %w", o.Ref, err)
		}
	}
	switch {
	case bare[o.Kind] && spec == nil:
		return map[string]any{}, nil
	case bare[o.Kind]:
		return spec, nil
	case spec == nil:
		return map[string]any{}, nil
	}
	return map[string]any{"spec": spec}, nil
}

func revisionOf(u *unstructured.Unstructured) int64 {
	n, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0 // an API server that does not count: no revision is ever right
	}
	return n
}

// objectOf shows an object as a standalone one.
func objectOf(u *unstructured.Unstructured) (control.Object, error) {
	o := control.Object{
		Ref: control.Ref{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}, UID: string(u.GetUID()),
		Labels: maps.Clone(u.GetLabels()), Annotations: maps.Clone(u.GetAnnotations()), Generation: u.GetGeneration(), Revision: revisionOf(u),
		Finalizers: u.GetFinalizers(), CreatedAt: u.GetCreationTimestamp().UTC(),
	}
	for _, key := range foreign {
		delete(o.Annotations, key)
	}
	if at := u.GetDeletionTimestamp(); at != nil {
		o.DeletionMark = at.UTC()
	}
	for _, owner := range u.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			o.Owner = &control.Owner{Ref: control.Ref{Kind: owner.Kind, Namespace: o.Namespace, Name: owner.Name}, UID: string(owner.UID)}
		}
	}
	content := contentOf(u)
	if spec, ok := content["spec"]; ok && !bare[o.Kind] && len(content) == 1 {
		content, _ = spec.(map[string]any)
	}
	var err error
	if len(content) > 0 {
		if o.Spec, err = json.Marshal(content); err != nil {
			return o, err
		}
	}
	if status, ok := u.Object["status"].(map[string]any); ok && len(status) > 0 {
		o.Status, err = statusOfKube(status)
	}
	return o, err
}
