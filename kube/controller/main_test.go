package controller

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// demo is an object with conditions.
type demo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            struct {
		N          int                `json:"n,omitempty"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

func (d *demo) DeepCopyObject() runtime.Object {
	c := *d
	d.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = append([]metav1.Condition(nil), d.Status.Conditions...)
	return &c
}

func conditionsOf(d *demo) *[]metav1.Condition { return &d.Status.Conditions }

// store is an API server with one object.
type store struct {
	client.Client // nil: all other methods panic
	obj           *demo
	getErr, err   error
	writes        []string
}

func (s *store) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch {
	case s.getErr != nil:
		return s.getErr
	case s.obj == nil || s.obj.Name != key.Name:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "demos"}, key.Name)
	}
	*obj.(*demo) = *s.obj.DeepCopyObject().(*demo)
	return nil
}

func (s *store) List(context.Context, client.ObjectList, ...client.ListOption) error { return s.getErr }

func (s *store) Status() client.SubResourceWriter { return statusOfStore{s: s} }

type statusOfStore struct {
	client.SubResourceWriter
	s *store
}

func (w statusOfStore) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	if w.s.err != nil {
		return w.s.err
	}
	raw, err := patch.Data(obj)
	if err != nil {
		return err
	}
	w.s.writes = append(w.s.writes, string(raw))
	if err := json.Unmarshal(raw, w.s.obj); err != nil {
		return err
	}
	w.s.obj.ResourceVersion += "0"
	*obj.(*demo) = *w.s.obj.DeepCopyObject().(*demo)
	return nil
}

// recordedEvents is an EventRecorder that keeps the Events.
type recordedEvents struct{ events []string }

func (r *recordedEvents) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	if kind != corev1.EventTypeNormal {
		reason += "!"
	}
	r.events = append(r.events, reason+": "+args[0].(string))
}
