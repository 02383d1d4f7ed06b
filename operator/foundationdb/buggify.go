package foundationdb

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// crashLoop is the command of a container that buggify names: there is no such program.
const crashLoop = "crash-loop"

// Crashes reports whether buggify lets a container of a group crash.
func Crashes(spec v1beta2.FoundationDBClusterSpec, id fdb.GroupID, container string) bool {
	name := v1beta2.ProcessGroupID(id.String())
	if container == MainContainer && Targets(spec.Buggify.CrashLoop, name) {
		return true
	}
	return slices.ContainsFunc(spec.Buggify.CrashLoopContainers, func(c v1beta2.CrashLoopContainer) bool {
		return c.ContainerName == container && Targets(c.Targets, name)
	})
}

// Unschedulable reports whether buggify lets the pod of a group fit no node.
func Unschedulable(spec v1beta2.FoundationDBClusterSpec, id fdb.GroupID) bool {
	return Targets(spec.Buggify.NoSchedule, v1beta2.ProcessGroupID(id.String()))
}

// BuggifyDiffers tells in what a pod differs from what buggify asks for: a container that crashes or does not, or
// the nodes it fits. Empty: in nothing.
func BuggifyDiffers(spec v1beta2.FoundationDBClusterSpec, id fdb.GroupID, pod *corev1.Pod) string {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			if c.Name != MainContainer && c.Name != SidecarContainer && c.Name != InitContainer {
				continue
			}
			switch crashes := len(c.Args) > 0 && c.Args[0] == crashLoop; {
			case crashes && !Crashes(spec, id, c.Name):
				return "container " + c.Name + " should not crash any more"
			case !crashes && Crashes(spec, id, c.Name):
				return "container " + c.Name + " should crash"
			}
		}
	}
	switch fits := !unschedulable(pod); {
	case fits && Unschedulable(spec, id):
		return "the pod should fit no node"
	case !fits && !Unschedulable(spec, id):
		return "the pod should fit nodes again"
	}
	return ""
}

func unschedulable(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == noScheduleLabel })
	})
}
