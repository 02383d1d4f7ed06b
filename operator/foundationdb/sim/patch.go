package sim

import (
	"bytes"
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// patched returns a copy of an object with a JSON merge patch (RFC 7386) applied to all but its status.
func patched(o port.Object, patch []byte) (port.Object, error) {
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, control.Invalid.Errorf("the patch is no JSON object: %v", err)
	}
	metadata, _ := change["metadata"].(map[string]any)
	if version, given := metadata["resourceVersion"].(string); given && version != o.GetResourceVersion() {
		return nil, fault.WriteConflict.Errorf("%s %s has the resource version %s, not %s", kindOf(o), nameOf(o), o.GetResourceVersion(), version)
	}
	if uid, given := metadata["uid"].(string); given && uid != string(o.GetUID()) {
		return nil, fault.WriteConflict.Errorf("%s %s has another UID", kindOf(o), nameOf(o))
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "name", "namespace", "managedFields"} {
		delete(metadata, field)
	}
	for _, field := range []string{"status", "kind", "apiVersion"} {
		delete(change, field)
	}
	encoded, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := json.Unmarshal(encoded, &document); err != nil {
		return nil, err
	}
	encoded, err = json.Marshal(merge(document, change))
	if err != nil {
		return nil, err
	}
	next, _ := reflect.New(reflect.TypeOf(o).Elem()).Interface().(port.Object)
	if err := json.Unmarshal(encoded, next); err != nil {
		return nil, control.Invalid.Errorf("%s %s: %v", kindOf(o), nameOf(o), err)
	}
	if _, given := change["spec"]; !given {
		return next, nil
	}
	return next, immutable(o, next)
}

// merge applies a merge patch to a document.
func merge(document, patch any) any {
	change, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	into, isObject := document.(map[string]any)
	if !isObject {
		into = map[string]any{}
	}
	for field, value := range change {
		if value == nil {
			delete(into, field)
		} else {
			into[field] = merge(into[field], value)
		}
	}
	return into
}

// immutable refuses a change of what cannot change: of a pod's spec all but images, of a claim all but a larger
// request, the IP of a service, the selector of a deployment. Source: Kubernetes, pkg/apis/core/validation.
func immutable(before, after port.Object) error {
	switch before := before.(type) {
	case *corev1.Pod:
		a, b := before.DeepCopy().Spec, after.DeepCopyObject().(*corev1.Pod).Spec //nolint:forcetypeassert // the same kind
		for _, spec := range []*corev1.PodSpec{&a, &b} {
			for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
				for i := range list {
					list[i].Image = ""
				}
			}
			spec.Tolerations, spec.ActiveDeadlineSeconds = nil, nil
		}
		if !same(a, b) {
			return control.Invalid.Errorf("pod %s: spec: pod updates may not change fields other than images", nameOf(before))
		}
	case *corev1.PersistentVolumeClaim:
		a, b := before.DeepCopy().Spec, after.DeepCopyObject().(*corev1.PersistentVolumeClaim).Spec //nolint:forcetypeassert // the same kind
		old, grown := a.Resources.Requests[corev1.ResourceStorage], b.Resources.Requests[corev1.ResourceStorage]
		if grown.Cmp(old) < 0 {
			return control.Invalid.Errorf("claim %s: spec.resources.requests.storage: field can not be less than previous value", nameOf(before))
		}
		a.Resources, b.Resources = corev1.VolumeResourceRequirements{}, corev1.VolumeResourceRequirements{}
		if !same(a, b) {
			return control.Invalid.Errorf("claim %s: spec is immutable after creation except resources.requests", nameOf(before))
		}
	case *corev1.Service:
		if a, b := before.Spec.ClusterIP, after.(*corev1.Service).Spec.ClusterIP; a != b && a != "" { //nolint:forcetypeassert // the same kind
			return control.Invalid.Errorf("service %s: spec.clusterIP: field is immutable", nameOf(before))
		}
	}
	return nil
}

// same compares as the API server would: what is written the same way is the same.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
