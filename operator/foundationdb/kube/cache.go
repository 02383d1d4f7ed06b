package kube

import (
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
)

// The kinds of this operator.
var (
	ClusterKind = v1beta2.GroupVersion.WithKind("FoundationDBCluster")
	BackupKind  = v1beta2.GroupVersion.WithKind("FoundationDBBackup")
	RestoreKind = v1beta2.GroupVersion.WithKind("FoundationDBRestore")
)

const (
	domain = "foundationdb.org/" // labels and annotations of the children
	// foreignAnnotation marks what the cache holds of an object that is none of ours. It is in no object of the
	// API server.
	foreignAnnotation = "pawl.dev/foreign"
)

// AddToScheme adds the kinds that the operator reads and writes.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(s), appsv1.AddToScheme(s), v1beta2.AddToScheme(s))
}

// newCache adds the cache of this operator to a manager. ours selects the objects of the three kinds; nil: all.
func newCache(m *controller.Manager, ours labels.Selector) (*controller.Cache, error) {
	chosen := cache.ByObject{Label: ours}
	child := cache.ByObject{Transform: keepOurs}
	return m.NewCache(controller.CacheOptions{
		ByObject: map[client.Object]cache.ByObject{
			&v1beta2.FoundationDBCluster{}: chosen, &v1beta2.FoundationDBBackup{}: chosen, &v1beta2.FoundationDBRestore{}: chosen,
			&corev1.Pod{}: child, &corev1.PersistentVolumeClaim{}: child, &corev1.Service{}: child, &appsv1.Deployment{}: child,
			&corev1.Node{}: {Transform: keepTaints},
		},
		Uncached: []client.Object{&corev1.ConfigMap{}},
	})
}

// keepOurs drops all but name and labels of a child that has neither an owner nor a label of this operator.
func keepOurs(obj any) (any, error) {
	o, ok := obj.(client.Object)
	if !ok {
		return obj, nil
	}
	o.SetManagedFields(nil)
	if isOurs(o) {
		return obj, nil
	}
	meta := metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Labels: o.GetLabels(),
		Annotations: map[string]string{foreignAnnotation: ""},
	}
	switch obj.(type) {
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: meta}, nil
	case *corev1.PersistentVolumeClaim:
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta}, nil
	case *corev1.Service:
		return &corev1.Service{ObjectMeta: meta}, nil
	case *appsv1.Deployment:
		return &appsv1.Deployment{ObjectMeta: meta}, nil
	}
	return obj, nil
}

// isOurs reports whether an object has an owner of our kinds or a label below foundationdb.org/.
func isOurs(o metav1.Object) bool {
	for _, owner := range o.GetOwnerReferences() {
		if group, err := schema.ParseGroupVersion(owner.APIVersion); err == nil && group.Group == v1beta2.GroupVersion.Group {
			return true
		}
	}
	for key := range o.GetLabels() {
		if strings.HasPrefix(key, domain) {
			return true
		}
	}
	return false
}

// isForeign reports whether an object is only what keepOurs has left of it.
func isForeign(o metav1.Object) bool {
	_, is := o.GetAnnotations()[foreignAnnotation]
	return is
}

// keepTaints drops all of a node but name, labels and taints.
func keepTaints(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels, DeletionTimestamp: node.DeletionTimestamp},
		Spec:       corev1.NodeSpec{Taints: node.Spec.Taints},
	}, nil
}
