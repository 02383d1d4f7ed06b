package sandbox

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// events are the Events that the operator has told, in their order.
func (s *Sandbox) events() []runtime.Object {
	var all []runtime.Object
	for i, told := range s.world.Events() {
		e := &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: told.Kind, Namespace: told.Namespace, Name: told.Name},
			Reason:         told.Reason, Message: told.Message, Type: corev1.EventTypeNormal, Count: 1,
			FirstTimestamp: metav1.NewTime(told.At), LastTimestamp: metav1.NewTime(told.At),
			Source: corev1.EventSource{Component: told.Owner},
		}
		if told.Warning {
			e.Type = corev1.EventTypeWarning
		}
		for _, k := range kinds {
			if k.Kind == told.Kind {
				e.InvolvedObject.APIVersion = k.version.String()
				if o, err := s.stored(query{kind: k, namespace: told.Namespace, name: told.Name}); k.object != nil && err == nil {
					e.InvolvedObject.UID = o.GetUID()
				}
			}
		}
		e.Namespace, e.Name = told.Namespace, fmt.Sprintf("%s.%x", told.Name, i)
		if e.Namespace == "" {
			e.Namespace = Namespace
		}
		e.UID, e.CreationTimestamp, e.ResourceVersion = types.UID(fmt.Sprintf("event-%d", i)), e.FirstTimestamp, fmt.Sprint(i+1)
		all = append(all, e)
	}
	return all
}

// namespaces are those that objects are in.
func (s *Sandbox) namespaces() []runtime.Object {
	names := map[string]bool{Namespace: true}
	for ref := range s.work {
		names[ref.Namespace] = true
	}
	var all []runtime.Object
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
		n.Name, n.UID = name, types.UID("namespace-"+name)
		all = append(all, n)
	}
	return all
}
