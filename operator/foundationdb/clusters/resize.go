package clusters

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// TypeResizing is the condition of a cluster whose volumes grow.
const TypeResizing = "Resizing"

// growth is a claim that is to grow.
type growth struct {
	group v1beta2.ProcessGroupID
	claim *corev1.PersistentVolumeClaim
	size  resource.Quantity
	hash  string // of the claim as it should be
}

// growths returns the claims that are to grow next, those of one zone, and how many are smaller than
// they should be, or still grow.
func (p *pass) growths() (next []growth, left int) {
	zones := map[string][]growth{}
	busy, first := "", ""
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		claim := p.member(g.ProcessGroupID).claim
		if claim == nil || g.Marked() || claim.DeletionTimestamp != nil {
			continue
		}
		if grows(claim) {
			busy = g.FaultDomain
			left++
			continue
		}
		id := p.ids[g.ProcessGroupID]
		_, size, _ := p.pods.ClaimDiffers(claim, id)
		if size == nil || p.fixedSize(claim) {
			continue
		}
		wanted, err := foundationdb.Claim(p.cluster, id)
		if err != nil || wanted == nil {
			continue
		}
		left++
		zones[g.FaultDomain] = append(zones[g.FaultDomain], growth{g.ProcessGroupID, claim, *size, wanted.Annotations[foundationdb.SpecAnnotation]})
		if first == "" || g.FaultDomain < first {
			first = g.FaultDomain
		}
	}
	if busy != "" {
		return zones[busy], left
	}
	return zones[first], left
}

// grows reports whether a volume is smaller than its claim asks for.
func grows(claim *corev1.PersistentVolumeClaim) bool {
	has, known := claim.Status.Capacity[corev1.ResourceStorage]
	return known && has.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) < 0
}

// fixedSize reports whether the API server has refused to let volumes of the claim's class grow.
func (p *pass) fixedSize(claim *corev1.PersistentVolumeClaim) bool {
	return p.memory.fixed[className(claim)]
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// growing is the act of letting claims grow. Where their class does not allow it, their groups are
// replaced by the next pass.
func growing(all []growth) act {
	targets := make([]string, len(all))
	for i, g := range all {
		targets[i] = g.claim.Name
	}
	return act{
		Name: "grow claim", Targets: targets,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, all, "ClaimNotGrown", func(g growth) error {
				patch, err := json.Marshal(map[string]any{
					"metadata": metadataPatch(nil, map[string]string{foundationdb.SpecAnnotation: g.hash}),
					"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": g.size.String()}}},
				})
				if err != nil {
					return err
				}
				err = p.patch(ctx, g.claim, patch)
				if err != nil && !fault.Of(err).Uncharged {
					p.memory.fixed[className(g.claim)] = true
				}
				return err
			})
		},
	}
}

// resizing is the condition Resizing.
func (p *pass) resizing() metav1.Condition {
	if p.pods == nil || p.cluster.Spec.Version == "" {
		return condition.New(TypeResizing, metav1.ConditionUnknown, fdb.StatusIncomplete, "claims were not judged")
	}
	if _, left := p.growths(); left > 0 {
		return condition.New(TypeResizing, metav1.ConditionTrue, "VolumesGrow", "%d volumes are smaller than they should be, or grow; zone by zone", left)
	}
	return condition.New(TypeResizing, metav1.ConditionFalse, "AsDesired", "no volume has to grow")
}
