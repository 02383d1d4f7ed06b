package foundationdb

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Sizes of claims whose template gives none: of ours, and of those that another operator has made. Source of the
// second: fdb-kubernetes-operator 2.33.0, internal/pod_models.go, GetPvc.
var (
	defaultSize   = resource.MustParse("128Gi")
	publishedSize = resource.MustParse("128G")
)

// Claim returns a new volume claim for a group, or nil for a group that keeps no data. Its annotation
// SpecAnnotation has the hash of what it was made of, which stays the same when the API server fills in defaults.
func Claim(c *v1beta2.FoundationDBCluster, id fdb.GroupID) (*corev1.PersistentVolumeClaim, error) {
	if !id.Class.Stateful() {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: ClaimName(c, id), Namespace: c.Namespace, OwnerReferences: ownersOf(c)},
	}
	if t := settingsOf(c.Spec, id.Class).VolumeClaimTemplate; t != nil {
		t.Spec.DeepCopyInto(&claim.Spec)
		claim.Finalizers = slices.Clone(t.Finalizers)
	}
	if claim.Spec.AccessModes == nil {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	switch size := claim.Spec.Resources.Requests.Storage(); {
	case size.Sign() < 0:
		return nil, SpecInvalid.Errorf("spec.processes: the volume claim of class %s requests %s of storage", id.Class, size)
	case size.IsZero():
		setSize(&claim.Spec, defaultSize)
	}
	claim.Labels, claim.Annotations = ClaimMetadata(c, id)
	claim.Annotations[SpecAnnotation] = ClaimHash(&claim.Spec)
	maps.Copy(claim.Annotations, layoutOf(c.Spec, id.Class).annotations())
	return claim, nil
}

// ClaimHash is the hash of what a claim was made of, as PodHash is of pods.
func ClaimHash(spec *corev1.PersistentVolumeClaimSpec) string { return hashOf(spec) }

// ClaimDiffers tells whether the claim of a group is one that must be replaced, together with its pod, or one that
// must grow, and why. It is judged by what it was made of, and one whose fields are all as they should be is never
// replaced. While its template gives no size, the claim keeps its own. A claim has grown when the request and the
// annotation SpecAnnotation of the new Claim are written into it.
func ClaimDiffers(c *v1beta2.FoundationDBCluster, claim *corev1.PersistentVolumeClaim, id fdb.GroupID) (replace bool, grow *resource.Quantity, why string) {
	return WantedOf(c).ClaimDiffers(claim, id)
}

// ClaimDiffers is the function ClaimDiffers for this cluster.
func (w *Wanted) ClaimDiffers(claim *corev1.PersistentVolumeClaim, id fdb.GroupID) (replace bool, grow *resource.Quantity, why string) {
	wanted := w.claim(id.Class)
	if wanted == nil || claim == nil {
		return false, nil, ""
	}
	if name := w.ClaimName(id); claim.Name != name {
		return true, nil, fmt.Sprintf("its volume claim is %s and should be %s", claim.Name, name)
	}
	applied := claim.Annotations[SpecAnnotation]
	same := applied == wanted.Annotations[SpecAnnotation]
	size, has := *wanted.Spec.Resources.Requests.Storage(), *claim.Spec.Resources.Requests.Storage()
	if !same && !madeAs(applied, &wanted.Spec, has, publishedSize) {
		if field := differentField(asNamed(claim.Spec, &wanted.Spec, applied == ""), &wanted.Spec); field != "" {
			return true, nil, "the template of its volume claim has another " + field
		}
	}
	given := settingsOf(w.c.Spec, id.Class).VolumeClaimTemplate
	switch {
	case given == nil || given.Spec.Resources.Requests.Storage().IsZero():
		return false, nil, ""
	case has.Cmp(size) < 0:
		return false, &size, fmt.Sprintf("its volume claim has %s and should have %s", &has, &size)
	case has.Cmp(size) > 0 && !same: // else somebody has enlarged the claim by hand
		return true, nil, fmt.Sprintf("its volume claim has %s and should have %s, and volumes do not shrink", &has, &size)
	}
	return false, nil, ""
}

// madeAs reports whether a claim with this hash was made as the wanted one, but with one of these sizes.
func madeAs(hash string, wanted *corev1.PersistentVolumeClaimSpec, sizes ...resource.Quantity) bool {
	return hash != "" && slices.ContainsFunc(sizes, func(size resource.Quantity) bool {
		return ClaimHash(withSize(*wanted, size)) == hash
	})
}

// asNamed returns a stored claim without what the API server adds to a claim that does not name it, and with the
// size that is wanted. A class may be such an addition only where it is not known how the claim was made.
func asNamed(claim corev1.PersistentVolumeClaimSpec, wanted *corev1.PersistentVolumeClaimSpec, unknown bool) *corev1.PersistentVolumeClaimSpec {
	s := withSize(claim, *wanted.Resources.Requests.Storage())
	s.VolumeName = wanted.VolumeName
	if wanted.VolumeMode == nil {
		s.VolumeMode = nil
	}
	if wanted.DataSourceRef == nil {
		s.DataSourceRef = nil
	} else if wanted.DataSource == nil {
		s.DataSource = nil
	}
	if wanted.StorageClassName == nil && unknown {
		s.StorageClassName = nil
	}
	return s
}

func withSize(spec corev1.PersistentVolumeClaimSpec, size resource.Quantity) *corev1.PersistentVolumeClaimSpec {
	s := spec.DeepCopy()
	setSize(s, size)
	return s
}

func setSize(s *corev1.PersistentVolumeClaimSpec, size resource.Quantity) {
	if s.Resources.Requests == nil {
		s.Resources.Requests = corev1.ResourceList{}
	}
	s.Resources.Requests[corev1.ResourceStorage] = size
}

// differentField names the first field in which two claims differ.
func differentField(a, b *corev1.PersistentVolumeClaimSpec) string {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		if !equality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}
