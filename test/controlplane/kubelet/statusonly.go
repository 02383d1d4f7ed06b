package kubelet

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// wantsReady reports whether a status-only pod should be Ready.
func (k *Kubelet) wantsReady(pod *corev1.Pod) bool {
	k.mu.Lock()
	ready, ok := k.rules[pod.Namespace]
	k.mu.Unlock()
	if !ok {
		ready = k.o.Ready
	}
	return ready(pod)
}

// stale reports whether wantsReady differs from the pod's status.
func (k *Kubelet) stale(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || over(pod) {
		return false
	}
	if scheduled := k.advance(pod); len(scheduled) > 0 && pod.Status.Phase == corev1.PodRunning {
		return crashed(pod, scheduled)
	}
	return pod.Status.Phase != corev1.PodRunning || k.wantsReady(pod) != isReady(pod)
}

// syncStatusOnly updates the status of a pod to wantsReady, or ends the pod.
func (k *Kubelet) syncStatusOnly(pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		if left := k.remaining(pod); left > 0 {
			k.queue.AddAfter(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, left)
			return nil
		}
		return k.endStatusOnly(pod)
	}
	if over(pod) || !k.stale(pod) {
		return nil
	}
	scheduled := k.advance(pod)
	k.mu.Lock()
	address := k.paperPod(pod).address
	host := k.nodes[pod.Spec.NodeName].address
	k.mu.Unlock()
	ready := k.wantsReady(pod)
	facts := podFacts{address: address, host: host, started: pod.CreationTimestamp, initialized: true}
	for _, c := range pod.Spec.InitContainers {
		facts.init = append(facts.init, statusOnlyContainer(c, true, !alwaysRestarts(c)))
	}
	done := ready && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways // a Job's pod
	for _, c := range pod.Spec.Containers {
		s, ok := scheduled[c.Name]
		if !ok {
			s = statusOnlyContainer(c, ready, done)
		}
		facts.main = append(facts.main, s)
	}
	return k.patchStatus(pod, facts.status(pod))
}

func statusOnlyContainer(c corev1.Container, ready, done bool) corev1.ContainerStatus {
	now, started := metav1.NewTime(time.Now().Truncate(time.Second)), true
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "status-only://" + c.Image, ContainerID: "status-only://" + c.Name}
	if done {
		s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now, ContainerID: s.ContainerID}
		return s
	}
	s.Ready, s.Started = ready, &started
	s.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
	return s
}

func (k *Kubelet) endStatusOnly(pod *corev1.Pod) error {
	if len(pod.Finalizers) > 0 && !over(pod) { // the Job controller waits for an end
		if err := k.patchStatus(pod, corev1.PodStatus{Phase: corev1.PodFailed}); err != nil {
			return err
		}
	}
	k.mu.Lock()
	delete(k.statusOnlyPods, pod.UID)
	k.mu.Unlock()
	return k.remove(pod)
}

// remove deletes the object of an ended pod.
func (k *Kubelet) remove(pod *corev1.Pod) error {
	now := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(k.ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// patchStatus writes a status in one request without conflicts: lists of conditions and
// addresses are merged by their keys.
func (k *Kubelet) patchStatus(pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(k.ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone or replaced: there will be another event
	}
	return err
}
