package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podFacts are the inputs of a status.
type podFacts struct {
	address, host string
	started       metav1.Time
	initialized   bool
	ending        bool // the pod is being deleted
	init, main    []corev1.ContainerStatus
}

// status computes phase and conditions. Conditions keep the time of their last transition.
// Conditions of other owners are left out, as a patch merges them.
func (f podFacts) status(pod *corev1.Pod) corev1.PodStatus {
	s := corev1.PodStatus{
		Phase:                 f.phase(pod.Spec.RestartPolicy),
		HostIP:                f.host,
		PodIP:                 f.address,
		StartTime:             &f.started,
		InitContainerStatuses: f.init,
		ContainerStatuses:     f.main,
		ObservedGeneration:    pod.Generation,
	}
	if f.host != "" {
		s.HostIPs = []corev1.HostIP{{IP: f.host}}
	}
	if f.address != "" {
		s.PodIPs = []corev1.PodIP{{IP: f.address}}
	}
	all := len(f.main) > 0
	for _, c := range f.main {
		all = all && c.Ready
	}
	for _, c := range f.init {
		if c.State.Running != nil { // a sidecar
			all = all && c.Ready
		}
	}
	finished := s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
	all = all && !finished
	ready, why := all, "ContainersNotReady"
	for _, gate := range pod.Spec.ReadinessGates {
		if !is(pod.Status.Conditions, gate.ConditionType) {
			ready, why = false, "ReadinessGatesNotReady"
		}
	}
	if finished {
		why = "PodCompleted"
	}
	say := func(kind corev1.PodConditionType, holds bool, why string) {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation}
		if !holds {
			c.Status, c.Reason = corev1.ConditionFalse, why
		}
		for _, before := range pod.Status.Conditions {
			if before.Type == kind && before.Status == c.Status {
				c.LastTransitionTime = before.LastTransitionTime
			}
		}
		s.Conditions = append(s.Conditions, c)
	}
	say(corev1.PodInitialized, f.initialized, "ContainersNotInitialized")
	say(corev1.PodReadyToStartContainers, f.address != "" && !finished, "PodNotStarted")
	say(corev1.ContainersReady, all, why)
	say(corev1.PodReady, ready, why)
	return s
}

// phase returns Pending until a main container has run, and Succeeded or Failed only if no
// container will run again.
func (f podFacts) phase(policy corev1.RestartPolicy) corev1.PodPhase {
	var begun, running, waiting, failed int
	for _, c := range f.main {
		switch {
		case c.State.Running != nil:
			running++
		case c.State.Terminated != nil:
			if c.State.Terminated.ExitCode != 0 {
				failed++
			}
		default:
			waiting++
		}
		if c.State.Waiting == nil || c.LastTerminationState.Terminated != nil {
			begun++
		}
	}
	for _, c := range f.init {
		switch t := c.State.Terminated; {
		case f.initialized && c.State.Running != nil:
			running++ // a sidecar; its exit does not matter for the pod
		case !f.initialized && t != nil && t.ExitCode != 0 && (policy == corev1.RestartPolicyNever || f.ending):
			return corev1.PodFailed
		}
	}
	switch {
	case !f.initialized || begun == 0:
		return corev1.PodPending
	case running > 0 || waiting > 0:
		return corev1.PodRunning
	case f.ending || policy == corev1.RestartPolicyNever:
		if failed > 0 {
			return corev1.PodFailed
		}
		return corev1.PodSucceeded
	case policy == corev1.RestartPolicyOnFailure && failed == 0:
		return corev1.PodSucceeded
	default:
		return corev1.PodRunning // it will be restarted
	}
}

func is(conditions []corev1.PodCondition, kind corev1.PodConditionType) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isReady(pod *corev1.Pod) bool { return is(pod.Status.Conditions, corev1.PodReady) }

// over reports whether a pod has ended for good.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// alwaysRestarts reports whether an init container is a sidecar.
func alwaysRestarts(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
