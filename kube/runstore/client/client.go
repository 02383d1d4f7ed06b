// Package client sends requests to the API server: one per call, without retries. It
// converts errors to faults.
package client

import (
	"bytes"
	"context"
	"encoding/json"
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

// Client sends requests to the API server: one per call, without retries.
type Client struct {
	groups  map[string]*rest.RESTClient
	http    *http.Client
	timeout time.Duration
	sent    atomic.Int64 // requests, without watches
}

// New returns a client. A request may take the timeout.
func New(config *rest.Config, timeout time.Duration) (*Client, error) {
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
	c := &Client{groups: map[string]*rest.RESTClient{}, http: shared, timeout: timeout}
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

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ref names an object.
type Ref struct{ Group, Resource, Namespace, Name string }

// String names the object in messages.
func (r Ref) String() string { return r.Resource + " " + r.Namespace + "/" + r.Name }

// metadataOnly is the Accept header of writes: only the new version is needed.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

func (c *Client) do(ctx context.Context, r *rest.Request) rest.Result {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	c.sent.Add(1)
	return r.MaxRetries(0).Do(ctx)
}

var errTimeout = errors.New("the API server did not answer in time")

// Get reads one object.
func (c *Client) Get(ctx context.Context, r Ref, into runtime.Object) error {
	return c.do(ctx, c.groups[r.Group].Get().Namespace(r.Namespace).Resource(r.Resource).Name(r.Name)).Into(into)
}

// List reads objects; limit 0: all.
func (c *Client) List(ctx context.Context, r Ref, o metav1.ListOptions, into runtime.Object) error {
	return c.do(ctx, c.groups[r.Group].Get().NamespaceIfScoped(r.Namespace, r.Namespace != "").Resource(r.Resource).
		VersionedParams(&o, runtime.NewParameterCodec(scheme()))).Into(into)
}

// Watch watches objects; the caller ends it by ctx.
func (c *Client) Watch(ctx context.Context, r Ref, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.groups[r.Group].Get().NamespaceIfScoped(r.Namespace, r.Namespace != "").Resource(r.Resource).
		VersionedParams(&o, runtime.NewParameterCodec(scheme())).Watch(ctx)
}

// Post creates an object and returns its metadata.
func (c *Client) Post(ctx context.Context, r Ref, body any) (metav1.ObjectMeta, error) {
	data, err := Encode(body)
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	return metaOf(c.do(ctx, c.groups[r.Group].Post().Namespace(r.Namespace).Resource(r.Resource).Param("fieldManager", FieldManager).
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", metadataOnly).Body(data)))
}

// Patch sends a merge patch and returns the metadata of the result.
func (c *Client) Patch(ctx context.Context, r Ref, part string, body []byte) (metav1.ObjectMeta, error) {
	req := c.groups[r.Group].Patch(types.MergePatchType).Namespace(r.Namespace).Resource(r.Resource).Name(r.Name).Param("fieldManager", FieldManager).
		SetHeader("Accept", metadataOnly).Body(body)
	if part != "" {
		req = req.SubResource(part)
	}
	return metaOf(c.do(ctx, req))
}

// Untracked clears managedFields in a merge patch of an object (not of its status).
// The API server sends that list with every answer and every watch event, and this
// package does not use it.
var Untracked = []map[string]any{{}}

// Tracked reports whether an object has managedFields.
func Tracked(list []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(list, func(e metav1.ManagedFieldsEntry) bool { return e.Manager != "" })
}

// PatchTested sends a JSON patch that tests the value it replaces.
func (c *Client) PatchTested(ctx context.Context, r Ref, body []byte) error {
	return c.do(ctx, c.groups[r.Group].Patch(types.JSONPatchType).Namespace(r.Namespace).Resource(r.Resource).Name(r.Name).Param("fieldManager", FieldManager).
		SetHeader("Accept", metadataOnly).Body(body)).Error()
}

// Delete removes exactly one version of an object; "" for any.
func (c *Client) Delete(ctx context.Context, r Ref, uid, version string) error {
	o := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
	pre := map[string]any{}
	if uid != "" {
		pre["uid"] = uid
	}
	if version != "" {
		pre["resourceVersion"] = version
	}
	o["preconditions"] = pre
	data, err := Encode(o)
	if err != nil {
		return err
	}
	return c.do(ctx, c.groups[r.Group].Delete().Namespace(r.Namespace).Resource(r.Resource).Name(r.Name).
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", metadataOnly).Body(data)).Error()
}

// DeleteAll removes the objects that a selector matches.
func (c *Client) DeleteAll(ctx context.Context, r Ref, selector string) error {
	return c.do(ctx, c.groups[r.Group].Delete().Namespace(r.Namespace).Resource(r.Resource).
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

// StoreError converts an error of the API server to a fault of package workflow.
func StoreError(ctx context.Context, what string, err error) error {
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

// RetryAfter returns the delay that the API server demands with status 429; false: the
// error is another one. A request that is answered so was not executed.
func RetryAfter(err error) (time.Duration, bool) {
	if !apierrors.IsTooManyRequests(err) {
		return 0, false
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(max(time.Duration(seconds)*time.Second, 100*time.Millisecond), 2*time.Second), true
}

// Sent returns how many requests were sent, without watches.
func (c *Client) Sent() int64 { return c.sent.Load() }

// Encode returns v as JSON without escapes of HTML.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// FieldManager names this program in the API server.
const FieldManager = "pawl"

// IsNotFound reports whether the API server has no such object.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }

// IsConflict reports whether the object has another version by now.
func IsConflict(err error) bool { return apierrors.IsConflict(err) }

// IsExisting reports whether an object of the name exists already.
func IsExisting(err error) bool { return apierrors.IsAlreadyExists(err) }
