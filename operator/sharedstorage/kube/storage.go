package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// Storage implements port.Storage with a Lease and claims, in mode port.Copies: each instance has a
// claim and streams from the writer. The claim of a removed writer stays, and the next writer
// uses it.
type Storage struct{ placement *Placement }

var _ port.Storage = &Storage{}

// volume is what the Lease stores about a volume.
type volume struct {
	Size   int64     `json:"size"`
	Claim  string    `json:"claim,omitempty"`
	Key    string    `json:"key,omitempty"`  // of the call that created it
	From   *port.Ref `json:"from,omitempty"` // the cluster from which the data are or were copied
	Cloned bool      `json:"cloned,omitempty"`
}

func (t *Storage) grants(c port.Ref) *Grants {
	return &Grants{Client: t.placement.o.Client, Live: t.placement.o.Live, Cluster: c}
}

// load reads a volume; nil: there is none.
func (t *Storage) load(ctx context.Context, c port.Ref) (*coordinationv1.Lease, *volume, error) {
	record, err := t.grants(c).load(ctx)
	if err != nil || record == nil || record.DeletionTimestamp != nil {
		return nil, nil, err
	}
	if record.Annotations[volumeAnnotation] == "" {
		return record, nil, nil // somebody removed the annotation
	}
	var v volume
	if err := json.Unmarshal([]byte(record.Annotations[volumeAnnotation]), &v); err != nil {
		return nil, nil, port.StorageFailed.Errorf("the annotation %s of Lease %s/%s: %w", volumeAnnotation, record.Namespace, record.Name, err)
	}
	return record, &v, nil
}

// save writes a volume if the Lease has the version that was read.
func (t *Storage) save(ctx context.Context, record *coordinationv1.Lease, v *volume) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if record.Annotations[volumeAnnotation] == string(text) {
		return nil
	}
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[volumeAnnotation] = string(text)
	return t.placement.o.Client.Update(ctx, record)
}

// ensureRecord returns the volume of a cluster, and creates it if there is none.
func (t *Storage) ensureRecord(ctx context.Context, c port.Ref, fresh volume) (*coordinationv1.Lease, *volume, error) {
	record, v, err := t.load(ctx, c)
	if err != nil || v != nil {
		return record, v, err
	}
	text, err := json.Marshal(fresh)
	if err != nil {
		return nil, nil, err
	}
	record = &coordinationv1.Lease{ObjectMeta: meta(c, grantName(c), "")}
	record.Annotations = map[string]string{volumeAnnotation: string(text)}
	if _, err := t.placement.createObject(ctx, c, record); err != nil {
		return nil, nil, err
	}
	if record, v, err = t.load(ctx, c); err == nil && v == nil {
		err = port.StorageFailed.Errorf("the record of the volume of %s goes away", c)
	}
	return record, v, err
}

// Ensure implements port.Storage.
func (t *Storage) Ensure(ctx context.Context, c port.Ref, want port.Volume, key string) (port.Volume, error) {
	if err := t.adopt(ctx, c, want); err != nil {
		return port.Volume{}, err
	}
	adopted, err := t.adoptRetained(ctx, c, want)
	if err != nil {
		return port.Volume{}, err
	}
	record, v, err := t.ensureRecord(ctx, c, volume{Size: want.Size, Claim: want.Claim, Key: key})
	if err != nil {
		return port.Volume{}, err
	}
	if want.Size > 0 && want.Size < v.Size {
		return port.Volume{}, port.StorageShrink.Errorf("the volume of %s has %d bytes, and %d are asked for", c, v.Size, want.Size)
	}
	if want.Size > v.Size {
		v.Size = want.Size
		if err := t.save(ctx, record, v); err != nil {
			return port.Volume{}, err
		}
	}
	if err := t.placement.rbacRules(ctx, c); err != nil {
		return port.Volume{}, err
	}
	if err := t.grow(ctx, c, v.Size); err != nil {
		return port.Volume{}, err
	}
	found, err := t.settle(ctx, c, record, v, true)
	found.Adopted = adopted
	return found, err
}

