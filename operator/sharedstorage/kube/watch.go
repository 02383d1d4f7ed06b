package kube

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// watchedKinds returns the kinds of the objects that Restore restores, besides the Deployment, and
// of the grant record, which a pass of the operator restores. Of Secrets and Leases it watches the
// metadata only: so no token is in a cache, and the rest of a Lease changes every few seconds.
func watchedKinds() map[client.Object]predicate.Predicate {
	only := func(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(kind)
		return obj
	}
	changed := predicate.ResourceVersionChangedPredicate{}
	deleted := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return map[client.Object]predicate.Predicate{
		&corev1.Service{}: changed, &corev1.ServiceAccount{}: changed, &rbacv1.Role{}: changed, &rbacv1.RoleBinding{}: changed,
		&policyv1.PodDisruptionBudget{}:                           predicate.GenerationChangedPredicate{},
		only(corev1.SchemeGroupVersion.WithKind("Secret")):        changed,
		&corev1.ConfigMap{}:                                       deleted,
		only(coordinationv1.SchemeGroupVersion.WithKind("Lease")): deleted,
	}
}

// watches wakes the clusters of a kind whose objects are changed or deleted.
func (s *Placement) watches(m *controller.Manager, kind string) ([]controller.Watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil {
		ours, err := clusterSelector()
		if err != nil {
			return nil, err
		}
		if s.cache, err = m.NewCache(controller.CacheOptions{Labels: ours}); err != nil {
			return nil, err
		}
	}
	var all []controller.Watch
	for obj, when := range watchedKinds() {
		if _, memory := obj.(*corev1.ConfigMap); memory {
			deleted := when
			when = predicate.Funcs{CreateFunc: deleted.Create, UpdateFunc: deleted.Update, GenericFunc: deleted.Generic, DeleteFunc: func(e event.DeleteEvent) bool {
				s.deleted(e.Object)
				return true
			}}
		}
		all = append(all, controller.Watch{Object: obj, Cache: s.cache, When: when, Keys: func(_ context.Context, obj client.Object) []types.NamespacedName {
			owner := metav1.GetControllerOf(obj)
			if cluster := obj.GetLabels()[ClusterLabel]; owner == nil && cluster != "" && kind == sharedstorage.Kind { // a Secret with the password of a user
				return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: cluster}}
			}
			if owner == nil || owner.Kind != kind {
				return nil
			}
			return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: owner.Name}}
		}})
	}
	return append(all, deletedClaims()), nil
}

// deletedClaims wakes the cluster of a claim that somebody deletes. The clusters of both kinds have
// one set of names: a kind that has none of this name does nothing.
func deletedClaims() controller.Watch {
	never := func(event.CreateEvent) bool { return false }
	return controller.Watch{
		Object: &corev1.PersistentVolumeClaim{},
		When: predicate.Funcs{
			CreateFunc: never, GenericFunc: func(event.GenericEvent) bool { return false },
			UpdateFunc: func(e event.UpdateEvent) bool {
				return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
			},
		},
		Keys: func(_ context.Context, obj client.Object) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[ClusterLabel]}}
		},
	}
}

// editedClasses wakes the clusters of a namespace whose list of classes is edited. fresh returns an empty
// list of their kind.
func editedClasses(from client.Reader, fresh func() client.ObjectList) controller.Watch {
	return controller.Watch{
		Object: &corev1.ConfigMap{},
		When:   predicate.ResourceVersionChangedPredicate{},
		Keys: func(ctx context.Context, obj client.Object) (found []types.NamespacedName) {
			list := fresh()
			if obj.GetName() != sharedstorage.ClassesName || from.List(ctx, list, client.InNamespace(obj.GetNamespace())) != nil {
				return nil // a pass within a minute notices the edit
			}
			_ = apimeta.EachListItem(list, func(item runtime.Object) error { // it returns what this function returns
				found = append(found, client.ObjectKeyFromObject(item.(client.Object)))
				return nil
			})
			return found
		},
	}
}
