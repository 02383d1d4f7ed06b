package runstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// scheme holds the kinds this store reads.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{metav1.AddMetaToScheme, api.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // these packages register no kind twice
		}
	}
	return s
})

// client sends requests to the API server: one per call, without retries.
type client struct {
	groups  map[string]*rest.RESTClient
	http    *http.Client
	timeout time.Duration
	sent    atomic.Int64 // requests, without watches
}

func newClient(config *rest.Config, timeout time.Duration) (*client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil // the server limits by priority and fairness
	config.Timeout = 0                       // for watches; every other request has a timeout of its own
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme()).WithoutConversion()
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &client{groups: map[string]*rest.RESTClient{}, http: shared, timeout: timeout}
	for _, gv := range []struct{ group, version, path string }{
		{"", "v1", "/api"}, {api.GroupVersion.Group, api.GroupVersion.Version, "/apis"}, {"coordination.k8s.io", "v1", "/apis"},
	} {
		own := rest.CopyConfig(config)
		own.GroupVersion, own.APIPath = &api.GroupVersion, gv.path
		version := api.GroupVersion
		version.Group, version.Version = gv.group, gv.version
		own.GroupVersion = &version
		if c.groups[gv.group], err = rest.RESTClientForConfigAndClient(own, shared); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// ref names an object.
type ref struct{ group, resource, namespace, name string }

func (r ref) String() string { return r.resource + " " + r.namespace + "/" + r.name }

// metadataOnly is the Accept header of writes: only the new version is needed.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

func (c *client) do(ctx context.Context, r *rest.Request) rest.Result {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	c.sent.Add(1)
	return r.MaxRetries(0).Do(ctx)
}

var errTimeout = errors.New("the API server did not answer in time")

// get reads one object.
func (c *client) get(ctx context.Context, r ref, into runtime.Object) error {
	return c.do(ctx, c.groups[r.group].Get().Namespace(r.namespace).Resource(r.resource).Name(r.name)).Into(into)
}

// list reads objects; limit 0: all.
func (c *client) list(ctx context.Context, r ref, o metav1.ListOptions, into runtime.Object) error {
	return c.do(ctx, c.groups[r.group].Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource).
		VersionedParams(&o, runtime.NewParameterCodec(scheme()))).Into(into)
}

func (c *client) watch(ctx context.Context, r ref, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.groups[r.group].Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource).
		VersionedParams(&o, runtime.NewParameterCodec(scheme())).Watch(ctx)
}

// post creates an object and returns its metadata.
func (c *client) post(ctx context.Context, r ref, body any) (metav1.ObjectMeta, error) {
	data, err := encode(body)
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	return metaOf(c.do(ctx, c.groups[r.group].Post().Namespace(r.namespace).Resource(r.resource).Param("fieldManager", fieldManager).
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", metadataOnly).Body(data)))
}

// patch sends a merge patch and returns the metadata of the result.
func (c *client) patch(ctx context.Context, r ref, part string, body []byte) (metav1.ObjectMeta, error) {
	req := c.groups[r.group].Patch(types.MergePatchType).Namespace(r.namespace).Resource(r.resource).Name(r.name).Param("fieldManager", fieldManager).
		SetHeader("Accept", metadataOnly).Body(body)
	if part != "" {
		req = req.SubResource(part)
	}
	return metaOf(c.do(ctx, req))
}

// untracked, in a merge patch of an object (not of its status), clears managedFields.
// The API server sends that list with every answer and every watch event, and this
// package does not use it.
var untracked = []tree{{}}

// tracked reports whether an object has managedFields.
func tracked(list []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(list, func(e metav1.ManagedFieldsEntry) bool { return e.Manager != "" })
}

// patchTested sends a JSON patch that tests the value it replaces.
func (c *client) patchTested(ctx context.Context, r ref, body []byte) error {
	return c.do(ctx, c.groups[r.group].Patch(types.JSONPatchType).Namespace(r.namespace).Resource(r.resource).Name(r.name).Param("fieldManager", fieldManager).
		SetHeader("Accept", metadataOnly).Body(body)).Error()
}

// delete removes exactly one version of an object; "" for any.
func (c *client) delete(ctx context.Context, r ref, uid, version string) error {
	o := tree{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
	pre := tree{}
	if uid != "" {
		pre["uid"] = uid
	}
	if version != "" {
		pre["resourceVersion"] = version
	}
	o["preconditions"] = pre
	data, err := encode(o)
	if err != nil {
		return err
	}
	return c.do(ctx, c.groups[r.group].Delete().Namespace(r.namespace).Resource(r.resource).Name(r.name).
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", metadataOnly).Body(data)).Error()
}

// deleteAll removes the objects that a selector matches.
func (c *client) deleteAll(ctx context.Context, r ref, selector string) error {
	return c.do(ctx, c.groups[r.group].Delete().Namespace(r.namespace).Resource(r.resource).
		VersionedParams(&metav1.ListOptions{LabelSelector: selector}, runtime.NewParameterCodec(scheme()))).Error()
}

func metaOf(result rest.Result) (metav1.ObjectMeta, error) {
	obj, err := result.Get()
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	partial, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return metav1.ObjectMeta{}, fmt.Errorf("the API server answers with a %T", obj)
	}
	return partial.ObjectMeta, nil
}

// storeError converts an error of the API server to a fault of package workflow.
func storeError(ctx context.Context, what string, err error) error {
	switch message := errorText(err); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(message, "database space exceeded"), apierrors.ReasonForError(err) == "InsufficientStorage":
		return runstore.StoreFull.Errorf("%s: %w", what, err)
	case apierrors.IsRequestEntityTooLargeError(err), strings.Contains(message, "request is too large"), strings.Contains(message, "Too long: must have at most"):
		return runtype.OutputTooLarge.Errorf("%s: the object would be larger than the API server keeps: %w", what, err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return runstore.StoreUnavailable.Errorf("%s: the API server refuses it; check the role of this program: %w", what, err)
	default:
		return runstore.StoreUnavailable.Errorf("%s: %w", what, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// retryAfter returns the delay that the API server demands with status 429; false: the
// error is another one. A request that is answered so was not executed.
func retryAfter(err error) (time.Duration, bool) {
	if !apierrors.IsTooManyRequests(err) {
		return 0, false
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(max(time.Duration(seconds)*time.Second, 100*time.Millisecond), 2*time.Second), true
}
