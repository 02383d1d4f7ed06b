package controlplane_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// extra starts status-only nodes of one test, which take only pods made by on.
func extra(t *testing.T, p *controlplane.Plane, name string, o kubelet.Options) *kubelet.Kubelet {
	t.Helper()
	o.Name, o.Labels = name, map[string]string{"test.pawl.dev/nodes": name}
	if o.Lease == 0 {
		o.Lease = time.Second
	}
	change := o.Node
	o.Node = func(n int, node *corev1.Node) {
		delete(node.Labels, "node.pawl.dev/status-only")
		delete(node.Labels, "node.pawl.dev/process")
		if change != nil {
			change(n, node)
		}
	}
	return must(p.StartKubelet(o))(t)
}

func on(nodes string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{"test.pawl.dev/nodes": nodes}
	return pod
}

func sleeper(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr[int64](30), Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
}

// Nodes have the zones and taints of the test, and change them at run time.
func TestNodesHaveZonesAndTaints(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	taint := corev1.Taint{Key: "pool", Value: "gold", Effect: corev1.TaintEffectNoSchedule}
	k := extra(t, p, "zoned", kubelet.Options{Nodes: 2, Node: func(n int, node *corev1.Node) {
		node.Labels[corev1.LabelTopologyZone] = []string{"a", "b"}[n-1]
		if n == 2 {
			node.Spec.Taints = []corev1.Taint{taint}
		}
	}})
	node := func(name string) *corev1.Node {
		return must(p.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}))(t)
	}
	if a, b := node("zoned-1"), node("zoned-2"); a.Labels[corev1.LabelTopologyZone] != "a" || b.Labels[corev1.LabelTopologyZone] != "b" || len(a.Spec.Taints) != 0 || len(b.Spec.Taints) != 1 {
		t.Errorf("the nodes are %v %v and %v %v", a.Labels, a.Spec.Taints, b.Labels, b.Spec.Taints)
	}
	bound := func(zone string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			return podReady(pod) && node(pod.Spec.NodeName).Labels[corev1.LabelTopologyZone] == zone
		}
	}
	inZone := func(name, zone string) *corev1.Pod {
		pod := on("zoned", sleeper(name))
		pod.Spec.NodeSelector[corev1.LabelTopologyZone] = zone
		return pod
	}
	create(t, p, ns, inZone("first", "a"))
	awaitPod(t, p, ns, "first", "is in zone a", bound("a"))
	create(t, p, ns, inZone("second", "b"))
	awaitPod(t, p, ns, "second", "is held off by the taint", func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return true
			}
		}
		return false
	})
	if err := k.UntaintNode(t.Context(), "zoned-2", "pool"); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, p, ns, "second", "is in zone b", bound("b"))
	if err := k.LabelNode(t.Context(), "zoned-1", map[string]*string{corev1.LabelTopologyZone: ptr("c"), corev1.LabelTopologyRegion: nil}); err != nil {
		t.Fatal(err)
	}
	if labels := node("zoned-1").Labels; labels[corev1.LabelTopologyZone] != "c" || labels[corev1.LabelTopologyRegion] != "" {
		t.Errorf("the labels are %v", labels)
	}
	taint.Effect = corev1.TaintEffectNoExecute
	if err := k.TaintNode(t.Context(), "zoned-2", taint); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the evicted pod", func(ctx context.Context) error {
		_, err := p.Client().CoreV1().Pods(ns).Get(ctx, "second", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
}

// A deleted pod on paper stays as long as the function says, but not beyond its grace period.
func TestPaperPodTakesItsTimeToGo(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	var takes atomic.Int64
	extra(t, p, "leaving", kubelet.Options{Nodes: 1, Termination: func(*corev1.Pod) time.Duration { return time.Duration(takes.Load()) }})
	for _, c := range []struct {
		name          string
		takes         time.Duration
		grace         int64
		least, atMost time.Duration
	}{
		{"quick", 0, 30, 0, 10 * time.Second},
		{"slow", 3 * time.Second, 30, 3 * time.Second, 20 * time.Second},
		{"killed", time.Hour, 2, 2 * time.Second, 20 * time.Second},
	} {
		takes.Store(int64(c.takes))
		create(t, p, ns, on("leaving", sleeper(c.name)))
		awaitPod(t, p, ns, c.name, "is Ready", podReady)
		began := time.Now()
		if err := p.Client().CoreV1().Pods(ns).Delete(t.Context(), c.name, metav1.DeleteOptions{GracePeriodSeconds: &c.grace}); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.name, func(ctx context.Context) error {
			pod, err := p.Client().CoreV1().Pods(ns).Get(ctx, c.name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is still there: %v", err)
			}
			_ = pod
			return nil
		})
		if took := time.Since(began); took < c.least || took > c.atMost {
			t.Errorf("%s took %s", c.name, took)
		}
	}
}

// A container on paper crashes after it was Ready, by annotation or by function, and backs off.
func TestPaperContainerCrashesAgain(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	extra(t, p, "falling", kubelet.Options{Nodes: 1, Backoff: 2 * time.Second, Crash: func(pod *corev1.Pod, container string, restarts int32) *kubelet.Crash {
		if pod.Name == "function" && container == "main" && restarts < 1 {
			return &kubelet.Crash{After: time.Second, ExitCode: 42}
		}
		return nil
	}})
	annotated := on("falling", sleeper("annotation"))
	annotated.Annotations = map[string]string{kubelet.CrashAfterAnnotation: "1s", kubelet.CrashTimesAnnotation: "2"}
	create(t, p, ns, annotated)
	create(t, p, ns, on("falling", sleeper("function")))
	awaitPod(t, p, ns, "annotation", "is Ready", podReady)
	awaitPod(t, p, ns, "annotation", "backs off", func(pod *corev1.Pod) bool {
		c := pod.Status.ContainerStatuses[0]
		return !podReady(pod) && c.RestartCount == 1 && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" && c.LastTerminationState.Terminated != nil
	})
	awaitPod(t, p, ns, "annotation", "is back for good", restarted(2))
	pod := awaitPod(t, p, ns, "function", "is back", restarted(1))
	if end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; end == nil || end.ExitCode != 42 {
		t.Errorf("it ended with %+v", end)
	}
}
