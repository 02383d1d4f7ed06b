package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// query says what a request is about.
type query struct {
	kind

	namespace, name, sub string // empty: all namespaces, all names, no subresource
	labels               labels.Selector
	fields               fields.Selector
	now                  time.Time // of the world
}

// queryOf reads the path and the selectors of a request.
func queryOf(r *http.Request) (query, error) {
	q := query{}
	for _, k := range kinds {
		rest, under := strings.CutPrefix(r.URL.Path, base(k.version)+"/")
		if !under {
			continue
		}
		parts := strings.Split(strings.Trim(rest, "/"), "/")
		namespace := ""
		if len(parts) > 2 && parts[0] == "namespaces" {
			namespace, parts = parts[1], parts[2:]
		}
		if parts[0] == k.Name && len(parts) <= 3 {
			parts = append(parts, "", "")
			q.kind, q.namespace, q.name, q.sub = k, namespace, parts[1], parts[2]
			break
		}
	}
	if q.Kind == "" {
		return q, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, kind{}.resource(), "", "the sandbox does not have "+r.URL.Path, 0, true)
	}
	var err error
	if q.labels, err = labels.Parse(r.URL.Query().Get("labelSelector")); err == nil {
		q.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	}
	if err != nil {
		return q, apierrors.NewBadRequest(err.Error())
	}
	return q, nil
}

// matches reports whether a request is about an object.
func (q query) matches(o runtime.Object) bool {
	about, err := meta.Accessor(o)
	if err != nil || q.namespace != "" && q.namespace != about.GetNamespace() || !q.labels.Matches(labels.Set(about.GetLabels())) {
		return false
	}
	known := fields.Set{"metadata.name": about.GetName(), "metadata.namespace": about.GetNamespace()}
	switch o := o.(type) {
	case *corev1.Pod:
		known["spec.nodeName"], known["status.phase"] = o.Spec.NodeName, string(o.Status.Phase)
	case *corev1.Event:
		of := o.InvolvedObject
		known["involvedObject.kind"], known["involvedObject.name"] = of.Kind, of.Name
		known["involvedObject.namespace"], known["involvedObject.uid"] = of.Namespace, string(of.UID)
		known["reason"], known["type"] = o.Reason, o.Type
	}
	return nameOfKind(o) == q.Kind && q.fields.Matches(known)
}

// objects answers requests for objects.
func (s *Sandbox) objects(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r)
	if err != nil {
		refuse(w, err)
		return
	}
	watches, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	code := http.StatusOK
	var found any
	switch {
	case q.Kind == "Pod" && q.sub == "exec":
		err = s.exec(w, r, q)
	case q.sub != "" && (q.sub != "status" || !q.custom()):
		err = apierrors.NewMethodNotSupported(q.resource(), q.sub)
	case watches && q.name == "":
		err = s.watch(w, r, q)
	case r.Method == http.MethodGet && q.name == "":
		found, err = s.list(r, q)
	case r.Method == http.MethodGet:
		found, err = s.get(q)
	case q.object == nil:
		err = apierrors.NewMethodNotSupported(q.resource(), strings.ToLower(r.Method))
	case r.Method == http.MethodPost && q.name == "":
		code = http.StatusCreated
		found, err = s.create(r, q)
	case (r.Method == http.MethodPatch || r.Method == http.MethodPut) && q.name != "":
		found, err = s.change(r, q)
	case r.Method == http.MethodDelete && q.name != "":
		found, err = s.remove(r, q)
	default:
		err = apierrors.NewMethodNotSupported(q.resource(), strings.ToLower(r.Method))
	}
	switch {
	case err != nil:
		refuse(w, err)
	case found != nil:
		q.now = s.Now()
		o, single := found.(runtime.Object)
		if single {
			found = q.shown(r, []runtime.Object{o}, o)
		} else if list, ok := found.(*listed); ok {
			found = q.shown(r, list.Items, list)
		}
		answer(w, code, found)
	}
}

// find returns the objects that a request is about. The caller holds the lock.
func (s *Sandbox) find(q query) ([]runtime.Object, error) {
	var all []runtime.Object
	var err error
	switch {
	case q.Kind == "Namespace":
		all = s.namespaces()
	case q.Kind == "Event":
		all = s.events()
	default:
		list := q.list()
		if err := s.person.List(context.Background(), list, q.namespace, nil); err != nil {
			return nil, refusal(err, q.kind, "")
		}
		all, err = meta.ExtractList(list)
	}
	return slices.DeleteFunc(all, func(o runtime.Object) bool { return !q.matches(o) }), err
}

func (s *Sandbox) list(r *http.Request, q query) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(q)
	if err != nil {
		return nil, err
	}
	list := &listed{Items: []runtime.Object{}}
	list.APIVersion, list.Kind, list.ResourceVersion = q.version.String(), q.Kind+"List", strconv.FormatInt(s.history.version, 10)
	for _, o := range found {
		list.Items = append(list.Items, q.named(o))
	}
	return list, r.Context().Err()
}

