package backend

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawl-dev/pawl/control"
)

// Objects implements Backend.
func (r *Remote) Objects() (control.Objects, error) { return remoteObjects{r}, nil }

// remoteObjects are those of a server.
type remoteObjects struct{ r *Remote }

func objectPath(ref control.Ref) []string {
	return []string{"objects", ref.Kind, ref.Namespace, ref.Name}
}

// Get implements control.Objects.
func (o remoteObjects) Get(ctx context.Context, ref control.Ref) (control.Object, error) {
	var found control.Object
	err := o.r.get(ctx, &found, nil, objectPath(ref)...)
	return found, err
}

// List implements control.Objects.
func (o remoteObjects) List(ctx context.Context, q control.Query) (control.Page, error) {
	path, query := []string{"objects"}, url.Values{}
	if q.Kind != "" {
		path = append(path, q.Kind)
		if q.Namespace != "" {
			path = append(path, q.Namespace)
		}
	}
	if len(q.Selector) > 0 {
		query.Set("selector", q.Selector.String())
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(min(q.Limit, largestPage)))
	}
	if q.Cursor != "" {
		query.Set("cursor", q.Cursor)
	}
	var page control.Page
	err := o.r.get(ctx, &page, query, path...)
	if q.Kind == "" && q.Namespace != "" { // the API has no list of a namespace over all kinds
		var kept []control.Object
		for _, item := range page.Items {
			if item.Namespace == q.Namespace {
				kept = append(kept, item)
			}
		}
		page.Items = kept
	}
	return page, err
}

// Apply implements control.Objects.
func (o remoteObjects) Apply(ctx context.Context, want control.Object) (control.Object, error) {
	header := map[string]string{}
	switch want.Revision {
	case 0:
	case control.MustNotExist:
		header["If-None-Match"] = "*"
	default:
		header["If-Match"] = etag(want.Revision)
	}
	body := desired(want)
	if want.Finalizers != nil {
		body["finalizers"] = want.Finalizers
	}
	if want.Owner != nil {
		body["owner"] = want.Owner
	}
	var created control.Object
	err := o.r.do(ctx, call{method: http.MethodPut, path: objectPath(want.Ref), header: header, body: body}, &created)
	return created, err
}

// Update implements control.Objects.
func (o remoteObjects) Update(ctx context.Context, next control.Object) (control.Object, error) {
	was, err := o.Get(ctx, next.Ref)
	if err != nil {
		return control.Object{}, err
	}
	body := map[string]any{"labels": replacing(was.Labels, next.Labels), "annotations": replacing(was.Annotations, next.Annotations), "spec": next.Spec, "status": next.Status, "finalizers": next.Finalizers, "owner": next.Owner}
	var created control.Object
	err = o.r.do(ctx, call{method: http.MethodPatch, path: objectPath(next.Ref), header: map[string]string{"If-Match": etag(next.Revision)},
		body: body, kind: "application/merge-patch+json"}, &created)
	return created, err
}

// replacing is the merge patch that turns was into next.
func replacing(was, next map[string]string) map[string]any {
	patch := map[string]any{}
	for key := range was {
		patch[key] = nil
	}
	for key, value := range next {
		patch[key] = value
	}
	return patch
}

// Delete implements control.Objects.
func (o remoteObjects) Delete(ctx context.Context, ref control.Ref, revision int64) (control.Object, error) {
	match := "*"
	if revision != 0 {
		match = etag(revision)
	}
	var gone control.Object
	err := o.r.do(ctx, call{method: http.MethodDelete, path: objectPath(ref), header: map[string]string{"If-Match": match}}, &gone)
	return gone, err
}

// Feed implements control.Objects for backends that only wait for changes; see Changes.
func (remoteObjects) Feed(string) control.Source[control.Object] { return noFeed{} }

type noFeed struct{}

var errNoFeed = errors.New("the API of a server has no feed of whole objects: wait for Changes and read")

func (noFeed) List(context.Context) ([]control.Item[control.Object], string, error) {
	return nil, "", errNoFeed
}

func (noFeed) Watch(context.Context, string) iter.Seq2[control.Change[control.Object], error] {
	return func(yield func(control.Change[control.Object], error) bool) {
		yield(control.Change[control.Object]{}, errNoFeed)
	}
}
