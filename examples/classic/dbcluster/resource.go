package dbcluster

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/pawl-dev/pawl/compat/implement"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
)

// Resource is a cluster for the library. To avoid a CRD, a cluster is a ConfigMap: desired
// and actual values are keys of its data.
type Resource struct {
	implement.KubeResource
}

// The keys of a cluster's data, and the annotation that cancels its flow.
const (
	keyState        = "state"
	keyReaders      = "readers"      // desired, a number
	keyStorageClass = "storageClass" // desired; the class "missing" does not exist
	keyMembers      = "members"      // written by the manager
	keyHold         = "hold"         // true: CreateManager waits

	noteCancelled = "cancelled"
)

// ByName reads a cluster.
func ByName(name, namespace string) (*Resource, error) {
	object, err := k8sutil.ConfigMapFactoryByName(name, namespace)
	if err != nil {
		return nil, err
	}
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	return &Resource{implement.KubeResource{Resource: object}}, nil
}

// Object is the ConfigMap.
func (r *Resource) Object() *corev1.ConfigMap { return r.Resource.(*corev1.ConfigMap) }

// GetState returns the state of the cluster; a new one is in Init.
func (r *Resource) GetState() statemachine.State {
	if state := statemachine.State(r.Object().Data[keyState]); state != statemachine.StateNil {
		return state
	}
	return statemachine.StateInit
}

// UpdateState writes the state of the cluster.
func (r *Resource) UpdateState(state statemachine.State) (statemachine.StateResource, error) {
	newest, err := ByName(r.GetName(), r.GetNamespace())
	if err != nil {
		return nil, err
	}
	newest.Object().Data[keyState] = string(state)
	if err := newest.Update(); err != nil {
		return nil, err
	}
	return newest, nil
}

// Update writes the cluster in the version that was read.
func (r *Resource) Update() error { return k8sutil.ConfigMapUpdate(r.Object()) }

// Fetch reads the cluster again, without a cache.
func (r *Resource) Fetch() (statemachine.StateResource, error) {
	newest, err := ByName(r.GetName(), r.GetNamespace())
	if err != nil {
		return nil, err
	}
	return newest, nil
}

// GetScheme returns the scheme with the kind of the cluster.
func (r *Resource) GetScheme() *runtime.Scheme { return scheme.Scheme }

// IsCancelled reports whether the cluster is marked as cancelled or gone.
func (r *Resource) IsCancelled() bool {
	newest, err := ByName(r.GetName(), r.GetNamespace())
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return newest.Object().Annotations[noteCancelled] == "true" || newest.Object().DeletionTimestamp != nil
}
