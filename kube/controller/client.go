package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FaultClient returns a client whose errors are faults: see Fault. The client of a Manager
// is one already.
func FaultClient(c client.Client) client.Client { return faultClient{c} }

type faultClient struct{ client.Client }

func (c faultClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return Fault(c.Client.Get(ctx, key, obj, opts...))
}

func (c faultClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return Fault(c.Client.List(ctx, list, opts...))
}

func (c faultClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return Fault(c.Client.Apply(ctx, obj, opts...))
}

func (c faultClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return Fault(c.Client.Create(ctx, obj, opts...))
}

func (c faultClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return Fault(c.Client.Delete(ctx, obj, opts...))
}

func (c faultClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return Fault(c.Client.Update(ctx, obj, opts...))
}

func (c faultClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return Fault(c.Client.Patch(ctx, obj, patch, opts...))
}

func (c faultClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return Fault(c.Client.DeleteAllOf(ctx, obj, opts...))
}

func (c faultClient) Status() client.SubResourceWriter {
	return faultSubResource{c.Client.SubResource("status")}
}

func (c faultClient) SubResource(name string) client.SubResourceClient {
	return faultSubResource{c.Client.SubResource(name)}
}

type faultSubResource struct{ client.SubResourceClient }

func (c faultSubResource) Get(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceGetOption) error {
	return Fault(c.SubResourceClient.Get(ctx, obj, sub, opts...))
}

func (c faultSubResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return Fault(c.SubResourceClient.Create(ctx, obj, sub, opts...))
}

func (c faultSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return Fault(c.SubResourceClient.Update(ctx, obj, opts...))
}

func (c faultSubResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return Fault(c.SubResourceClient.Patch(ctx, obj, patch, opts...))
}

func (c faultSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return Fault(c.SubResourceClient.Apply(ctx, obj, opts...))
}

// faultReader is a reader whose errors are faults.
type faultReader struct{ client.Reader }

func (r faultReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return Fault(r.Reader.Get(ctx, key, obj, opts...))
}

func (r faultReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return Fault(r.Reader.List(ctx, list, opts...))
}
