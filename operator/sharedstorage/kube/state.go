package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// observe returns the current state of an instance.
func (s *Placement) observe(ctx context.Context, h *instanceObjects) (port.Instance, error) {
	found, err := h.running()
	if err != nil {
		return found, err
	}
	if found.Node, found.Domain = "", ""; h.pod != nil {
		found.Node, found.Address, found.Port = h.pod.Spec.NodeName, h.pod.Status.PodIP, portOf(h.pod)
	}
	node, ready := "", true
	var since time.Time
	if h.pod != nil && h.pod.Spec.NodeName != "" {
		var n corev1.Node
		node = h.pod.Spec.NodeName
		switch err := s.o.Client.Get(ctx, client.ObjectKey{Name: node}, &n); {
		case apierrors.IsNotFound(err):
			ready = false
		case err != nil:
			return found, err
		default:
			ready, since = nodeReady(&n)
			found.Domain = port.NewDomain(domainKeys(found), n.Labels)
		}
	}
	found.State, found.Since, found.Message = decideState(h, node, ready, since)
	if found.Since.IsZero() {
		found.Since = s.stateSince(h, found.State)
	}
	return found, nil
}

// decideState derives the state of an instance from its claim, its pod and its node.
func decideState(h *instanceObjects, node string, nodeReady bool, nodeSince time.Time) (port.InstanceState, time.Time, string) {
	pod := h.pod
	switch {
	case h.leaving() && pod != nil && pod.DeletionTimestamp != nil:
		return port.Leaving, pod.DeletionTimestamp.Time, ""
	case h.leaving():
		return port.Leaving, time.Time{}, ""
	case h.suspended() && pod == nil:
		return port.Suspended, time.Time{}, ""
	case pod == nil:
		return port.Down, time.Time{}, "it has no pod"
	case !nodeReady:
		return port.Lost, nodeSince, fmt.Sprintf("node %s does not answer", node)
	case pod.DeletionTimestamp != nil:
		return port.Down, pod.DeletionTimestamp.Time, "its pod is being deleted"
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return port.Down, time.Time{}, strings.TrimSpace("its pod has ended: " + pod.Status.Reason + " " + pod.Status.Message)
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return port.Unscheduled, c.LastTransitionTime.Time, c.Message
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch w, t := c.State.Waiting, c.LastTerminationState.Terminated; {
		case w != nil && (strings.HasPrefix(w.Reason, "CrashLoop") || strings.HasPrefix(w.Reason, "ErrImage") || strings.HasPrefix(w.Reason, "ImagePull") || strings.HasSuffix(w.Reason, "Error")):
			said := w.Message
			if t != nil {
				said = cmp.Or(t.Message, fmt.Sprintf("it ended with code %d %s", t.ExitCode, t.Reason), said)
			}
			return port.Down, time.Time{}, strings.TrimSpace(fmt.Sprintf("container %s: %s %s", c.Name, w.Reason, said))
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == engineContainer && c.State.Running != nil && c.Started != nil && *c.Started && pod.Status.PodIP != "" {
			return port.Up, c.State.Running.StartedAt.Time, ""
		}
	}
	return port.Pending, pod.CreationTimestamp.Time, ""
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for n := range pod.Status.Conditions {
		if pod.Status.Conditions[n].Type == kind {
			return &pod.Status.Conditions[n]
		}
	}
	return nil
}

// stateSince returns the begin of a state that no object records.
func (s *Placement) stateSince(h *instanceObjects, state port.InstanceState) time.Time {
	namespace := ""
	switch {
	case h.claim != nil:
		namespace = h.claim.Namespace
	case h.pod != nil:
		namespace = h.pod.Namespace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + h.name
	last := s.seen[key]
	if last.state != state {
		last = seenState{state, time.Now().UTC()}
		s.seen[key] = last
	}
	return last.since
}

// Nodes implements port.Instances.
func (i *Instances) Nodes(ctx context.Context, _ port.Ref) ([]port.Node, error) {
	return i.placement.nodes(ctx)
}

// nodes returns all nodes. A node with a taint that none of the tolerations tolerates is not
// schedulable.
func (s *Placement) nodes(ctx context.Context, tolerations ...corev1.Toleration) ([]port.Node, error) {
	var list corev1.NodeList
	if err := s.o.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	var nodes []port.Node
	for n := range list.Items {
		node := &list.Items[n]
		ready, _ := nodeReady(node)
		nodes = append(nodes, port.Node{Name: node.Name, Ready: ready, Labels: node.Labels, Schedulable: !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return untolerated(t, tolerations) })})
	}
	slices.SortFunc(nodes, func(a, b port.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// untolerated reports whether pods with these tolerations do not run on a node with a taint.
func untolerated(t corev1.Taint, tolerations []corev1.Toleration) bool {
	if t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute {
		return false
	}
	return !slices.ContainsFunc(tolerations, func(by corev1.Toleration) bool { return tolerates(by, t) })
}

func nodeReady(n *corev1.Node) (ready bool, since time.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, n.CreationTimestamp.Time
}

// nodeOf reports whether the node of a pod answers. A pod without a node counts as ready.
func (s *Placement) nodeOf(ctx context.Context, pod *corev1.Pod) (name string, ready bool, err error) {
	if pod.Spec.NodeName == "" {
		return "", true, nil
	}
	var n corev1.Node
	err = s.o.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &n)
	if apierrors.IsNotFound(err) {
		return pod.Spec.NodeName, false, nil
	}
	ready, _ = nodeReady(&n)
	return pod.Spec.NodeName, ready, err
}

// checkNode rejects an instance if no node can take it.
func (s *Placement) checkNode(ctx context.Context, want port.Instance) error {
	nodes, err := s.nodes(ctx, sharedstorage.PodSettingsOf(want.Pod).Tolerations...)
	if err != nil {
		return err
	}
	usable := slices.DeleteFunc(slices.Clone(nodes), func(n port.Node) bool { return !n.Ready || !n.Schedulable })
	if want.Node != "" {
		if !slices.ContainsFunc(usable, func(n port.Node) bool { return n.Name == want.Node }) {
			return port.TargetNodeUnavailable.Errorf("node %s is not there, not ready or not schedulable", want.Node).With("node", want.Node)
		}
		return nil
	}
	for _, n := range usable {
		fits := true
		for key, value := range want.NodeSelector {
			fits = fits && n.Labels[key] == value
		}
		if fits {
			return nil
		}
	}
	return port.NoAvailableNode.Errorf("none of %d nodes is ready, schedulable, without a taint that scheduling.tolerations does not name, and has the labels that are asked for", len(nodes))
}
