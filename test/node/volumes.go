package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// storageClass is the class of the manifest cluster.yaml.
const storageClass = "folders"

// selectedNode is how the scheduler says where a claim of its class is used.
const selectedNode = "volume.kubernetes.io/selected-node"

// ServeVolumes creates a folder and a PersistentVolume for each claim that the scheduler has
// placed, and removes both once the claim is deleted. It returns when ctx ends.
func ServeVolumes(ctx context.Context, log func(error)) error {
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig())
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := errors.Join(provision(ctx, client), reclaim(ctx, client)); err != nil && ctx.Err() == nil {
			log(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func provision(ctx context.Context, client kubernetes.Interface) error {
	claims, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		c := &claims.Items[i]
		if ptr.Deref(c.Spec.StorageClassName, "") != storageClass || c.Spec.VolumeName != "" || c.Annotations[selectedNode] == "" || c.DeletionTimestamp != nil {
			continue
		}
		volume := volumeFor(c)
		if err := os.MkdirAll(volume.Spec.Local.Path, 0o777); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("volume of claim %s/%s: %w", c.Namespace, c.Name, err))
		}
	}
	return errors.Join(errs...)
}

func volumeFor(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	name := "folder-" + string(c.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   c.Spec.AccessModes,
			StorageClassName:              storageClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path("volumes", name)}}, // local: kubelet sets its group
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{c.Annotations[selectedNode]}}},
			}}}},
		},
	}
}

func reclaim(ctx context.Context, client kubernetes.Interface) error {
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if v.Spec.StorageClassName != storageClass || v.Spec.Local == nil || v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
			continue
		}
		if err := os.RemoveAll(v.Spec.Local.Path); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
