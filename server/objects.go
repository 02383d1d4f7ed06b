package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine/driver"
)

// ObjectPath names the object of a request.
type ObjectPath struct {
	Kind      string `path:"kind"`
	Namespace string `path:"namespace"`
	Name      string `path:"name"`
}

func (r ObjectPath) ref() control.Ref {
	return control.Ref{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

type objectAnswer struct {
	ETag string `header:"ETag"`
	Body control.Object
}

func answerOf(o control.Object) *objectAnswer { return &objectAnswer{ETag: etag(o.Revision), Body: o} }

// ObjectPage selects a page of objects.
type ObjectPage struct {
	Selector string `query:"selector" doc:"labels: key=value, key!=value, key, !key, separated by commas"`
	Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor   string `query:"cursor" doc:"next of the previous page"`
}

// objectBody holds the parts of an object that clients set. The server sets all others.
type objectBody struct {
	Kind        string            `json:"kind,omitempty" doc:"if present, equal to that of the path; so are namespace and name"`
	Namespace   string            `json:"namespace,omitempty"`
	Name        string            `json:"name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty" doc:"absent: unchanged"`
	Annotations map[string]string `json:"annotations,omitempty" doc:"absent: unchanged; requests (pawl.dev/…) stay in any case"`
	Spec        json.RawMessage   `json:"spec,omitempty" doc:"desired state; absent: unchanged"`
	Finalizers  []string          `json:"finalizers,omitempty" doc:"used at creation only"`
	Owner       *control.Owner    `json:"owner,omitempty"`
}

func (s *Server) objectRoutes() {
	tags := []string{"objects"}
	get := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: tags, Errors: []int{422}}
	}
	registerRoute(s, get("listObjects", "/v1/objects", "List objects of all kinds"), Operator, func(ctx context.Context, in *ObjectPage) (*pageAnswer, error) {
		return s.listObjects(ctx, "", "", *in)
	})
	registerRoute(s, get("listObjectsOfKind", "/v1/objects/{kind}", "List objects of a kind"), Operator, func(ctx context.Context, in *struct {
		Kind string `path:"kind"`
		ObjectPage
	}) (*pageAnswer, error) {
		return s.listObjects(ctx, in.Kind, "", in.ObjectPage)
	})
	registerRoute(s, get("listObjectsOfNamespace", "/v1/objects/{kind}/{namespace}", "List objects of a kind in a namespace"), Operator, func(ctx context.Context, in *struct {
		Kind      string `path:"kind"`
		Namespace string `path:"namespace"`
		ObjectPage
	}) (*pageAnswer, error) {
		return s.listObjects(ctx, in.Kind, in.Namespace, in.ObjectPage)
	})
	registerRoute(s, get("listKinds", "/v1/kinds", "List the kinds of objects that machines serve, with the schemas of their specs"), Operator, s.listKinds)
	const path = "/v1/objects/{kind}/{namespace}/{name}"
	registerRoute(s, huma.Operation{OperationID: "getObject", Method: http.MethodGet, Path: path, Summary: "Read an object", Tags: tags,
		Errors: []int{404}}, Operator, s.getObject)
	registerRoute(s, huma.Operation{OperationID: "applyObject", Method: http.MethodPut, Path: path, Summary: "Create an object, or change its spec", Tags: tags,
		Description: "If-Match demands that revision; If-None-Match: * demands a creation.", Errors: []int{409, 412, 422}}, Operator, s.applyObject)
	registerRoute(s, huma.Operation{OperationID: "patchObject", Method: http.MethodPatch, Path: path, Summary: "Change an object by a merge patch", Tags: tags,
		Description: "RFC 7396, over labels, annotations, spec, status, finalizers and owner.", Errors: []int{404, 409, 412, 422, 428}}, Operator, s.patchObject)
	registerRoute(s, huma.Operation{OperationID: "deleteObject", Method: http.MethodDelete, Path: path, Summary: "Delete an object", Tags: tags,
		Description: "An object with finalizers gets a deletion mark, and is deleted with its last finalizer.", Errors: []int{404, 412, 428}, DefaultStatus: http.StatusOK}, Operator, s.deleteObject)
}

type kindList struct {
	Body struct {
		Items []driver.ServedKind `json:"items"`
	}
}

func (s *Server) listKinds(context.Context, *struct{}) (*kindList, error) {
	if s.options.Kinds == nil {
		return nil, NotServed.Errorf("this server runs no machines")
	}
	kinds, err := s.options.Kinds()
	if err != nil {
		return nil, err
	}
	if kinds == nil {
		kinds = []driver.ServedKind{}
	}
	answer := &kindList{}
	answer.Body.Items = kinds
	return answer, nil
}

type pageAnswer struct{ Body control.Page }

func (s *Server) objects() (control.Objects, error) {
	if s.options.Objects == nil {
		return nil, NotServed.Errorf("this server has no objects")
	}
	return s.options.Objects, nil
}

