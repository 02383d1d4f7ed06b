package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// adoptRetained makes the claims that an earlier cluster of this name has left those of a new cluster,
// and returns their names. Without want.Adopt it returns CLAIM_RETAINED, unless want.Claim names the
// claim. A cluster that has its record is not new.
func (t *Storage) adoptRetained(ctx context.Context, c port.Ref, want port.Volume) (adopted []string, err error) {
	if record, _, err := t.load(ctx, c); err != nil || record != nil {
		return nil, err
	}
	var list corev1.PersistentVolumeClaimList
	if err := t.placement.o.Live.List(ctx, &list, of(c, volumeComponent)...); err != nil {
		return nil, err
	}
	for n := range list.Items {
		claim := &list.Items[n]
		switch owner := claim.Annotations[ownerAnnotation]; {
		case claim.DeletionTimestamp != nil, owner == c.UID:
			continue
		case claim.Name != want.Claim && !want.Adopt:
			return nil, port.ClaimRetained.Errorf("claim %s has the data of an earlier cluster %s", claim.Name, c.Name).With("claim", claim.Name)
		case claim.Name != want.Claim || owner != "":
			adopted = append(adopted, claim.Name)
		}
		before := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, ownerAnnotation, c.UID)
		if err := t.placement.o.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, err
		}
	}
	return adopted, nil
}
