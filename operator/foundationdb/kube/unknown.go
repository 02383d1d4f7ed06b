package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// UnknownFields implements port.Objects. It reads the object past the cache, which has the typed one only.
func (o *Objects) UnknownFields(ctx context.Context, object port.Object) ([]string, error) {
	if !isOurKind(object) {
		return nil, controller.Refused.Errorf("%T has no fields that only others know", object)
	}
	kind, err := apiutil.GVKForObject(object, o.client.Scheme())
	if err != nil {
		return nil, err
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind)
	if found, err := exists(o.live.Get(ctx, client.ObjectKeyFromObject(object), stored)); err != nil || !found {
		return nil, err
	}
	document, err := stored.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return port.UnknownIn(document)
}
