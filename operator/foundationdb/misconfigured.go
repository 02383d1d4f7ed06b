package foundationdb

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// MisconfiguredOptions is what the operator's owner says about replacements. The zero value is the default.
type MisconfiguredOptions struct {
	// SecurityContext: a changed user, group or file group replaces a group, whose new pod may not be able to read the
	// old files. Not the default, as admission may change what pods are made with.
	SecurityContext bool
}

// Misconfigured tells whether a group must be replaced, as its pod or its claim is not as the spec says and cannot be
// made so, and why:
//
//	id prefix, public IP source, IP family, servers per pod   always
//	claim: name, template                                     always; a size that only grows: never
//	and if the hash of the pod differs:
//	resource requests that grow                               with replaceInstancesWhenResourcesChange
//	node selector
//	image type                                                of stateful groups with one server per pod
//	security context                                          with the option
//	anything else                                             as podUpdateStrategy says
//
// A group without a pod is not judged. Whether it is marked already, and how many may be replaced at once, is the
// caller's. If the pod cannot be built, replace is false and why says so.
func Misconfigured(c *v1beta2.FoundationDBCluster, id fdb.GroupID, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, o MisconfiguredOptions) (why string, replace bool) {
	return WantedOf(c).Misconfigured(id, pod, claim, o)
}

// Misconfigured is the function Misconfigured for this cluster.
func (w *Wanted) Misconfigured(id fdb.GroupID, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, o MisconfiguredOptions) (why string, replace bool) {
	if pod == nil {
		return "", false
	}
	spec := &w.c.Spec
	source, wantedSource := PublicIPSourceOf(pod), publicIPSource(*spec)
	servers, wantedServers := ServersIn(pod), ServersPerPod(*spec, id.Class)
	wantedFamily := or(spec.Routing.PodIPFamily, 0)
	family, known := IPFamilyOf(pod)
	switch {
	case id.Prefix != spec.ProcessGroupIDPrefix:
		return fmt.Sprintf("its id has the prefix %q and should have %q", id.Prefix, spec.ProcessGroupIDPrefix), true
	case source != wantedSource:
		return fmt.Sprintf("its public IP is that of its %s and should be that of its %s", source, wantedSource), true
	case servers != wantedServers:
		return fmt.Sprintf("its pod has %d servers and should have %d", servers, wantedServers), true
	case known && family != wantedFamily:
		return fmt.Sprintf("its IP family is %s and should be %s", familyName(family), familyName(wantedFamily)), true
	}
	if replace, _, why := w.ClaimDiffers(claim, id); replace {
		return why, true
	}

	switch hash, err := w.PodHash(id); {
	case err != nil:
		return err.Error(), false
	case hash == pod.Annotations[SpecAnnotation]:
		return "", false
	}
	wanted, err := w.podSpec(id)
	if err != nil {
		return err.Error(), false
	}
	if or(spec.ReplaceInstancesWhenResourcesChange, false) {
		if name := grownRequest(wanted, &pod.Spec); name != "" {
			return "its containers should request more " + name, true
		}
	}
	image, wantedImage := ImageTypeOf(pod), either(spec.ImageType, v1beta2.ImageTypeUnified)
	switch {
	case !equality.Semantic.DeepEqual(pod.Spec.NodeSelector, wanted.NodeSelector):
		return "the node selector of its pod has changed", true
	case image != wantedImage && id.Class.Stateful() && wantedServers == 1:
		return fmt.Sprintf("its image is %s and should be %s, which keeps data in another folder", image, wantedImage), true
	case ReplacesPods(*spec, id.Class):
		return "the spec of its pod has changed", true
	case o.SecurityContext && securityChanged(wanted, &pod.Spec):
		return "the user or group of its pod has changed", true
	}
	return "", false
}

// ReplacesPods reports whether groups of a class are replaced when the spec of their pods changes; else their pods are
// deleted and made anew.
func ReplacesPods(spec v1beta2.FoundationDBClusterSpec, class fdb.Class) bool {
	switch spec.AutomationOptions.PodUpdateStrategy {
	case v1beta2.PodUpdateReplace:
		return true
	case v1beta2.PodUpdateDelete:
		return false
	}
	return class.Transaction()
}

func familyName(family int) string {
	if family == 0 {
		return "not chosen"
	}
	return fmt.Sprintf("IPv%d", family)
}

// grownRequest names the resource of which all containers, or all init containers, together request more than those
// of the pod. Limits do not count: the scheduler does not look at them.
func grownRequest(wanted, has *corev1.PodSpec) string {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		for _, lists := range [][2][]corev1.Container{{wanted.Containers, has.Containers}, {wanted.InitContainers, has.InitContainers}} {
			more, less := requested(lists[0], lists[0], name), requested(lists[1], lists[0], name)
			if more.Cmp(less) > 0 {
				return string(name)
			}
		}
	}
	return ""
}

// requested is the sum over the containers that are wanted; admission may have added others.
func requested(list, wanted []corev1.Container, name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	for _, c := range list {
		if containerOf(wanted, c.Name) != nil {
			sum.Add(c.Resources.Requests[name])
		}
	}
	return sum
}

// fileUser is by whom, and for which groups, a container reads and writes files.
type fileUser struct {
	User, Group, FSGroup *int64
	Policy               *corev1.PodFSGroupChangePolicy
}

// securityChanged reports whether a container of both pods has another user or group for its files.
func securityChanged(wanted, has *corev1.PodSpec) bool {
	for i := range wanted.Containers {
		w := &wanted.Containers[i]
		if h := containerOf(has.Containers, w.Name); h != nil && !equality.Semantic.DeepEqual(fileUserOf(wanted, w), fileUserOf(has, h)) {
			return true
		}
	}
	return false
}

func fileUserOf(pod *corev1.PodSpec, c *corev1.Container) fileUser {
	var u fileUser
	if s := pod.SecurityContext; s != nil {
		u = fileUser{User: s.RunAsUser, Group: s.RunAsGroup, FSGroup: s.FSGroup, Policy: s.FSGroupChangePolicy}
	}
	if s := c.SecurityContext; s != nil {
		u.User, u.Group = cmp.Or(s.RunAsUser, u.User), cmp.Or(s.RunAsGroup, u.Group)
	}
	return u
}
