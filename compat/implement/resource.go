// Package implement is the base of resources that are objects of Kubernetes.
package implement

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/compat/statemachine"
)

// IKubeResource is a resource that is an object of Kubernetes.
type IKubeResource interface {
	statemachine.StateResource
	GetScheme() *runtime.Scheme
	GetResource() metav1.Object
	Update() error
}

// NotImplementError is what the methods of KubeResource answer that its users
// have to write.
var NotImplementError = errors.New("the resource has to implement this method") //nolint:errname,revive,staticcheck // the name is part of the interface that is kept

// KubeResource is embedded by resources. Fetch, GetState, UpdateState, Update,
// GetScheme and IsCancelled are theirs to write.
type KubeResource struct {
	Resource metav1.Object
}

// GetName is the object's name.
func (r *KubeResource) GetName() string { return r.Resource.GetName() }

// GetNamespace is the object's namespace.
func (r *KubeResource) GetNamespace() string { return r.Resource.GetNamespace() }

// GetResource is the object.
func (r *KubeResource) GetResource() metav1.Object { return r.Resource }

// GetState answers StateNil.
func (r *KubeResource) GetState() statemachine.State { return statemachine.StateNil }

// UpdateState answers NotImplementError.
func (r *KubeResource) UpdateState(statemachine.State) (statemachine.StateResource, error) {
	return nil, NotImplementError
}

// Update answers NotImplementError.
func (r *KubeResource) Update() error { return NotImplementError }

// Fetch answers NotImplementError.
func (r *KubeResource) Fetch() (statemachine.StateResource, error) { return nil, NotImplementError }

// GetScheme answers nil.
func (r *KubeResource) GetScheme() *runtime.Scheme { return nil }

// IsCancelled answers true: a resource that does not say otherwise has no flow
// carried out.
func (r *KubeResource) IsCancelled() bool { return true }
