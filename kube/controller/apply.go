package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Applier writes objects by server-side apply.
type Applier struct {
	Client client.Client
	// Owner is the field owner. Default: the owner in the client's options, FieldOwner.
	Owner string
}

// Apply creates an object, or sets the fields that obj sets and removes the fields that an
// earlier Apply has set and obj does not. Fields of other owners stay; Apply takes over the
// fields that obj sets. It may be repeated at any time. Version and status of obj are not
// sent. Afterwards obj is the object that the API server has returned.
//
// If owner is not nil, it is set as the controller of obj first. It must be in the same
// namespace, and obj must have no other controller (API_REFUSED).
func (a Applier) Apply(ctx context.Context, obj client.Object, owner client.Object) error {
	if owner != nil {
		if err := controllerutil.SetControllerReference(owner, obj, a.Client.Scheme()); err != nil {
			return Refused.Errorf("%s: %w", client.ObjectKeyFromObject(obj), err)
		}
	}
	u, err := desired(obj, a.Client.Scheme())
	if err != nil {
		return err
	}
	options := []client.ApplyOption{client.ForceOwnership}
	if a.Owner != "" {
		options = append(options, client.FieldOwner(a.Owner))
	}
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...); err != nil {
		return Fault(err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj)
}

// desired returns an object as it is applied: without the fields that only the API server
// writes.
func desired(obj client.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("controller: %s cannot be applied: %w", client.ObjectKeyFromObject(obj), err)
	}
	content = withoutNull(content)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	delete(content, "status")
	for _, field := range []string{"resourceVersion", "uid", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(content, "metadata", field)
	}
	return u, nil
}

// withoutNull removes fields that are null: a typed object encodes unset fields as null.
func withoutNull(in map[string]any) map[string]any {
	for key, value := range in {
		switch v := value.(type) {
		case nil:
			delete(in, key)
		case map[string]any:
			withoutNull(v)
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					withoutNull(m)
				}
			}
		}
	}
	return in
}
