package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"

	"github.com/pawl-dev/pawl/test/controlplane"
)

func emptyDir(s *corev1.PodSpec, mounts ...*corev1.Container) {
	s.Volumes = append(s.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for _, c := range mounts {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/data"})
	}
}

// Init containers run one after the other, failing ones are repeated; a sidecar runs
// beside the others and ends after them.
func TestInitContainersRunInOrder(t *testing.T) {
	p, k := processes(t)
	ns := p.Namespace(t)
	// A sidecar without a probe has started with its process: its first command may be later than main's.
	create(t, p, ns, shell("s", "echo main >> /data/order; until test -e /data/side; do sleep 0.1; done; cat /data/order", func(s *corev1.PodSpec, c *corev1.Container) {
		init := func(name, script string, policy *corev1.ContainerRestartPolicy) corev1.Container {
			i := corev1.Container{Name: name, Image: "shell:test", Command: []string{"sh", "-c", script}, RestartPolicy: policy}
			i.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
			return i
		}
		emptyDir(s, c)
		s.InitContainers = []corev1.Container{
			init("first", "echo first >> /data/order; test -e /data/again || { touch /data/again; exit 1; }", ptr(corev1.ContainerRestartPolicyOnFailure)),
			init("side", "touch /data/side; exec sleep 1000", ptr(corev1.ContainerRestartPolicyAlways)),
			init("last", "echo last >> /data/order", nil),
		}
	}))
	pod := awaitPod(t, p, ns, "s", "has succeeded", phase(corev1.PodSucceeded))
	if text, err := os.ReadFile(k.LogFile(ns, "s", "main")); string(text) != "first\nfirst\nlast\nmain\n" {
		t.Errorf("the order was %q (%v)", text, err)
	}
	init := pod.Status.InitContainerStatuses
	if init[0].RestartCount != 1 || init[1].State.Terminated == nil || init[2].State.Terminated == nil {
		t.Errorf("the init containers are %+v", init)
	}
}

// A container that is not restarted leaves its exit code and its message.
func TestFailedPodHasItsExitCode(t *testing.T) {
	p, _ := processes(t)
	ns := p.Namespace(t)
	create(t, p, ns, shell("s", "echo the disk is full; exit 42", func(_ *corev1.PodSpec, c *corev1.Container) {
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}))
	pod := awaitPod(t, p, ns, "s", "has failed", phase(corev1.PodFailed))
	end := pod.Status.ContainerStatuses[0].State.Terminated
	if end == nil || end.ExitCode != 42 || end.Message != "the disk is full\n" {
		t.Errorf("its end is %+v", end)
	}
}

// A container that cannot start reports the reason, and starts when the reason is gone.
func TestWhatCannotStartSaysWhy(t *testing.T) {
	p, _ := processes(t)
	ns := p.Namespace(t)
	config := corev1.LocalObjectReference{Name: "late"}
	create(t, p, ns, shell("unknown", "true", func(_ *corev1.PodSpec, c *corev1.Container) { c.Image = "nobody/knows:1" }))
	create(t, p, ns, shell("command", "true", func(_ *corev1.PodSpec, c *corev1.Container) { c.Command = []string{"no-such-program"} }))
	create(t, p, ns, shell("volume", "true", func(s *corev1.PodSpec, _ *corev1.Container) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: config}}}}
	}))
	create(t, p, ns, shell("variable", "test $A = 1", func(_ *corev1.PodSpec, c *corev1.Container) {
		c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: config, Key: "a"}}}}
	}))
	for name, want := range map[string]string{"unknown": "ErrImagePull", "command": "RunContainerError", "volume": "ContainerCreating", "variable": "CreateContainerConfigError"} {
		awaitPod(t, p, ns, name, "says "+want, func(pod *corev1.Pod) bool {
			for _, c := range pod.Status.ContainerStatuses {
				if w := c.State.Waiting; w != nil && w.Reason == want && w.Message != "" {
					return true
				}
			}
			return false
		})
	}
	must(p.Client().CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{}))(t)
	awaitPod(t, p, ns, "volume", "has succeeded", phase(corev1.PodSucceeded))
	awaitPod(t, p, ns, "variable", "has succeeded", phase(corev1.PodSucceeded))
}

