package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/backups"
	"github.com/pawl-dev/pawl/secretfile"
)

// BackupStore keeps backups as standalone objects of kind SharedStorageBackup.
type BackupStore struct{ Objects control.Objects }

var _ backups.Store = BackupStore{}

// Secret reads a secret of a repository from its file. Only the user of this process may be able to
// read it.
func Secret(_ context.Context, _ string, from v1alpha1.SecretSource) (string, error) {
	if from.Secret != nil || from.File == "" {
		return "", sharedstorage.SpecInvalid.Errorf("without Kubernetes a secret is in a file")
	}
	return secretfile.Secret(from.File)
}

// Load implements backups.Store.
func (s BackupStore) Load(ctx context.Context, namespace, name string) (*backups.Backup, error) {
	o, err := s.Objects.Get(ctx, control.Ref{Kind: backups.Kind, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return s.Of(o)
}

// Of returns the backup that an object describes.
func (s BackupStore) Of(o control.Object) (*backups.Backup, error) {
	b := &backups.Backup{Finalized: slices.Contains(o.Finalizers, sharedstorage.Finalizer), Version: o}
	b.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID), Generation: o.Generation, Labels: o.Labels, Annotations: o.Annotations,
		CreationTimestamp: metav1.NewTime(o.CreatedAt)}
	if o.Deleting() {
		b.DeletionTimestamp = new(metav1.NewTime(o.DeletionMark))
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &b.Status); err != nil {
			return nil, fmt.Errorf("the status of %s: %w", o.Ref, err)
		}
	}
	spec, err := backupSpec(o.Spec)
	b.Spec = spec
	return b, err
}

// backupSpec reads a spec, fills in the defaults of the CRD, and rejects what the CRD rejects.
func backupSpec(raw json.RawMessage) (v1alpha1.SharedStorageBackupSpec, error) {
	var spec v1alpha1.SharedStorageBackupSpec
	dec := json.NewDecoder(bytes.NewReader(orEmpty(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		return spec, sharedstorage.SpecInvalid.Errorf("spec: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if spec.Type == "" {
		spec.Type = "full"
	}
	switch {
	case spec.Cluster == "":
		return spec, sharedstorage.SpecInvalid.Errorf("cluster: name one")
	case !slices.Contains([]string{"full", "diff", "incr"}, spec.Type):
		return spec, sharedstorage.SpecInvalid.Errorf("type: %q is none of full, diff and incr", spec.Type)
	}
	return spec, nil
}

func admitBackup(want control.Object, stored func() (*control.Object, error)) error {
	old, err := stored()
	if err != nil {
		return err
	}
	spec, err := backupSpec(want.Spec)
	if err != nil || old == nil || old.Deleting() {
		return err
	}
	if before, err := backupSpec(old.Spec); err == nil && before != spec {
		return sharedstorage.SpecInvalid.Errorf("a backup cannot be changed: create another one")
	}
	return nil
}

// Save implements backups.Store.
func (s BackupStore) Save(ctx context.Context, b *backups.Backup) error {
	o, ok := b.Version.(control.Object)
	if !ok {
		return fmt.Errorf("local: backup %s was not loaded from here", b.Name)
	}
	next := o.Copy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == sharedstorage.Finalizer })
	if b.Finalized {
		next.Finalizers = append(next.Finalizers, sharedstorage.Finalizer)
	}
	raw, err := json.Marshal(b.Status)
	if err != nil {
		return err
	}
	var status map[string]any
	if err := json.Unmarshal(raw, &status); err != nil {
		return err
	}
	withoutNulls(status)
	if held := backups.HeldBy(b); held != nil {
		status[control.StatusFault] = held
	}
	if next.Status, err = json.Marshal(status); err != nil {
		return err
	}
	saved, err := s.Objects.Update(ctx, next)
	if errors.Is(err, control.NotFound) && !b.Finalized {
		return nil // it is gone with its last finalizer
	}
	if err == nil {
		b.Version = saved
	}
	return err
}

// List implements backups.Store.
func (s BackupStore) List(ctx context.Context, namespace, cluster string) ([]*backups.Backup, error) {
	var all []*backups.Backup
	q := control.Query{Kind: backups.Kind, Namespace: namespace}
	for {
		page, err := s.Objects.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			if b, err := s.Of(o); err == nil && b.Spec.Cluster == cluster {
				all = append(all, b)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// Delete implements backups.Store.
func (s BackupStore) Delete(ctx context.Context, b *backups.Backup) error {
	_, err := s.Objects.Delete(ctx, control.Ref{Kind: backups.Kind, Namespace: b.Namespace, Name: b.Name}, 0)
	if errors.Is(err, control.NotFound) {
		return nil
	}
	return err
}

// Find implements sharedstorage.BackupStore.
func (s BackupStore) Find(ctx context.Context, namespace, name string) (*v1alpha1.SharedStorageBackup, error) {
	b, err := s.Load(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &b.SharedStorageBackup, nil
}

// Create implements sharedstorage.BackupStore.
func (s BackupStore) Create(ctx context.Context, b *v1alpha1.SharedStorageBackup) error {
	raw, err := json.Marshal(b.Spec)
	if err != nil {
		return err
	}
	ref := control.Ref{Kind: backups.Kind, Namespace: b.Namespace, Name: b.Name}
	if _, err := s.Objects.Get(ctx, ref); !errors.Is(err, control.NotFound) {
		return err
	}
	_, err = s.Objects.Apply(ctx, control.Object{Ref: ref, Labels: b.Labels, Spec: raw})
	if fault.Of(err) == fault.WriteConflict {
		return nil // somebody was faster
	}
	return err
}
