// Package implement has the base type of resources that are Kubernetes objects.
package implement

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/compat/statemachine"
)

// IKubeResource is a resource that is a Kubernetes object.
type IKubeResource interface {
	statemachine.StateResource
	GetScheme() *runtime.Scheme
	GetResource() metav1.Object
	Update() error
}

// NotImplementError is the error of the methods of KubeResource that its users have to implement.
var NotImplementError = errors.New("the resource has to implement this method") //nolint:errname,revive,staticcheck // the name is part of the interface that is kept

// KubeResource is embedded in resources, which implement Fetch, GetState, UpdateState, Update,
// GetScheme and IsCancelled themselves.
type KubeResource struct {
	Resource metav1.Object
}

// GetName returns the object's name.
func (r *KubeResource) GetName() string { return r.Resource.GetName() }

// GetNamespace returns the object's namespace.
func (r *KubeResource) GetNamespace() string { return r.Resource.GetNamespace() }

// GetResource returns the object.
func (r *KubeResource) GetResource() metav1.Object { return r.Resource }

// GetState returns StateNil.
func (r *KubeResource) GetState() statemachine.State { return statemachine.StateNil }

// UpdateState returns NotImplementError.
func (r *KubeResource) UpdateState(statemachine.State) (statemachine.StateResource, error) {
	return nil, NotImplementError
}

// Update returns NotImplementError.
func (r *KubeResource) Update() error { return NotImplementError }

// Fetch returns NotImplementError.
func (r *KubeResource) Fetch() (statemachine.StateResource, error) { return nil, NotImplementError }

// GetScheme returns nil.
func (r *KubeResource) GetScheme() *runtime.Scheme { return nil }

// IsCancelled returns true, so that a resource that does not implement it runs no flow.
func (r *KubeResource) IsCancelled() bool { return true }