// As root, a container runs as the user that its pod names, and owns its folders.
func TestRunAsUserIsHonouredAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as someone else")
	}
	p, k := processes(t)
	ns := p.Namespace(t)
	create(t, p, ns, shell("s", "id -u; id -g; id -G; touch /data/mine && stat -c %u:%g /data/mine", func(s *corev1.PodSpec, c *corev1.Container) {
		emptyDir(s, c)
		s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr[int64](12345), RunAsGroup: ptr[int64](2345), FSGroup: ptr[int64](345)}
	}))
	create(t, p, ns, shell("nonroot", "true", func(s *corev1.PodSpec, _ *corev1.Container) {
		s.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(true)}
	}))
	awaitPod(t, p, ns, "s", "has succeeded", phase(corev1.PodSucceeded))
	if text, err := os.ReadFile(k.LogFile(ns, "s", "main")); string(text) != "12345\n2345\n2345 345\n12345:2345\n" {
		t.Errorf("it ran as %q (%v)", text, err)
	}
	awaitPod(t, p, ns, "nonroot", "is refused", func(pod *corev1.Pod) bool {
		c := pod.Status.ContainerStatuses
		return len(c) == 1 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
}

// A pod speaks to the API server as its service account.
func TestServiceAccountTokenIsMounted(t *testing.T) {
	p, k := processes(t)
	ns := p.Namespace(t)
	create(t, p, ns, shell("s", "/bin/kubectl auth whoami -o jsonpath={.status.userInfo.username}", nil))
	awaitPod(t, p, ns, "s", "has succeeded", phase(corev1.PodSucceeded))
	if text, err := os.ReadFile(k.LogFile(ns, "s", "main")); string(text) != "system:serviceaccount:"+ns+":default" {
		t.Errorf("it is %q (%v)", text, err)
	}
}

// The folder of a claim outlives the pods of a StatefulSet.
func TestClaimOutlivesPods(t *testing.T) {
	p, _ := processes(t)
	ns := p.Namespace(t)
	pod := shell("s", "date +%s%N >> /data/starts; exec sleep 1000", func(s *corev1.PodSpec, c *corev1.Container) {
		s.RestartPolicy = corev1.RestartPolicyAlways
		s.TerminationGracePeriodSeconds = ptr[int64](1)
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	})
	set := stateful("s", 1)
	set.Spec.Template.Spec = pod.Spec
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}}
	must(p.Client().AppsV1().StatefulSets(ns).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	first := awaitPod(t, p, ns, "s-0", "is Ready", podReady)
	folder := claimFolder(t, p, ns, "data-s-0")
	starts := func(want int) {
		eventually(t, "the starts", func(context.Context) error {
			text, err := os.ReadFile(filepath.Join(folder, "starts"))
			if got := strings.Count(string(text), "\n"); err != nil || got != want {
				return fmt.Errorf("there were %d, not %d: %v", got, want, err)
			}
			return nil
		})
	}
	starts(1)
	if err := p.Client().CoreV1().Pods(ns).Delete(t.Context(), "s-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, p, ns, "s-0", "is another", func(pod *corev1.Pod) bool { return pod.UID != first.UID && podReady(pod) })
	starts(2)
}

func claimFolder(t *testing.T, p *controlplane.Plane, ns, name string) string {
	t.Helper()
	claim := must(p.Client().CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return must(p.Client().CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{}))(t).Spec.CSI.VolumeHandle
}

// A real PostgreSQL runs as a StatefulSet, as another user than root, on a
// claim, and has its rows after a kill.
func TestPostgreSQLKeepsItsRows(t *testing.T) {
	p, k := processes(t)
	image := postgres(t)
	ns := p.Namespace(t)
	mount := []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "pg"}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr[int32](1), ServiceName: "pg", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pg"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "pg"}}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr[int64](10),
			NodeSelector:                  map[string]string{"node.pawl.dev/process": "true"},
			InitContainers: []corev1.Container{{Name: "init", Image: image, VolumeMounts: mount,
				Command: []string{"sh", "-c", "test -e /data/pg/PG_VERSION || initdb -D /data/pg -U postgres -A trust --no-sync"}}},
			Containers: []corev1.Container{{Name: "postgres", Image: image, VolumeMounts: mount,
				Env:     []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
				Command: []string{"postgres", "-D", "/data/pg", "-h", "$(POD_IP)", "-p", "5432", "-k", "/data", "-c", "fsync=off"},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10, ProbeHandler: corev1.ProbeHandler{
					Exec: &corev1.ExecAction{Command: []string{"pg_isready", "-q", "-h", "/data"}}}},
				LivenessProbe: &corev1.Probe{PeriodSeconds: 5, TimeoutSeconds: 10, FailureThreshold: 12, ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(5432)}}},
			}},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}},
	}}
	must(p.Client().AppsV1().StatefulSets(ns).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	pod := awaitPod(t, p, ns, "pg-0", "is Ready", podReady)
	sql := func(query string) string {
		t.Helper()
		var out []byte
		err := retry.OnError(retry.DefaultBackoff, func(error) bool { return true }, func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err = k.Exec(ctx, ns, "pg-0", "", "psql", "-qAt", "-U", "postgres", "-h", pod.Status.PodIP, "-c", query)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v: %s", query, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sql("create table rows (n int); insert into rows select generate_series(1, 100)")
	backend, err := strconv.Atoi(sql("select pid from pg_stat_activity where backend_type = 'checkpointer'"))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.KillPod(ns, "pg-0"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of its children", func(context.Context) error {
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(backend))); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("process %d still runs: %v", backend, err)
		}
		return nil
	})
	awaitPod(t, p, ns, "pg-0", "is back", restarted(1))
	if got := sql("select count(*) from rows"); got != "100" {
		t.Errorf("there are %s rows", got)
	}
}

func postgres(t *testing.T) string {
	t.Helper()
	images, err := controlplane.Images("")
	if err != nil {
		t.Fatal(err)
	}
	for name := range images {
		if strings.HasPrefix(name, "postgres:") {
			return name
		}
	}
	t.Skip("PostgreSQL's server programs are not installed")
	return ""
}