// adopt makes an existing claim, or a claim for an existing volume, the claim of the first writer.
func (t *Storage) adopt(ctx context.Context, c port.Ref, want port.Volume) error {
	if want.Claim == "" && want.ID == "" {
		return nil
	}
	if record, _, err := t.load(ctx, c); err != nil || record != nil {
		return err
	}
	name := want.Claim
	if name == "" {
		volumes := &corev1.PersistentVolume{}
		if err := t.placement.o.Live.Get(ctx, client.ObjectKey{Name: want.ID}, volumes); err != nil {
			return port.StorageFailed.Errorf("storage.volume: %w", err)
		}
		name = c.Name + "-data"
		claim := t.placement.claim(c, name, volumeComponent, max(want.Size, 1))
		claim.Spec.VolumeName, claim.Spec.StorageClassName = want.ID, &volumes.Spec.StorageClassName
		if err := t.placement.o.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return port.StorageFailed.Errorf("a claim for volume %s: %w", want.ID, err)
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := t.placement.o.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, claim); err != nil {
		return port.StorageFailed.Errorf("storage.claim: %w", err)
	}
	if other := claim.Labels[ClusterLabel]; other != "" && other != c.Name {
		return port.StorageFailed.Errorf("claim %s belongs to cluster %s", name, other)
	}
	if claim.Labels[ComponentLabel] != "" {
		return nil
	}
	before := claim.DeepCopy()
	label(claim, meta(c, name, volumeComponent).Labels)
	return t.placement.o.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func label(obj client.Object, add map[string]string) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range add {
		if value == "" {
			delete(labels, key)
		} else {
			labels[key] = value
		}
	}
	obj.SetLabels(labels)
}

// claims returns all claims of a cluster, including those without an instance.
func (s *Placement) claims(ctx context.Context, c port.Ref, from client.Reader) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	err := from.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{ClusterLabel: c.Name})
	return list.Items, err
}

