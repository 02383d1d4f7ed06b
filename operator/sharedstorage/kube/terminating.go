package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// terminating returns a message about a claim that somebody deletes while its instance works on:
// the data end with the pod. A removed instance loses its claim and its pod at once, and counts as
// no such claim.
func (s *Placement) terminating(ctx context.Context, c port.Ref, claims []corev1.PersistentVolumeClaim) (string, error) {
	for i := range claims {
		claim := &claims[i]
		if claim.DeletionTimestamp == nil || claim.Labels[ComponentLabel] != instanceComponent {
			continue
		}
		var pod corev1.Pod
		err := s.o.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: PodName(c.Of(claim.Labels[InstanceLabel]))}, &pod)
		if apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil {
			continue
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("claim %s is being deleted, and the data of instance %s end with its pod. Rebuild a reader, or switch away from a writer and rebuild it.", claim.Name, claim.Labels[IDLabel]), nil
	}
	return "", nil
}
