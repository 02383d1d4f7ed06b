package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var _ port.Checker = &Instances{}

// Check implements port.Checker: it checks that there is an image for the version, and that the
// quotas of the namespace have room.
func (i *Instances) Check(ctx context.Context, c port.Ref, want port.Instance, count int, size int64) error {
	if want.Image == "" && !i.placement.o.ForeignImages {
		if _, err := i.placement.image(want.Version); err != nil {
			return err
		}
	}
	return i.placement.checkQuotas(ctx, c, needsOf(want, int64(count), size), fmt.Sprintf("%d more instances need", count))
}

// checkQuotas reports NAMESPACE_QUOTA_EXCEEDED if a quota of the namespace does not have this room.
func (s *Placement) checkQuotas(ctx context.Context, c port.Ref, needs corev1.ResourceList, who string) error {
	var quotas corev1.ResourceQuotaList
	err := s.o.Live.List(ctx, &quotas, client.InNamespace(c.Namespace))
	if apierrors.IsForbidden(err) {
		return nil // the API server will reject the pod
	}
	if err != nil {
		return err
	}
	for n := range quotas.Items {
		q := &quotas.Items[n]
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue // the quota counts only some pods
		}
		for name, hard := range q.Status.Hard {
			need, counts := needs[name]
			if !counts || need.Sign() <= 0 {
				continue
			}
			after := q.Status.Used[name].DeepCopy()
			after.Add(need)
			if after.Cmp(hard) > 0 {
				used := q.Status.Used[name]
				return port.QuotaExceeded.Errorf("quota %s: %s: %s of %s are used, and %s %s", q.Name, name, used.String(), hard.String(), who, need.String()).
					With("quota", q.Name)
			}
		}
	}
	return nil
}

// needsOf returns what instances use of quotas, under each name that a quota may have for it.
func needsOf(want port.Instance, count, size int64) corev1.ResourceList {
	needs := corev1.ResourceList{}
	put := func(amount *resource.Quantity, names ...corev1.ResourceName) {
		amount.Mul(count)
		for _, name := range names {
			needs[name] = amount.DeepCopy()
		}
	}
	put(resource.NewQuantity(1, resource.DecimalSI), corev1.ResourcePods, "count/pods", corev1.ResourcePersistentVolumeClaims, "count/persistentvolumeclaims")
	put(resource.NewQuantity(size, resource.BinarySI), corev1.ResourceRequestsStorage)
	asked := resources(want)
	for name, amount := range asked.Requests {
		put(&amount, name, "requests."+name)
	}
	for name, amount := range asked.Limits {
		put(&amount, "limits."+name)
	}
	return needs
}
