package foundationdb

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// LacksVariable names a variable that the file of a group's servers uses, that its pod was made without, and that the
// pod has once it is made anew: FDB_DNS_NAME when DNS names are switched on, or one that the template and a custom
// parameter begin to use together. A launcher keeps the file that it has until then (foundationdb 7.3.69,
// fdbkubernetesmonitor/monitor.go, readConfiguration). Empty: none, or a pod of the split image, whose sidecar copies
// a file all the same.
func LacksVariable(c *v1beta2.FoundationDBCluster, id fdb.GroupID, pod *corev1.Pod) string {
	has := containerOf(pod.Spec.Containers, MainContainer)
	if ImageTypeOf(pod) != v1beta2.ImageTypeUnified || has == nil {
		return ""
	}
	var fresh *corev1.Container
	for _, name := range variablesIn(template(c, id.Class, v1beta2.ImageTypeUnified, ServersIn(pod))) {
		if sets(has, name) {
			continue
		}
		if fresh == nil {
			spec, err := PodSpec(ofImageType(c, v1beta2.ImageTypeUnified), id)
			if err != nil {
				return ""
			}
			fresh = containerOf(spec.Containers, MainContainer)
		}
		if sets(fresh, name) {
			return name
		}
	}
	return ""
}

func sets(c *corev1.Container, variable string) bool {
	return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == variable })
}

func variablesIn(arguments []argument) (names []string) {
	for _, a := range arguments {
		if a.Source != "" {
			names = append(names, a.Source)
		}
		names = append(names, variablesIn(a.Values)...)
	}
	return names
}