// grow makes all claims request a size. It never lowers a request.
func (t *Storage) grow(ctx context.Context, c port.Ref, size int64) error {
	claims, err := t.placement.claims(ctx, c, t.placement.o.Live)
	if err != nil {
		return err
	}
	for i := range claims {
		claim := &claims[i]
		asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if claim.DeletionTimestamp != nil || asked.Value() >= size || claim.Status.Phase != corev1.ClaimBound {
			continue
		}
		before := claim.DeepCopy()
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(size, resource.BinarySI)
		err := t.placement.o.Client.Patch(ctx, claim, client.MergeFrom(before))
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return port.StorageFailed.Errorf("claim %s cannot grow: %w", claim.Name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Observe implements port.Storage. It reads the Lease instead of watching it, because the writer
// renews it every few seconds and each renewal would wake the operator.
func (t *Storage) Observe(ctx context.Context, c port.Ref) (port.Volume, error) {
	record, v, err := t.load(ctx, c)
	if err != nil || v == nil {
		return port.Volume{}, err
	}
	return t.settle(ctx, c, record, v, false)
}

// settle returns the current volume. With again it starts a copy that is missing.
func (t *Storage) settle(ctx context.Context, c port.Ref, record *coordinationv1.Lease, v *volume, again bool) (port.Volume, error) {
	grant, err := t.grants(c).grant(record)
	if err != nil {
		return port.Volume{}, err
	}
	found := port.Volume{ID: string(record.UID), Claim: v.Claim, Size: v.Size, State: port.VolumeReady, Mode: port.Copies, Writer: grant.Writer, Epoch: grant.Epoch}
	if v.From != nil && !v.Cloned && grant.Writer == "" { // a later writer has used the data
		found.State = port.VolumeCloning
		done, message, err := t.placement.copied(ctx, *v.From, c, v, again)
		if err != nil {
			return found, err
		}
		if !done {
			found.Message = message
			return found, nil
		}
		v.Cloned, found.State = true, port.VolumeReady
		if err := t.save(ctx, record, v); err != nil {
			return found, err
		}
	}
	from := client.Reader(t.placement.o.Client)
	if again {
		from = t.placement.o.Live
	}
	claims, err := t.placement.claims(ctx, c, from)
	if err != nil {
		return found, err
	}
	if found.State == port.VolumeReady && !again {
		if found.Message, err = t.placement.terminating(ctx, c, claims); err != nil || found.Message != "" {
			found.State = port.VolumeTerminating
			return found, err
		}
	}
	for i := range claims {
		claim := &claims[i]
		has := claim.Status.Capacity[corev1.ResourceStorage]
		switch {
		case claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimPending || claim.Status.Phase == "" || has.IsZero():
		case claim.Status.Phase == corev1.ClaimLost:
			return found, port.StorageFailed.Errorf("claim %s has lost its volume", claim.Name)
		case has.Value() < v.Size:
			found.State, found.Size = port.VolumeGrowing, min(found.Size, has.Value())
			found.Message = fmt.Sprintf("claim %s has %s", claim.Name, has.String())
		}
	}
	return found, nil
}

// Clone implements port.Storage with a base backup of the writer, in a pod.
func (t *Storage) Clone(ctx context.Context, from, to port.Ref, key string) (port.Volume, error) {
	_, source, err := t.load(ctx, from)
	if err != nil {
		return port.Volume{}, err
	}
	if source == nil || from.Namespace != to.Namespace {
		return port.Volume{}, port.CloneSourceMissing.Errorf("there is no cluster %s in namespace %s", from, to.Namespace)
	}
	if _, err := t.adoptRetained(ctx, to, port.Volume{}); err != nil {
		return port.Volume{}, err
	}
	record, v, err := t.ensureRecord(ctx, to, volume{Size: source.Size, Key: key, From: &port.Ref{Namespace: from.Namespace, Name: from.Name}})
	if err != nil {
		return port.Volume{}, err
	}
	if err := t.placement.rbacRules(ctx, to); err != nil {
		return port.Volume{}, err
	}
	return t.settle(ctx, to, record, v, true)
}

// Grant implements port.Storage.
func (t *Storage) Grant(ctx context.Context, c port.Ref, writer string, epoch int64) error {
	return t.grants(c).Grant(ctx, writer, epoch)
}

// Restore implements port.Storage.
func (t *Storage) Restore(ctx context.Context, c port.Ref, was port.Volume, wrote bool) (port.Volume, error) {
	record, v, err := t.load(ctx, c)
	if err != nil {
		return port.Volume{}, err
	}
	fresh := record == nil
	if fresh {
		record = &coordinationv1.Lease{ObjectMeta: meta(c, grantName(c), "")}
	}
	grant, err := t.grants(c).grant(record)
	if err != nil {
		return port.Volume{}, err
	}
	old := record.DeepCopy()
	if v == nil {
		v = &volume{Size: was.Size, Claim: was.Claim}
		if was.From != "" {
			v.From = &port.Ref{Namespace: c.Namespace, Name: was.From}
		}
		text, err := json.Marshal(v)
		if err != nil {
			return port.Volume{}, err
		}
		metav1.SetMetaDataAnnotation(&record.ObjectMeta, volumeAnnotation, string(text))
	}
	if grant.Epoch < was.Epoch {
		if err := t.restored(record, was, wrote); err != nil {
			return port.Volume{}, err
		}
	}
	switch {
	case fresh:
		_, err = t.placement.createObject(ctx, c, record)
	case !equality.Semantic.DeepEqual(old, record):
		err = t.placement.o.Client.Update(ctx, record)
	}
	if err != nil {
		return port.Volume{}, err
	}
	return t.Observe(ctx, c)
}

// restored writes a restored grant into its record. The lease is that of the writer, or one that
// keeps everybody from writing for as long as an unknown lease may run. Nobody knows whom its
// holder would ask before it goes on without the API server, so everybody else waits for that, too.
func (t *Storage) restored(record *coordinationv1.Lease, was port.Volume, wrote bool) error {
	holder := was.Writer
	if !wrote || holder == "" {
		holder = lease.Unknown
	}
	blocked := lease.Lease{Holder: holder, Epoch: was.Epoch, Until: time.Now().Add(t.placement.o.Lease), Failsafe: failsafe.Restored(max(t.placement.o.Failsafe, defaultFailsafe))}
	return write(record, lease.Grant{Writer: was.Writer, Epoch: was.Epoch, Lease: blocked}, true)
}

// Release implements port.Storage.
func (t *Storage) Release(ctx context.Context, c port.Ref, keep bool) error {
	var pods corev1.PodList
	if err := t.placement.o.Live.List(ctx, &pods, of(c, instanceComponent)...); err != nil {
		return err
	}
	if n := len(pods.Items); n > 0 {
		return fmt.Errorf("%d pods of %s are there still: the volume is released after them", n, c)
	}
	if err := t.placement.remove(ctx, &corev1.Pod{ObjectMeta: meta(c, copyName(c), copyComponent)}); err != nil {
		return err
	}
	claims, err := t.placement.claims(ctx, c, t.placement.o.Live)
	if err != nil {
		return err
	}
	for i := range claims {
		if keep && claims[i].Labels[ComponentLabel] == volumeComponent || claims[i].DeletionTimestamp != nil {
			continue
		}
		if err := t.placement.remove(ctx, &claims[i]); err != nil {
			return err
		}
	}
	if err := t.placement.removeClusterObjects(ctx, c); err != nil {
		return err
	}
	t.placement.forget(c)
	return t.placement.remove(ctx, &coordinationv1.Lease{ObjectMeta: meta(c, grantName(c), "")})
}

// AgentGrants returns the grant record of a cluster for an agent or a manager in a pod, which begins now.
func AgentGrants(c client.Client, cluster port.Ref) lease.Granter {
	return &Grants{Client: c, Cluster: cluster, born: time.Now()}
}