func (s *Sandbox) get(q query) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.object == nil {
		all, err := s.find(q)
		for _, o := range all {
			if about, wrong := meta.Accessor(o); wrong == nil && about.GetName() == q.name {
				return o, nil
			}
		}
		return nil, errors.Join(err, apierrors.NewNotFound(q.resource(), q.name))
	}
	return s.stored(q)
}

// stored returns the object of a request. The caller holds the lock.
func (s *Sandbox) stored(q query) (port.Object, error) {
	o := q.object()
	o.SetNamespace(q.namespace)
	o.SetName(q.name)
	found, err := s.person.Get(context.Background(), o)
	if err == nil && !found {
		err = apierrors.NewNotFound(q.resource(), q.name)
	}
	return o, refusal(err, q.kind, q.name)
}

func dry(r *http.Request) bool { return r.URL.Query().Get("dryRun") != "" }

// mostBody is how large a request may be.
const mostBody = 3 << 20

func bodyOf(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, r.Method, kind{}.resource(), "", "the sandbox understands JSON only", 0, true)
	}
	return body, nil
}

// parse reads an object, as strictly as the request asks for.
func parse(r *http.Request, body []byte, into port.Object) error {
	content := map[string]any{}
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := decode(content, into, r.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func (s *Sandbox) create(r *http.Request, q query) (runtime.Object, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	o := q.object()
	if err := parse(r, body, o); err != nil {
		return nil, err
	}
	if q.Namespaced {
		o.SetNamespace(q.namespace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return o, s.add(q.kind, o, dry(r))
}

// add stores a new object. The caller holds the lock.
func (s *Sandbox) add(k kind, o port.Object, dry bool) error {
	called := o.GetNamespace() + "/" + o.GetName()
	if k.Kind == clusterKind && s.database != "" {
		if s.database == called {
			if _, err := s.stored(query{kind: k, namespace: o.GetNamespace(), name: o.GetName()}); err == nil {
				return apierrors.NewAlreadyExists(k.resource(), o.GetName())
			}
		}
		return apierrors.NewForbidden(k.resource(), o.GetName(), fmt.Errorf("the sandbox has one database, that of %s: start another sandbox", s.database))
	}
	if dry {
		return nil
	}
	if err := s.person.Create(context.Background(), o); err != nil {
		return refusal(err, k, o.GetName())
	}
	if k.Kind == clusterKind {
		s.database = called
	}
	return nil
}

// change patches or replaces an object, or its status.
func (s *Sandbox) change(r *http.Request, q query) (runtime.Object, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is, err := s.stored(q)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(is)
	if err != nil {
		return nil, err
	}
	after, err := changed(r, q, before, body)
	if err != nil {
		return nil, err
	}
	next := q.object()
	if err := parse(r, after, next); err != nil {
		return nil, err
	}
	switch {
	case dry(r):
		return next, nil
	case q.sub == "status":
		if next.GetResourceVersion() == "" {
			next.SetResourceVersion(is.GetResourceVersion())
		}
		return next, refusal(s.person.SaveStatus(context.Background(), next), q.kind, q.name)
	}
	patch := body
	if r.Method == http.MethodPut || !strings.HasPrefix(r.Header.Get("Content-Type"), string(types.MergePatchType)) {
		if patch, err = jsonpatch.CreateMergePatch(before, after); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return is, refusal(s.person.Patch(context.Background(), is, patch), q.kind, q.name)
}

// changed returns an object as it is after a change.
func changed(r *http.Request, q query, before, body []byte) (after []byte, err error) {
	of, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch form := types.PatchType(of); {
	case r.Method == http.MethodPut:
		return body, nil
	case form == types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, body)
	case form == types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(body); err == nil {
			after, err = patch.Apply(before)
		}
	case form == types.StrategicMergePatchType && !q.custom():
		after, err = strategicpatch.StrategicMergePatch(before, body, q.object())
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, r.Method, q.resource(), q.name, "the sandbox does not understand the patch "+of, 0, true)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return after, nil
}

// remove begins to delete an object.
func (s *Sandbox) remove(r *http.Request, q query) (runtime.Object, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	var o metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is, err := s.stored(q)
	if err != nil {
		return nil, err
	}
	if p := o.Preconditions; p != nil && (p.UID != nil && *p.UID != is.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != is.GetResourceVersion()) {
		return nil, apierrors.NewConflict(q.resource(), q.name, errors.New("the object has changed"))
	}
	if dry(r) || len(o.DryRun) > 0 {
		return is, nil
	}
	return is, refusal(s.person.Delete(context.Background(), is), q.kind, q.name)
}
