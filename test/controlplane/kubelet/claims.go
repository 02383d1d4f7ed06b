package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// The default StorageClass, and the driver of its volumes.
const (
	StorageClass  = "standard"
	StorageDriver = "folders.pawl.dev"
)

// Claims creates a volume, which is a folder, for each claim of a StorageClass with the
// provisioner StorageDriver. A claim whose dataSource is another claim gets a copy of its
// folder; a claim that grows gets the requested size; the folder of a released volume is
// removed, unless its reclaim policy is Retain. Sizes are not enforced.
type Claims struct {
	client  kubernetes.Interface
	dir     string
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	queue   workqueue.TypedRateLimitingInterface[claimKey]
	log     func(string, ...any)
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// claimKey identifies a claim, or a volume if it has no namespace.
type claimKey struct{ namespace, name string }

// StartClaims creates the default StorageClass and serves claims with folders
// in dir. Stop it before the API server stops.
func StartClaims(ctx context.Context, config *rest.Config, dir string, log func(format string, args ...any)) (*Claims, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if log == nil {
		log = func(string, ...any) {}
	}
	if err := storageClass(ctx, client); err != nil {
		return nil, err
	}
	c := &Claims{client: client, dir: dir, log: log,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[claimKey](50*time.Millisecond, 5*time.Second))}
	own, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	factory := informers.NewSharedInformerFactory(client, 0)
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	c.claims, c.volumes = claims.Lister(), volumes.Lister()
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), volumes.Informer()} {
		add := func(obj any) {
			if o, ok := obj.(metav1.Object); ok {
				c.queue.Add(claimKey{o.GetNamespace(), o.GetName()})
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, now any) { add(now) }}); err != nil {
			cancel()
			return nil, err
		}
	}
	factory.Start(own.Done())
	c.wg.Go(func() {
		<-own.Done()
		factory.Shutdown()
	})
	for range 2 {
		c.wg.Go(func() { c.serve(own) })
	}
	return c, nil
}

// Stop stops serving claims. The folders stay.
func (c *Claims) Stop() {
	c.cancel()
	c.queue.ShutDown()
	c.wg.Wait()
}

func storageClass(ctx context.Context, client kubernetes.Interface) error {
	now, grows, never := storagev1.VolumeBindingImmediate, true, false
	_, driver := client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: StorageDriver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &never},
	}, metav1.CreateOptions{})
	_, class := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: StorageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner:          StorageDriver,
		VolumeBindingMode:    &now,
		AllowVolumeExpansion: &grows,
	}, metav1.CreateOptions{})
	var errs []error
	for _, err := range []error{driver, class} {
		if err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("creating the default storage class: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (c *Claims) serve(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		sync := c.claim
		if key.namespace == "" {
			sync = c.volume
		}
		if err := sync(ctx, key); err != nil && ctx.Err() == nil {
			c.log("claims: %s/%s: %v", key.namespace, key.name, err)
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

// claim creates the volume of a claim, or expands it.
func (c *Claims) claim(ctx context.Context, key claimKey) error {
	claim, err := c.claims.PersistentVolumeClaims(key.namespace).Get(key.name)
	if err != nil || claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return nil //nolint:nilerr // a lister only returns NotFound
	}
	class, err := c.client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && class.Provisioner != StorageDriver {
		return nil
	}
	if err != nil {
		return err
	}
	switch claim.Status.Phase {
	case corev1.ClaimBound:
		return c.grow(ctx, claim)
	case corev1.ClaimPending:
		if claim.Spec.VolumeName == "" {
			return c.provision(ctx, claim, class)
		}
	}
	return nil
}

func (c *Claims) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	uid := string(claim.UID)
	folder := filepath.Join(c.dir, claim.Namespace+"_"+claim.Name+"_"+uid[:min(4, len(uid))])
	if err := c.fill(ctx, claim, folder); err != nil {
		return err
	}
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	_, err := c.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + uid, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": StorageDriver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: policy,
			StorageClassName:              class.Name,
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: StorageDriver, VolumeHandle: folder}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// fill creates the folder of a claim, with a copy of the claim that it clones.
func (c *Claims) fill(ctx context.Context, claim *corev1.PersistentVolumeClaim, folder string) error {
	if err := os.Mkdir(folder, 0o777); errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := os.Chmod(folder, 0o777); err != nil { // ignore the umask
		return err
	}
	source := claim.Spec.DataSource
	if source == nil || source.Kind != "PersistentVolumeClaim" {
		return nil
	}
	from, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
	if err == nil {
		var original string
		if original, err = claimFolder(ctx, c.client, from); err == nil {
			err = exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", original+"/.", folder).Run()
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cloning the claim %s: %w", source.Name, err), os.RemoveAll(folder))
	}
	return nil
}

// grow sets the requested size of a claim.
func (c *Claims) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	want, have := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(have) <= 0 {
		return nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"capacity":{"storage":%q}}}`, want.String())
	if _, err := c.client.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	patch = fmt.Appendf(nil, `{"status":{"capacity":{"storage":%q},"conditions":null,"allocatedResourceStatuses":null}}`, want.String())
	_, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// volume removes the volume of a deleted claim.
func (c *Claims) volume(ctx context.Context, key claimKey) error {
	v, err := c.volumes.Get(key.name)
	if err != nil || v.Spec.CSI == nil || v.Spec.CSI.Driver != StorageDriver {
		return nil //nolint:nilerr // a lister only returns NotFound
	}
	if v.Status.Phase != corev1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	if filepath.Dir(v.Spec.CSI.VolumeHandle) == c.dir {
		if err := os.RemoveAll(v.Spec.CSI.VolumeHandle); err != nil {
			return err
		}
	}
	err = c.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// claimFolder returns the folder of a bound claim.
func claimFolder(ctx context.Context, client kubernetes.Interface, claim *corev1.PersistentVolumeClaim) (string, error) {
	if claim.Spec.VolumeName == "" || claim.Status.Phase != corev1.ClaimBound {
		return "", fmt.Errorf("the claim %s is not bound yet", claim.Name)
	}
	v, err := client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	switch {
	case v.Spec.CSI != nil && v.Spec.CSI.Driver == StorageDriver:
		return v.Spec.CSI.VolumeHandle, nil
	case v.Spec.HostPath != nil:
		return v.Spec.HostPath.Path, nil
	case v.Spec.Local != nil:
		return v.Spec.Local.Path, nil
	}
	return "", fmt.Errorf("the volume %s is no folder of this machine", v.Name)
}
