package foundationdb

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// ImageTypeOf returns the image type with which a pod was made. Pods that do not tell are of the split image.
func ImageTypeOf(pod *corev1.Pod) v1beta2.ImageType {
	return either(v1beta2.ImageType(pod.Annotations[ImageTypeAnnotation]), v1beta2.ImageTypeSplit)
}

// PublicIPSourceOf returns the source of the public IP with which a pod was made.
func PublicIPSourceOf(pod *corev1.Pod) v1beta2.PublicIPSource {
	return either(v1beta2.PublicIPSource(pod.Annotations[PublicIPSourceAnnotation]), v1beta2.PublicIPPod)
}

// ServersIn returns the number of servers with which a pod was made, at least 1.
func ServersIn(pod *corev1.Pod) int {
	c := substituting(pod)
	if c == nil {
		return 1
	}
	if n, err := strconv.Atoi(argumentOf(c.Args, "--process-count")); err == nil {
		return max(1, n)
	}
	for _, v := range c.Env {
		class, ok := strings.CutSuffix(v.Name, serversSuffix)
		if n, err := strconv.Atoi(v.Value); ok && err == nil && (class == "STORAGE" || class == "LOG" || class == "TRANSACTION") {
			return max(1, n)
		}
	}
	return 1
}

// HasListenIP reports whether the servers of a pod can be told the address to listen on.
func HasListenIP(pod *corev1.Pod) bool {
	c := substituting(pod)
	return c != nil && slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == envPodIP })
}

// substituting returns the container with whose variables the files of a pod are filled in. nil: it is not there.
func substituting(pod *corev1.Pod) *corev1.Container {
	name := SidecarContainer
	if ImageTypeOf(pod) == v1beta2.ImageTypeUnified {
		name = MainContainer
	}
	return containerOf(pod.Spec.Containers, name)
}

// IPFamilyOf returns the IP family with which a pod was made: 4, 6, or 0 for none, and whether the pod tells. Pods of
// older operators have no annotation: the arguments of the sidecar tell, or the file that the launcher uses.
func IPFamilyOf(pod *corev1.Pod) (family int, known bool) {
	if n, err := strconv.Atoi(pod.Annotations[IPFamilyAnnotation]); err == nil {
		return n, true
	}
	if ImageTypeOf(pod) == v1beta2.ImageTypeSplit {
		sidecar := containerOf(pod.Spec.Containers, SidecarContainer)
		if sidecar == nil {
			return 0, false
		}
		given := argumentOf(sidecar.Args, "--public-ip-family")
		n, err := strconv.Atoi(given)
		return n, given == "" || err == nil
	}
	var l launch
	if json.Unmarshal([]byte(pod.Annotations[LauncherConfigurationAnnotation]), &l) != nil {
		return 0, false
	}
	return familyIn(l.Arguments), true
}

func familyIn(arguments []argument) int {
	for _, a := range arguments {
		if a.Type == ipList {
			return a.IPFamily
		}
		if n := familyIn(a.Values); n != 0 {
			return n
		}
	}
	return 0
}

// PublicIPs returns the IPs by which the servers of a pod are known: that of the group's service, or those of the pod
// that belong to its IP family. None: there is none yet.
func PublicIPs(pod *corev1.Pod) []string {
	if PublicIPSourceOf(pod) == v1beta2.PublicIPService {
		return present(pod.Annotations[PublicIPAnnotation])
	}
	family, _ := IPFamilyOf(pod)
	if family == 0 {
		return present(pod.Status.PodIP)
	}
	var ips []string
	for _, ip := range podIPs(pod) {
		if familyOf(ip) == family {
			ips = append(ips, ip)
		}
	}
	return ips
}

// podIPs returns all IPs of a pod.
func podIPs(pod *corev1.Pod) []string {
	if len(pod.Status.PodIPs) == 0 {
		return present(pod.Status.PodIP)
	}
	var ips []string
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// familyOf returns 4 or 6, and 0 for what is no IP.
func familyOf(ip string) int {
	switch parsed, err := netip.ParseAddr(ip); {
	case err != nil:
		return 0
	case parsed.Unmap().Is4():
		return 4
	}
	return 6
}

func present(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// argumentOf returns what follows an option. Empty: the option is not there.
func argumentOf(args []string, option string) string {
	if i := slices.Index(args, option); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// Isolated reports whether somebody has taken a pod out of the cluster to look at it.
func Isolated(pod *corev1.Pod) bool {
	return pod != nil && pod.Annotations[IsolateAnnotation] == "true"
}

// ContainerImage is the image of a container of a pod; empty: there is none.
func ContainerImage(pod *corev1.Pod, container string) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// ContainerReady reports whether a container of a running pod is ready.
func ContainerReady(pod *corev1.Pod, container string) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container && s.Ready })
}
