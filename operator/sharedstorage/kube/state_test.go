package kube

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The state of an instance follows from its claim, its pod and its node.
func TestState(t *testing.T) {
	gone := metav1.NewTime(time.Unix(1000, 0))
	running := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{
			Name: engineContainer, Started: ptr(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	claim, leaving := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &gone}}
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &gone }
	for name, q := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		pod   *corev1.Pod
		dead  bool // its node
		want  port.InstanceState
	}{
		"its agent answers":                     {claim: claim, pod: running(nil), want: port.Up},
		"not started yet":                       {claim: claim, pod: running(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Started = ptr(false) }), want: port.Pending},
		"no address yet":                        {claim: claim, pod: running(func(p *corev1.Pod) { p.Status.PodIP = "" }), want: port.Pending},
		"no pod":                                {claim: claim, want: port.Down},
		"pod deleted by somebody":               {claim: claim, pod: running(deleted), want: port.Down},
		"removed, the pod ends":                 {claim: leaving, pod: running(deleted), want: port.Leaving},
		"removed, the claim goes":               {claim: leaving, want: port.Leaving},
		"a pod without a claim":                 {pod: running(nil), want: port.Leaving},
		"only the claim deleted: it works on":   {claim: leaving, pod: running(nil), want: port.Up},
		"node lost":                             {claim: claim, pod: running(nil), dead: true, want: port.Lost},
		"node lost while the pod is removed":    {claim: leaving, pod: running(deleted), dead: true, want: port.Leaving},
		"no node takes it":                      {claim: claim, pod: running(func(p *corev1.Pod) { p.Status = unscheduled() }), want: port.Unscheduled},
		"the pod was evicted":                   {claim: claim, pod: running(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }), want: port.Down},
		"its container ends again and again":    {claim: claim, pod: running(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = waiting("CrashLoopBackOff") }), want: port.Down},
		"its image cannot be pulled":            {claim: claim, pod: running(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = waiting("ImagePullBackOff") }), want: port.Down},
		"its container is being made":           {claim: claim, pod: running(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = waiting("ContainerCreating") }), want: port.Pending},
		"its container is refused by a kubelet": {claim: claim, pod: running(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = waiting("CreateContainerConfigError") }), want: port.Down},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, message := decideState(&instanceObjects{name: "a", claim: q.claim, pod: q.pod}, "node-1", !q.dead, time.Time{})
			if got != q.want {
				t.Errorf("it is %s (%s), want %s", got, message, q.want)
			}
			if message == "" && (got == port.Down || got == port.Lost || got == port.Unscheduled) {
				t.Errorf("%s without a word", got)
			}
		})
	}
}

func unscheduled() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "so it is"}}
}

// The data that a writer has left on a volume become the seed of the instance that takes the
// volume over, even after an interrupted start.
func TestVolumeTakenOver(t *testing.T) {
	dir := t.TempDir()
	put := func(path string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("c-1-old/data/PG_VERSION")
	put("c-1-old/record.json")
	put("lost+found/file")
	for range 2 { // it may be interrupted and repeated
		seed, err := settle(dir, "c-2-new")
		if err != nil || seed != filepath.Join(dir, "seed") {
			t.Fatalf("the seed is %q: %v", seed, err)
		}
		for path, want := range map[string]bool{"seed/PG_VERSION": true, "c-1-old": false, "c-2-new": true, "lost+found/file": true} {
			if _, err := os.Stat(filepath.Join(dir, path)); (err == nil) != want {
				t.Errorf("%s: %v, want there: %t", path, err, want)
			}
		}
	}
	put("c-2-new/data/PG_VERSION")
	if err := os.RemoveAll(filepath.Join(dir, "seed")); err != nil {
		t.Fatal(err)
	}
	if _, err := settle(dir, "c-2-new"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c-2-new", "data", "PG_VERSION")); err != nil {
		t.Errorf("its own data went: %v", err)
	}
}
