package foundationdb

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// layout is how the data of a group lie in its volume:
//
//	split, 1 server     /var/fdb/data
//	unified, 1 server   /var/fdb/data/1
//	N servers           /var/fdb/data/1 … /var/fdb/data/N
//
// A server that looks in another folder finds nothing, and is an empty one with a new identity.
type layout struct {
	image   v1beta2.ImageType
	servers int
}

func layoutOf(spec v1beta2.FoundationDBClusterSpec, class fdb.Class) layout {
	return layout{either(spec.ImageType, v1beta2.ImageTypeUnified), ServersPerPod(spec, class)}
}

func (l layout) annotations() map[string]string {
	return map[string]string{ImageTypeAnnotation: string(l.image), ServersAnnotation: strconv.Itoa(l.servers)}
}

// fits reports whether pods of one layout find all data of the other one.
func (l layout) fits(other layout) bool {
	return l.servers == other.servers && (l.servers > 1 || l.image == other.image)
}

// told is the layout that a claim tells of, and whether it does.
func told(claim *corev1.PersistentVolumeClaim) (layout, bool) {
	if claim == nil {
		return layout{}, false
	}
	servers, err := strconv.Atoi(claim.Annotations[ServersAnnotation])
	image := v1beta2.ImageType(claim.Annotations[ImageTypeAnnotation])
	return layout{image, servers}, err == nil && servers > 0 && (image == v1beta2.ImageTypeSplit || image == v1beta2.ImageTypeUnified)
}

// WithDataOf returns the cluster as it is for a pod that is made for a claim: with the image type and the number of
// servers of the claim's data, where pods of the spec would not find them. Such a pod is replaced, which moves its data,
// and not made anew without them. A claim that tells nothing, as those of fdb-kubernetes-operator, fits every pod, and so
// does one of the other image type where the spec names images: nothing tells what those of the other type were.
func WithDataOf(c *v1beta2.FoundationDBCluster, class fdb.Class, claim *corev1.PersistentVolumeClaim) *v1beta2.FoundationDBCluster {
	data, known := told(claim)
	if !known || data.fits(layoutOf(c.Spec, class)) {
		return c
	}
	other := *c
	if data.image != layoutOf(c.Spec, class).image {
		main, sidecar := &other.Spec.MainContainer.ImageConfigs, &other.Spec.SidecarContainer.ImageConfigs
		*main, *sidecar = withoutDefaults(*main), withoutDefaults(*sidecar)
		t := settingsOf(c.Spec, class).PodTemplate
		if slices.ContainsFunc(slices.Concat(*main, *sidecar), func(i v1beta2.ImageConfig) bool { return i.BaseImage != "" }) || givenImage(t, MainContainer) != "" || givenImage(t, SidecarContainer) != "" {
			return c
		}
		other.Spec.ImageType = data.image
	}
	switch {
	case class == fdb.ClassStorage:
		other.Spec.StorageServersPerPod = data.servers
	case class.LogLike():
		other.Spec.LogServersPerPod = data.servers
	}
	return &other
}

// withoutDefaults leaves out the entries that Effective adds for an image type.
func withoutDefaults(configs []v1beta2.ImageConfig) []v1beta2.ImageConfig {
	return slices.DeleteFunc(slices.Clone(configs), func(i v1beta2.ImageConfig) bool {
		return i == v1beta2.ImageConfig{BaseImage: unifiedImage} || i == v1beta2.ImageConfig{BaseImage: mainImage} || i == v1beta2.ImageConfig{BaseImage: sidecarImage, TagSuffix: sidecarSuffix}
	})
}

// DataAnnotations are what a claim that tells nothing of its data should tell, when the pod of its group, which may be
// nil, is not as the spec says any more. The claim of another one is not written to.
func DataAnnotations(c *v1beta2.FoundationDBCluster, class fdb.Class, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) map[string]string {
	if _, known := told(claim); known || pod == nil {
		return nil
	}
	data := layout{ImageTypeOf(pod), ServersIn(pod)}
	if data.fits(layoutOf(c.Spec, class)) {
		return nil
	}
	return data.annotations()
}
