package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/backups"
	"github.com/pawl-dev/pawl/workflow"
)

// BackupKind is the kind of the backups of clusters.
var BackupKind = v1alpha1.GroupVersion.WithKind(backups.Kind)

// BackupStore stores backups as SharedStorageBackup objects.
type BackupStore struct {
	objects *controller.Store[*v1alpha1.SharedStorageBackup]
}

var _ backups.Store = &BackupStore{}

// NewBackupStore is NewClusterStore for backups.
func NewBackupStore(cached client.Client, live client.Reader) *BackupStore {
	return &BackupStore{objects: newObjects(cached, live, func() *v1alpha1.SharedStorageBackup { return &v1alpha1.SharedStorageBackup{} })}
}

// Secrets returns a function that reads the secrets of repositories from the API server, for
// sharedstorage.Options.Secrets. They are in no cache.
func Secrets(live client.Reader) func(context.Context, string, v1alpha1.SecretSource) (string, error) {
	return func(ctx context.Context, namespace string, from v1alpha1.SecretSource) (string, error) {
		if from.Secret == nil || from.File != "" {
			return "", sharedstorage.SpecInvalid.Errorf("on Kubernetes a secret is in a Secret, not in a file")
		}
		s := &corev1.Secret{}
		if err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: from.Secret.Name}, s); err != nil {
			if apierrors.IsNotFound(err) {
				return "", fmt.Errorf("there is no Secret %s", from.Secret.Name)
			}
			return "", controller.Fault(err)
		}
		value, ok := s.Data[from.Secret.Key]
		if !ok {
			return "", fmt.Errorf("there is no key %s in Secret %s", from.Secret.Key, from.Secret.Name)
		}
		return string(value), nil
	}
}

// Load implements backups.Store.
func (s *BackupStore) Load(ctx context.Context, namespace, name string) (*backups.Backup, error) {
	draft, err := s.objects.Load(ctx, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return backupOf(draft.Object, draft), nil
}

func backupOf(obj *v1alpha1.SharedStorageBackup, version any) *backups.Backup {
	b := &backups.Backup{Finalized: slices.Contains(obj.Finalizers, sharedstorage.Finalizer), Version: version}
	obj.DeepCopyInto(&b.SharedStorageBackup)
	return b
}

// Save implements backups.Store.
func (s *BackupStore) Save(ctx context.Context, b *backups.Backup) error {
	draft, ok := b.Version.(*controller.Draft[*v1alpha1.SharedStorageBackup])
	if !ok {
		return fmt.Errorf("kube: backup %s was not loaded from here", b.Name)
	}
	b.Status.DeepCopyInto(&draft.Object.Status)
	return s.objects.Save(ctx, draft, b.Finalized)
}

// List implements backups.Store.
func (s *BackupStore) List(ctx context.Context, namespace, cluster string) ([]*backups.Backup, error) {
	var list v1alpha1.SharedStorageBackupList
	if err := s.objects.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, controller.Fault(err)
	}
	var all []*backups.Backup
	for i := range list.Items {
		if list.Items[i].Spec.Cluster == cluster {
			all = append(all, backupOf(&list.Items[i], nil))
		}
	}
	return all, nil
}

// Delete implements backups.Store.
func (s *BackupStore) Delete(ctx context.Context, b *backups.Backup) error {
	uid := b.UID
	obj := &v1alpha1.SharedStorageBackup{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}
	return controller.Fault(client.IgnoreNotFound(s.objects.Client.Delete(ctx, obj, client.Preconditions{UID: &uid})))
}

// Find implements sharedstorage.BackupStore.
func (s *BackupStore) Find(ctx context.Context, namespace, name string) (*v1alpha1.SharedStorageBackup, error) {
	b, err := s.Load(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &b.SharedStorageBackup, nil
}

// Create implements sharedstorage.BackupStore.
func (s *BackupStore) Create(ctx context.Context, b *v1alpha1.SharedStorageBackup) error {
	err := s.objects.Client.Create(ctx, b)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return controller.Fault(err)
}

// SetupBackups adds the controller of SharedStorageBackups to a manager, as soon as their kind is
// served.
func SetupBackups(m *controller.Manager, c *controller.Cache, o *backups.Operator, engine *workflow.Engine, workers int) error {
	return m.WhenServed([]schema.GroupVersionKind{BackupKind}, func() error {
		runs, err := controller.RunsOf(engine)
		if err != nil {
			return err
		}
		return controller.Setup(m, controller.Controller[*v1alpha1.SharedStorageBackup]{
			Name: "sharedstoragebackup", For: &v1alpha1.SharedStorageBackup{}, Cache: c, Reconcile: o.Reconcile,
			Conditions: func(b *v1alpha1.SharedStorageBackup) *[]metav1.Condition { return &b.Status.Conditions }, Condition: "Ready",
			Runs: runs, LastRequest: func(b *v1alpha1.SharedStorageBackup) **v1alpha1.RunRequest { return &b.Status.LastRequest },
			Signals: o.Listen, Workers: workers, MaxRetries: controller.Unlimited,
		})
	})
}
