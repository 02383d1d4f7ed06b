package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

const leaseNamespace = "kube-node-lease"

// node is a simulated machine. The Kubelet's mutex guards it.
type node struct {
	name, address string
	silent        bool // it neither reports nor receives anything
}

// addNode creates a node with its status in the same call: a later status would race with
// the node controllers.
func (k *Kubelet) addNode(ctx context.Context, name string, number int) error {
	n := &node{name: name, address: k.o.Addresses.node()}
	port, err := k.listen(n)
	if err != nil {
		return err
	}
	now := metav1.Now()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:           name,
			corev1.LabelOSStable:           runtime.GOOS,
			corev1.LabelArchStable:         runtime.GOARCH,
			corev1.LabelTopologyZone:       fmt.Sprintf("zone-%d", number),
			corev1.LabelTopologyRegion:     "local",
			"node.pawl.dev/" + k.mode():    "true",
			corev1.LabelInstanceTypeStable: "local",
		}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.address},
				{Type: corev1.NodeHostName, Address: name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "v1.37.1", OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
				ContainerRuntimeVersion: "pawl://1", OSImage: "none", KernelVersion: "none",
			},
		},
	}
	maps.Copy(object.Labels, k.o.Labels)
	if k.o.Node != nil {
		k.o.Node(number, object)
	}
	taints, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": object.Spec.Taints}}) // null without any
	if err != nil {
		return err
	}
	if _, err := k.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating node %s: %w", name, err)
	}
	if err := k.renew(ctx, name); err != nil {
		return err
	}
	// Admission taints each new node as not ready; the controller would remove the taint only
	// seconds later.
	if _, err := k.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, taints, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("lifting the taint of node %s: %w", name, err)
	}
	k.mu.Lock()
	k.nodes[name] = n
	k.mu.Unlock()
	k.wg.Go(func() { k.heartbeat(n) })
	return nil
}

func (k *Kubelet) mode() string {
	if k.o.Mode == Process {
		return "process"
	}
	return "status-only"
}

// heartbeat renews the lease of a node, and reports Ready again if the node controllers
// have marked it as lost.
func (k *Kubelet) heartbeat(n *node) {
	tick := time.NewTicker(k.o.Lease)
	defer tick.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
		}
		if !k.reachable(n.name) {
			continue
		}
		if err := k.report(k.ctx, n.name); err != nil && k.ctx.Err() == nil {
			k.o.Log("kubelet: report of %s: %v", n.name, err)
		}
	}
}

func (k *Kubelet) report(ctx context.Context, name string) error {
	if err := k.renew(ctx, name); err != nil {
		return err
	}
	n, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q,"lastTransitionTime":%[1]q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (k *Kubelet) renew(ctx context.Context, name string) error {
	leases := k.client.CoordinationV1().Leases(leaseNamespace)
	now, seconds := metav1.NowMicro(), int32(4*k.o.Lease/time.Second+1)
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
	_, err := leases.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		return nil
	}
	_, err = leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: leaseNamespace},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// LabelNode sets labels of a node, and removes those whose value is nil.
func (k *Kubelet) LabelNode(ctx context.Context, name string, labels map[string]*string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// TaintNode sets taints of a node, in place of those with the same key and effect.
func (k *Kubelet) TaintNode(ctx context.Context, name string, taints ...corev1.Taint) error {
	return k.changeTaints(ctx, name, func(all []corev1.Taint) []corev1.Taint {
		for _, taint := range taints {
			all = slices.DeleteFunc(all, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
			all = append(all, taint)
		}
		return all
	})
}

// UntaintNode removes the taints of a node with these keys.
func (k *Kubelet) UntaintNode(ctx context.Context, name string, keys ...string) error {
	return k.changeTaints(ctx, name, func(all []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(all, func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
	})
}

// changeTaints changes the taints of a node and leaves those that the node controllers set
// meanwhile.
func (k *Kubelet) changeTaints(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		_, err = k.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// Names returns the names of the nodes.
func (k *Kubelet) Names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.nodes))
}

func (k *Kubelet) ownsNode(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes[name] != nil
}

func (k *Kubelet) reachable(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.nodes[name]
	return n != nil && !n.silent
}

// StopNode stops a node: its processes are killed, and it neither renews its lease nor
// reports nor executes deletions, until StartNode. The control plane notices after its
// grace period (Options of controlplane).
func (k *Kubelet) StopNode(name string) error {
	if err := k.setSilent(name, true); err != nil {
		return err
	}
	for _, w := range k.workersOf(name) {
		w.killAll()
	}
	return nil
}

// CutNode disconnects a node from the control plane: its processes continue, and it
// neither reports nor receives anything, until StartNode.
func (k *Kubelet) CutNode(name string) error { return k.setSilent(name, true) }

// StartNode restarts a node. After StopNode the pods that are still bound to it start
// again, with a restart counted; deleted pods end.
func (k *Kubelet) StartNode(ctx context.Context, name string) error {
	if err := k.setSilent(name, false); err != nil {
		return err
	}
	if err := k.report(ctx, name); err != nil {
		return err
	}
	pods, err := k.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == name {
			k.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	for _, w := range k.workersOf(name) {
		k.queue.Add(w.name)
		w.publish()
	}
	return nil
}

func (k *Kubelet) setSilent(name string, silent bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.nodes[name]
	if n == nil {
		return fmt.Errorf("kubelet: there is no node %q", name)
	}
	n.silent = silent
	return nil
}

// workersOf returns the workers of a node.
func (k *Kubelet) workersOf(name string) []*worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []*worker
	for _, w := range k.workers {
		if w.node == name {
			found = append(found, w)
		}
	}
	return found
}
