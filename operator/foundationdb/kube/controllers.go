package kube

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	// DefaultLook is how often a settled cluster is looked at: what dies inside a pod wakes nobody in Kubernetes.
	DefaultLook = time.Minute

	quiet     = time.Second     // what children report within it is one wake
	passLimit = 5 * time.Minute // of one pass
)

// Reconciler makes one pass over an object. Done means that it is settled, or gone.
type Reconciler interface {
	Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome
}

// Controllers adds the controllers of this operator to a manager. Manager, Objects and the three reconcilers are required.
type Controllers struct {
	Manager  *controller.Manager
	Objects  *Objects
	Clusters Reconciler // of FoundationDBClusters
	Backups  Reconciler // of FoundationDBBackups
	Restores Reconciler // of FoundationDBRestores

	Look    time.Duration // at least once a Look each cluster and each backup has a pass; 0: DefaultLook
	Workers int           // objects of a kind in work at once; 0: controller.DefaultWorkers
}

// Setup adds a controller for each kind that the API server knows, and for the others as soon as it knows them. An
// object is never given up: only the API server's trouble is a failure, and that ends.
func (c Controllers) Setup() error {
	if c.Manager == nil || c.Objects == nil || c.Clusters == nil || c.Backups == nil || c.Restores == nil {
		return errors.New("kube: Controllers needs Manager, Objects and three reconcilers")
	}
	c.Look = cmp.Or(c.Look, DefaultLook)
	for _, kind := range []struct {
		needs []schema.GroupVersionKind
		setup func() error
	}{
		{[]schema.GroupVersionKind{ClusterKind}, c.setupClusters},
		{[]schema.GroupVersionKind{BackupKind, ClusterKind}, c.setupBackups},
		{[]schema.GroupVersionKind{RestoreKind, ClusterKind}, c.setupRestores},
	} {
		if err := c.Manager.WhenServed(kind.needs, kind.setup); err != nil {
			return err
		}
	}
	return nil
}

func (c Controllers) setupClusters() error {
	settings := settingsOf[*v1beta2.FoundationDBCluster](c, ClusterKind, c.Clusters, c.Look)
	settings.Signals = c.Objects.nodes.signals
	settings.Watches = []controller.Watch{
		children(ClusterKind, &corev1.Pod{}, updates(podChanged)),
		children(ClusterKind, &corev1.PersistentVolumeClaim{}, predicate.ResourceVersionChangedPredicate{}),
		children(ClusterKind, &corev1.Service{}, predicate.ResourceVersionChangedPredicate{}),
	}
	return controller.Setup(c.Manager, settings)
}

func (c Controllers) setupBackups() error {
	settings := settingsOf[*v1beta2.FoundationDBBackup](c, BackupKind, c.Backups, c.Look)
	settings.Watches = []controller.Watch{
		children(BackupKind, &appsv1.Deployment{}, updates(deploymentChanged)),
		{Object: &v1beta2.FoundationDBCluster{}, When: updates(databaseChanged), Keys: c.backupsOf},
	}
	return controller.Setup(c.Manager, settings)
}

// setupRestores asks for no looks: a restore that has ended does nothing any more, and one that runs asks itself.
func (c Controllers) setupRestores() error {
	settings := settingsOf[*v1beta2.FoundationDBRestore](c, RestoreKind, c.Restores, 0)
	settings.Watches = []controller.Watch{{Object: &v1beta2.FoundationDBCluster{}, When: updates(databaseChanged), Keys: c.restoresOf}}
	return controller.Setup(c.Manager, settings)
}

// settingsOf returns what the controllers have in common.
func settingsOf[T client.Object](c Controllers, kind schema.GroupVersionKind, r Reconciler, look time.Duration) controller.Controller[T] {
	empty, err := c.Manager.GetScheme().New(kind)
	if err != nil {
		panic(err) // AddToScheme has all three
	}
	return controller.Controller[T]{
		For: empty.(T), Cache: c.Objects.cache, Reconcile: passOf(r, look, time.Now), ExtraUpdates: labelsChanged[T],
		Quiet: quiet, Workers: c.Workers, MaxRetries: controller.Unlimited,
	}
}

// passOf bounds a pass, and lets another one follow within look. 0: when the reconciler asks for it, or something happens.
func passOf(r Reconciler, look time.Duration, now func() time.Time) func(context.Context, control.Ref) outcome.Outcome {
	return func(ctx context.Context, ref control.Ref) outcome.Outcome {
		within, cancel := context.WithTimeout(ctx, passLimit)
		defer cancel()
		out := r.Reconcile(within, ref)
		if look <= 0 {
			return out
		}
		return lookAgain(out, untilLook(ref, now(), look))
	}
}

// lookAgain returns an outcome whose delay is at most next.
func lookAgain(out outcome.Outcome, next time.Duration) outcome.Outcome {
	switch {
	case out.IsFail(), out.After() > 0 && out.After() <= next:
		return out
	case out.IsDone():
		return outcome.Later(next, "Settled", "it is as it should be")
	case out.IsLater():
		return outcome.Later(next, out.Reason(), "%s", out.Message())
	}
	return outcome.Wait(next, out.Reason(), "%s", out.Message())
}

// untilLook returns when an object is looked at next. Each has its own moment within look, by its name, so that those
// of one process are spread over it.
func untilLook(ref control.Ref, now time.Time, look time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(ref.String()))
	moment := time.Duration(h.Sum64() % uint64(look))
	next := (moment - time.Duration(now.UnixNano()%int64(look)) + look) % look
	if next <= min(quiet, look/2) { // this pass is that look
		next += look
	}
	return next
}

// children wakes the owner of children of one kind.
func children(owner schema.GroupVersionKind, child client.Object, when predicate.Predicate) controller.Watch {
	return controller.Watch{Object: child, When: when, Keys: func(_ context.Context, obj client.Object) []types.NamespacedName {
		name := ownerOf(obj, owner.Kind)
		if name == "" {
			return nil
		}
		return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: name}}
	}}
}

// backupsOf returns the backups of a cluster.
func (c Controllers) backupsOf(ctx context.Context, cluster client.Object) (names []types.NamespacedName) {
	var all v1beta2.FoundationDBBackupList
	if err := c.Objects.cache.ListShared(ctx, &all, client.InNamespace(cluster.GetNamespace())); err != nil {
		return nil // the manager stops; a look would find them
	}
	for i := range all.Items {
		if all.Items[i].Spec.ClusterName == cluster.GetName() {
			names = append(names, client.ObjectKeyFromObject(&all.Items[i]))
		}
	}
	return names
}

// restoresOf returns the restores into a cluster.
func (c Controllers) restoresOf(ctx context.Context, cluster client.Object) (names []types.NamespacedName) {
	var all v1beta2.FoundationDBRestoreList
	if err := c.Objects.cache.ListShared(ctx, &all, client.InNamespace(cluster.GetNamespace())); err != nil {
		return nil // the manager stops
	}
	for i := range all.Items {
		if all.Items[i].Spec.DestinationClusterName == cluster.GetName() {
			names = append(names, client.ObjectKeyFromObject(&all.Items[i]))
		}
	}
	return names
}
