package backend

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	operator "github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/rollout"
)

// ApplyWorkload implements Rollouts: a dry run of what `kubectl apply` does.
func (k *Kube) ApplyWorkload(ctx context.Context, apiVersion string, manifest control.Object) (operator.Applied, error) {
	c, err := k.typedClient()
	if err != nil {
		return operator.Applied{}, err
	}
	want, err := manifestOf(apiVersion, manifest)
	if err != nil {
		return operator.Applied{}, err
	}
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(want.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(want), is)
	switch {
	case apierrors.IsNotFound(err):
		err = c.Create(ctx, want, client.DryRunAll, client.FieldOwner(manager))
		return operator.Applied{After: want}, kubeFault(err, manifest.Ref)
	case err != nil:
		return operator.Applied{}, kubeFault(err, manifest.Ref)
	}
	patch, err := threeWay(is, want)
	if err != nil {
		return operator.Applied{}, control.Invalid.Errorf("%s: %w", manifest.Ref, err)
	}
	after := is.DeepCopy()
	err = c.Patch(ctx, after, patch, client.DryRunAll, client.FieldOwner(manager))
	return operator.Applied{Before: is, After: after}, kubeFault(err, manifest.Ref)
}

// manifestOf is the object of a manifest as the API server reads it.
func manifestOf(apiVersion string, o control.Object) (*unstructured.Unstructured, error) {
	content, err := specOf(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(apiVersion)
	u.SetKind(o.Kind)
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	u.SetLabels(o.Labels)
	u.SetAnnotations(o.Annotations)
	return u, nil
}

// threeWay is the patch of `kubectl apply`: what the manifest says, without what it said at the last time
// and does not say now. What others have written stays.
func threeWay(is, want *unstructured.Unstructured) (client.Patch, error) {
	last := []byte(is.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	next, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	now, err := json.Marshal(is)
	if err != nil {
		return nil, err
	}
	var native any
	switch kind := is.GroupVersionKind(); {
	case kind.Group == appsv1.GroupName && kind.Kind == string(rollout.StatefulSet):
		native = appsv1.StatefulSet{}
	case kind.Group == appsv1.GroupName && kind.Kind == string(rollout.Deployment):
		native = appsv1.Deployment{}
	default:
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(last, next, now)
		return client.RawPatch(types.MergePatchType, patch), err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(native)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(last, next, now, schema, true)
	return client.RawPatch(types.StrategicMergePatchType, patch), err
}
