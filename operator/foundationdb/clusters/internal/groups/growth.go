package groups

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Growth is a claim that is to grow.
type Growth struct {
	Group v1beta2.ProcessGroupID
	Claim *corev1.PersistentVolumeClaim
	Size  resource.Quantity
	Hash  string // of the claim as it should be
}

// Growths returns the claims that are to grow next, those of one zone, and how many are smaller than
// they should be, or still grow. fixed are the storage classes whose volumes cannot.
func Growths(c *v1beta2.FoundationDBCluster, wanted *foundationdb.Wanted, member func(v1beta2.ProcessGroupID) *Member, fixed map[string]bool) (next []Growth, left int) {
	zones := map[string][]Growth{}
	busy, first := "", ""
	for i := range c.Status.ProcessGroups {
		g := &c.Status.ProcessGroups[i]
		claim := member(g.ProcessGroupID).Claim
		if claim == nil || g.Marked() || claim.DeletionTimestamp != nil {
			continue
		}
		if grows(claim) {
			busy = g.FaultDomain
			left++
			continue
		}
		id, _ := fdb.ParseGroupID(string(g.ProcessGroupID))
		_, size, _ := wanted.ClaimDiffers(claim, id)
		if size == nil || fixed[StorageClass(claim)] {
			continue
		}
		whole, err := foundationdb.Claim(c, id)
		if err != nil || whole == nil {
			continue
		}
		left++
		zones[g.FaultDomain] = append(zones[g.FaultDomain], Growth{g.ProcessGroupID, claim, *size, whole.Annotations[foundationdb.SpecAnnotation]})
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

// StorageClass is the class of a claim; empty: the default one.
func StorageClass(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}
