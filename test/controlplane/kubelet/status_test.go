package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func ran(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

var (
	runs       = corev1.ContainerStatus{Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	notReady   = corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waits      = corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	backingOff = corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: ran(1).State}
	always     = corev1.RestartPolicyAlways
	onFailure  = corev1.RestartPolicyOnFailure
	never      = corev1.RestartPolicyNever
)

// The phase is final only if no container will run again.
func TestPhase(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		facts  podFacts
		want   corev1.PodPhase
	}{
		{"nothing has started", always, podFacts{initialized: true, main: []corev1.ContainerStatus{waits}}, corev1.PodPending},
		{"init containers run", always, podFacts{init: []corev1.ContainerStatus{runs}, main: []corev1.ContainerStatus{waits}}, corev1.PodPending},
		{"an init container fails and may not again", never, podFacts{init: []corev1.ContainerStatus{ran(1)}, main: []corev1.ContainerStatus{waits}}, corev1.PodFailed},
		{"an init container fails and may again", always, podFacts{init: []corev1.ContainerStatus{ran(1)}, main: []corev1.ContainerStatus{waits}}, corev1.PodPending},
		{"one runs", always, podFacts{initialized: true, main: []corev1.ContainerStatus{runs, waits}}, corev1.PodRunning},
		{"one backs off", always, podFacts{initialized: true, main: []corev1.ContainerStatus{backingOff}}, corev1.PodRunning},
		{"it ended and will be restarted", always, podFacts{initialized: true, main: []corev1.ContainerStatus{ran(0)}}, corev1.PodRunning},
		{"it failed and will be restarted", onFailure, podFacts{initialized: true, main: []corev1.ContainerStatus{ran(3)}}, corev1.PodRunning},
		{"it succeeded", onFailure, podFacts{initialized: true, main: []corev1.ContainerStatus{ran(0)}}, corev1.PodSucceeded},
		{"it failed for good", never, podFacts{initialized: true, main: []corev1.ContainerStatus{ran(0), ran(3)}}, corev1.PodFailed},
		{"a sidecar still runs", never, podFacts{initialized: true, init: []corev1.ContainerStatus{runs}, main: []corev1.ContainerStatus{ran(0)}}, corev1.PodRunning},
		{"a sidecar was ended after the others", never, podFacts{initialized: true, init: []corev1.ContainerStatus{ran(143)}, main: []corev1.ContainerStatus{ran(0)}}, corev1.PodSucceeded},
		{"one still runs", never, podFacts{initialized: true, main: []corev1.ContainerStatus{ran(3), runs}}, corev1.PodRunning},
		{"it was deleted and ended well", always, podFacts{initialized: true, ending: true, main: []corev1.ContainerStatus{ran(0)}}, corev1.PodSucceeded},
		{"it was deleted and killed", always, podFacts{initialized: true, ending: true, main: []corev1.ContainerStatus{ran(137)}}, corev1.PodFailed},
	} {
		if got := c.facts.phase(c.policy); got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

// A pod is Ready when all its containers are and each gate holds.
func TestReadyNeedsEachContainerAndGate(t *testing.T) {
	gate := corev1.PodConditionType("pawl.dev/gate")
	gated := &corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}}}}
	opened := gated.DeepCopy()
	opened.Status.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionTrue}}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		main []corev1.ContainerStatus
		want bool
	}{
		{"all ready", &corev1.Pod{}, []corev1.ContainerStatus{runs, runs}, true},
		{"one not ready", &corev1.Pod{}, []corev1.ContainerStatus{runs, notReady}, false},
		{"none yet", &corev1.Pod{}, nil, false},
		{"the gate is closed", gated, []corev1.ContainerStatus{runs}, false},
		{"the gate is open", opened, []corev1.ContainerStatus{runs}, true},
	} {
		status := podFacts{initialized: true, main: c.main}.status(c.pod)
		if got := is(status.Conditions, corev1.PodReady); got != c.want {
			t.Errorf("%s: Ready is %v", c.name, got)
		}
	}
}
