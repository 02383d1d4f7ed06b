package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/route"
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

func answerOf(o control.Object) *objectAnswer {
	return &objectAnswer{ETag: route.ETag(o.Revision), Body: o}
}

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

type kindList struct {
	Body struct {
		Items []driver.ServedKind `json:"items"`
	}
}

func (s *Service) listKinds(context.Context, *struct{}) (*kindList, error) {
	if s.Kinds == nil {
		return nil, route.NotServed.Errorf("this server runs no machines")
	}
	kinds, err := s.Kinds()
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

func (s *Service) store() (control.Objects, error) {
	if s.Store == nil {
		return nil, route.NotServed.Errorf("this server has no objects")
	}
	return s.Store, nil
}

func (s *Service) list(ctx context.Context, in *ObjectPage) (*pageAnswer, error) {
	return s.page(ctx, "", "", *in)
}

func (s *Service) listKind(ctx context.Context, in *struct {
	Kind string `path:"kind"`
	ObjectPage
}) (*pageAnswer, error) {
	return s.page(ctx, in.Kind, "", in.ObjectPage)
}

func (s *Service) listNamespace(ctx context.Context, in *struct {
	Kind      string `path:"kind"`
	Namespace string `path:"namespace"`
	ObjectPage
}) (*pageAnswer, error) {
	return s.page(ctx, in.Kind, in.Namespace, in.ObjectPage)
}

func (s *Service) page(ctx context.Context, kind, namespace string, in ObjectPage) (*pageAnswer, error) {
	objects, err := s.store()
	if err != nil {
		return nil, err
	}
	selector, err := control.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	page, err := objects.List(ctx, control.Query{Kind: kind, Namespace: namespace, Selector: selector, Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return nil, route.CursorError(in.Cursor, err)
	}
	if page.Items == nil {
		page.Items = []control.Object{}
	}
	return &pageAnswer{page}, nil
}

func (s *Service) get(ctx context.Context, in *struct {
	ObjectPath
	IfNoneMatch string `header:"If-None-Match" doc:"304 if this is still its ETag"`
}) (*objectAnswer, error) {
	objects, err := s.store()
	if err != nil {
		return nil, err
	}
	o, err := objects.Get(ctx, in.ref())
	if err != nil {
		return nil, err
	}
	return answerOf(o), nil
}

func (s *Service) apply(ctx context.Context, in *struct {
	ObjectPath
	IfNoneMatch string `header:"If-None-Match" doc:"* demands a creation"`
	Body        objectBody
}) (*objectAnswer, error) {
	objects, err := s.store()
	if err != nil {
		return nil, err
	}
	want, err := in.Body.object(in.ref())
	if err != nil {
		return nil, err
	}
	c := route.CallOf(ctx)
	want.Revision = c.Revision
	if c.Conditional && c.Revision == route.AnyRevision { // If-Match: * demands that the object exists
		if _, err := objects.Get(ctx, want.Ref); err != nil {
			return nil, err
		}
	}
	switch in.IfNoneMatch {
	case "":
	case "*":
		want.Revision = control.MustNotExist
	default:
		return nil, route.Malformed.Errorf("If-None-Match: a PUT takes * only")
	}
	o, err := objects.Apply(ctx, want)
	if fault.Of(err) == control.Exists && in.IfNoneMatch != "" {
		p := route.ProblemOf(ctx, err)
		p.Status = http.StatusPreconditionFailed
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	return answerOf(o), nil
}

// object returns the desired object with the name of the path.
func (b objectBody) object(ref control.Ref) (control.Object, error) {
	for _, part := range [][3]string{{"kind", b.Kind, ref.Kind}, {"namespace", b.Namespace, ref.Namespace}, {"name", b.Name, ref.Name}} {
		if part[1] != "" && part[1] != part[2] {
			return control.Object{}, route.Refused.Errorf("%s is %q in the body and %q in the path", part[0], part[1], part[2])
		}
	}
	return control.Object{Ref: ref, Labels: b.Labels, Annotations: b.Annotations, Spec: b.Spec, Finalizers: b.Finalizers, Owner: b.Owner}, nil
}

func (s *Service) patch(ctx context.Context, in *struct {
	ObjectPath
	Body json.RawMessage `contentType:"application/merge-patch+json"`
}) (*objectAnswer, error) {
	objects, err := s.store()
	if err != nil {
		return nil, err
	}
	revision := route.CallOf(ctx).Revision
	if revision == route.AnyRevision {
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
		return nil, err
	}
	return answerOf(o), nil
}

// patchable lists the parts of an object that a merge patch may change.
var patchable = []string{"labels", "annotations", "spec", "status", "finalizers", "owner"}

// patch applies a merge patch (RFC 7396) to an object.
func patch(o *control.Object, data json.RawMessage) error {
	change, err := decodeObject(data)
	if err != nil {
		return route.Refused.Errorf("the patch is not a JSON object: %w", err)
	}
	for key := range change {
		if !slices.Contains(patchable, key) {
			return route.Refused.Errorf("the patch changes %q; it may change %v", key, patchable)
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
		return route.Refused.Errorf("the patched object: %w", err)
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
		return nil, route.Malformed.Errorf("it is null")
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

func (s *Service) delete(ctx context.Context, in *ObjectPath) (*objectAnswer, error) {
	objects, err := s.store()
	if err != nil {
		return nil, err
	}
	o, err := objects.Delete(ctx, in.ref(), route.CallOf(ctx).Revision)
	if err != nil {
		return nil, err
	}
	return answerOf(o), nil
}