func (s *Server) listObjects(ctx context.Context, kind, namespace string, in ObjectPage) (*pageAnswer, error) {
	objects, err := s.objects()
	if err != nil {
		return nil, err
	}
	selector, err := control.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	page, err := objects.List(ctx, control.Query{Kind: kind, Namespace: namespace, Selector: selector, Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return nil, cursorError(in.Cursor, err)
	}
	if page.Items == nil {
		page.Items = []control.Object{}
	}
	return &pageAnswer{page}, nil
}

func (s *Server) getObject(ctx context.Context, in *struct {
	ObjectPath
	IfNoneMatch string `header:"If-None-Match" doc:"304 if this is still its ETag"`
}) (*objectAnswer, error) {
	objects, err := s.objects()
	if err != nil {
		return nil, err
	}
	o, err := objects.Get(ctx, in.ref())
	if err != nil {
		return nil, err
	}
	return answerOf(o), nil
}

func (s *Server) applyObject(ctx context.Context, in *struct {
	ObjectPath
	IfMatch     string `header:"If-Match" doc:"ETag the change is for; absent: any"`
	IfNoneMatch string `header:"If-None-Match" doc:"* demands a creation"`
	Body        objectBody
}) (*objectAnswer, error) {
	objects, err := s.objects()
	if err != nil {
		return nil, err
	}
	want, err := in.Body.object(in.ref())
	if err != nil {
		return nil, err
	}
	revision, given, err := revisionOf(in.IfMatch)
	if err != nil {
		return nil, err
	}
	want.Revision = revision
	if given && revision == anyRevision { // If-Match: * demands that the object exists
		if _, err := objects.Get(ctx, want.Ref); err != nil {
			return nil, err
		}
	}
	switch in.IfNoneMatch {
	case "":
	case "*":
		want.Revision = control.MustNotExist
	default:
		return nil, Malformed.Errorf("If-None-Match: a PUT takes * only")
	}
	o, err := objects.Apply(ctx, want)
	if fault.Of(err) == control.Exists && in.IfNoneMatch != "" {
		p := *problemOf(ctx, err)
		p.Status = http.StatusPreconditionFailed
		return nil, fail(ctx, &p)
	}
	if err != nil {
		return nil, failMatch(ctx, given, err)
	}
	return answerOf(o), nil
}

// object returns the desired object with the name of the path.
func (b objectBody) object(ref control.Ref) (control.Object, error) {
	for _, part := range [][3]string{{"kind", b.Kind, ref.Kind}, {"namespace", b.Namespace, ref.Namespace}, {"name", b.Name, ref.Name}} {
		if part[1] != "" && part[1] != part[2] {
			return control.Object{}, Refused.Errorf("%s is %q in the body and %q in the path", part[0], part[1], part[2])
		}
	}
	return control.Object{Ref: ref, Labels: b.Labels, Annotations: b.Annotations, Spec: b.Spec, Finalizers: b.Finalizers, Owner: b.Owner}, nil
}

func (s *Server) patchObject(ctx context.Context, in *struct {
	ObjectPath
	IfMatch string          `header:"If-Match" doc:"ETag the change is for, or *"`
	Body    json.RawMessage `contentType:"application/merge-patch+json"`
}) (*objectAnswer, error) {
	objects, err := s.objects()
	if err != nil {
		return nil, err
	}
	revision, err := requireRevision(in.IfMatch)
	if err != nil {
		return nil, err
	}
	if revision == anyRevision {
		o, err := control.Modify(ctx, objects, in.ref(), func(o *control.Object) error { return patch(o, in.Body) })
		if err != nil {
			return nil, err
		}
		return answerOf(o), nil
	}
	o, err := objects.Get(ctx, in.ref())
	if err != nil {
		return nil, err
	}
	o.Revision = revision
	if err := patch(&o, in.Body); err != nil {
		return nil, err
	}
	if o, err = objects.Update(ctx, o); err != nil {
		return nil, failMatch(ctx, true, err)
	}
	return answerOf(o), nil
}

// patchable lists the parts of an object that a merge patch may change.
var patchable = []string{"labels", "annotations", "spec", "status", "finalizers", "owner"}

// patch applies a merge patch (RFC 7396) to an object.
func patch(o *control.Object, data json.RawMessage) error {
	change, err := decodeObject(data)
	if err != nil {
		return Refused.Errorf("the patch is not a JSON object: %w", err)
	}
	for key := range change {
		if !slices.Contains(patchable, key) {
			return Refused.Errorf("the patch changes %q; it may change %v", key, patchable)
		}
	}
	whole, err := json.Marshal(o)
	if err != nil {
		return err
	}
	before, err := decodeObject(whole)
	if err != nil {
		return err
	}
	after, err := json.Marshal(merge(before, change))
	if err != nil {
		return err
	}
	var next control.Object
	if err := json.Unmarshal(after, &next); err != nil {
		return Refused.Errorf("the patched object: %w", err)
	}
	if next.Spec == nil {
		next.Spec = json.RawMessage("{}")
	}
	*o = next
	return nil
}

func decodeObject(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, Malformed.Errorf("it is null")
	}
	return m, nil
}

// merge merges as RFC 7396 says: null removes, objects merge, all other values replace.
func merge(target, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for key, value := range change {
		if value == nil {
			delete(object, key)
		} else {
			object[key] = merge(object[key], value)
		}
	}
	return object
}

func (s *Server) deleteObject(ctx context.Context, in *struct {
	ObjectPath
	IfMatch string `header:"If-Match" doc:"ETag the deletion is for, or *"`
}) (*objectAnswer, error) {
	objects, err := s.objects()
	if err != nil {
		return nil, err
	}
	revision, err := requireRevision(in.IfMatch)
	if err != nil {
		return nil, err
	}
	o, err := objects.Delete(ctx, in.ref(), revision)
	if err != nil {
		return nil, failMatch(ctx, true, err)
	}
	return answerOf(o), nil
}
