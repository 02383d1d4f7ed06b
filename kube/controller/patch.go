package controller

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pawl-dev/pawl/fault"
)

// Finalize adds a finalizer to an object. It does nothing if the object has it already or
// is being deleted. fault.WriteConflict if the object was changed since it was read.
func Finalize(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	if controllerutil.ContainsFinalizer(obj, finalizer) || !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return setFinalizers(ctx, c, obj, append(slices.Clone(obj.GetFinalizers()), finalizer))
}

// Release removes a finalizer from an object. It does nothing if the object does not have
// it or was deleted. fault.WriteConflict if the object was changed since it was read.
func Release(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	if !controllerutil.ContainsFinalizer(obj, finalizer) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	if err := setFinalizers(ctx, c, obj, left); err != nil && !isNotFound(err) {
		return err
	}
	return nil
}

// setFinalizers replaces the whole list, so the patch must name the version that was read.
func setFinalizers(ctx context.Context, c client.Client, obj client.Object, finalizers []string) error {
	patch, err := guarded(obj, map[string]any{"finalizers": finalizers}, map[string]any{})
	if err != nil {
		return err
	}
	return Fault(c.Patch(ctx, obj, patch))
}

// Annotate changes one annotation of an object from one value to another; "" is a missing
// annotation. It writes only if the annotation still has the value from and the object has
// the same uid; otherwise it returns fault.WriteConflict. So it never overwrites a request
// that was made meanwhile. Afterwards obj is the object that the API server has returned.
//
// If from is "", the patch tests the version of the object, because a patch cannot test
// that an annotation is missing: any change since the read is a conflict.
func Annotate(ctx context.Context, c client.Client, obj client.Object, key, from, to string) error {
	if from == to {
		return nil
	}
	patch, err := annotation(obj, key, from, to)
	if err != nil {
		return err
	}
	before := obj.DeepCopyObject().(client.Object)
	err = c.Patch(ctx, obj, patch)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == http.StatusUnprocessableEntity && stale(ctx, c, before, key, from) {
		return fault.WriteConflict.Errorf("annotation %s of %s is not %q any more: %w", key, client.ObjectKeyFromObject(before), from, err)
	}
	return Fault(err)
}

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from,omitempty"`
	Value any    `json:"value,omitempty"`
}

// SameObject is a JSON patch that the API server applies only while the object has the UID
// of obj: not to a new object of its name.
func SameObject(obj client.Object, operations ...Operation) (client.Patch, error) {
	return tested([]Operation{{Op: "test", Path: "/metadata/uid", Value: obj.GetUID()}}, operations)
}

// SameSpec is a JSON patch that the API server applies only while the object has the UID and
// the generation of obj: edits of its status and metadata do not keep it from being applied.
func SameSpec(obj client.Object, operations ...Operation) (client.Patch, error) {
	return tested([]Operation{{Op: "test", Path: "/metadata/uid", Value: obj.GetUID()}, {Op: "test", Path: "/metadata/generation", Value: obj.GetGeneration()}}, operations)
}

func tested(tests, operations []Operation) (client.Patch, error) {
	raw, err := json.Marshal(append(tests, operations...))
	return client.RawPatch(types.JSONPatchType, raw), err
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func annotation(obj client.Object, key, from, to string) (client.Patch, error) {
	path := "/metadata/annotations/" + pointer.Replace(key)
	var ops []Operation
	switch {
	case from != "" && to != "":
		ops = []Operation{{Op: "test", Path: path, Value: from}, {Op: "replace", Path: path, Value: to}}
	case from != "":
		ops = []Operation{{Op: "test", Path: path, Value: from}, {Op: "remove", Path: path}}
	case obj.GetAnnotations() == nil:
		ops = []Operation{sameVersion(obj), {Op: "add", Path: "/metadata/annotations", Value: map[string]string{key: to}}}
	default:
		ops = []Operation{sameVersion(obj), {Op: "add", Path: path, Value: to}}
	}
	return SameObject(obj, ops...)
}

func sameVersion(obj client.Object) Operation {
	return Operation{Op: "test", Path: "/metadata/resourceVersion", Value: obj.GetResourceVersion()}
}

// stale reports whether a patch was refused because of its tests. The API server answers a
// failed test like any other invalid patch.
func stale(ctx context.Context, c client.Client, obj client.Object, key, from string) bool {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return false
	}
	now := &unstructured.Unstructured{} // read past the cache
	now.SetGroupVersionKind(gvk)
	if c.Get(ctx, client.ObjectKeyFromObject(obj), now) != nil {
		return false
	}
	if from == "" && now.GetResourceVersion() != obj.GetResourceVersion() {
		return true
	}
	value, has := now.GetAnnotations()[key]
	return now.GetUID() != obj.GetUID() || value != from || has != (from != "")
}
