package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// Two nodes whose pods are processes, beside the status-only nodes.
var (
	realOnce sync.Once
	real     *kubelet.Kubelet
	realErr  error
)

func processes(t *testing.T) (*controlplane.Plane, *kubelet.Kubelet) {
	t.Helper()
	p := suite.Plane(t)
	realOnce.Do(func() {
		var images map[string]kubelet.Image
		if images, realErr = controlplane.Images(""); realErr != nil {
			return
		}
		self, err := os.Executable()
		if err != nil {
			realErr = err
			return
		}
		images["server:test"] = kubelet.Image{Command: []string{self}, Env: map[string]string{"TEST_SERVER": "1"}}
		images["shell:test"] = kubelet.Image{Command: []string{"sh"}, Files: map[string]string{"/bin/kubectl": p.Binaries.Kubectl}, Env: map[string]string{"IMAGE": "test"}}
		images["shell:next"] = kubelet.Image{Command: []string{"sh"}, Env: map[string]string{"IMAGE": "next"}}
		real, realErr = p.StartKubelet(kubelet.Options{
			Mode: kubelet.Process, Name: "real", Nodes: 2, Images: images, Lease: time.Second, Backoff: 200 * time.Millisecond,
		})
	})
	if realErr != nil {
		t.Fatal(realErr)
	}
	return p, real
}

// server returns a pod of the test server, with the changes of a test.
func server(name string, change func(*corev1.PodSpec, *corev1.Container)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name, "tier": "test"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr[int64](5),
			NodeSelector:                  map[string]string{"node.pawl.dev/process": "true"},
			Containers: []corev1.Container{{
				Name: "main", Image: "server:test",
				Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 7000}},
				Env:            []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 5, ProbeHandler: healthz()},
			}},
		},
	}
	if change != nil {
		change(&pod.Spec, &pod.Spec.Containers[0])
	}
	return pod
}

func healthz() corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}}
}

// shell returns a pod that runs a script once.
func shell(name, script string, change func(*corev1.PodSpec, *corev1.Container)) *corev1.Pod {
	return server(name, func(s *corev1.PodSpec, c *corev1.Container) {
		s.RestartPolicy = corev1.RestartPolicyNever
		c.Image, c.Command, c.ReadinessProbe, c.Ports = "shell:test", []string{"sh", "-c", script}, nil, nil
		if change != nil {
			change(s, c)
		}
	})
}

func create(t *testing.T, p *controlplane.Plane, ns string, pod *corev1.Pod) {
	t.Helper()
	must(p.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

// awaitPod waits until a pod meets a condition.
func awaitPod(t *testing.T, p *controlplane.Plane, ns, name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, name+" "+what, func(ctx context.Context) (err error) {
		if pod, err = p.Client().CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{}); err == nil && !holds(pod) {
			text, _ := json.Marshal(pod.Status.ContainerStatuses)
			err = fmt.Errorf("%s %s", describe(*pod), text)
		}
		return err
	})
	return pod
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func phase(want corev1.PodPhase) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Status.Phase == want }
}

func restarted(times int32) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return podReady(pod) && pod.Status.ContainerStatuses[0].RestartCount == times
	}
}

// call sends a request to the server of a pod.
func call(t *testing.T, pod *corev1.Pod, method, path string, form url.Values) string {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), method, "http://"+pod.Status.PodIP+":7000"+path+"?"+form.Encode(), nil))(t)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if path == "/exit" {
			return ""
		}
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v: %s", method, path, resp.Status, err, text)
	}
	return string(text)
}

func describeSelf(t *testing.T, pod *corev1.Pod) (s self) {
	t.Helper()
	if err := json.Unmarshal([]byte(call(t, pod, "GET", "/self", nil)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each pod is a process at its own address, with the environment and files of its spec, at
// its own paths.
func TestProcessServesAtItsOwnAddressWithItsEnvironment(t *testing.T) {
	p, k := processes(t)
	ns := p.Namespace(t)
	core := p.Client().CoreV1()
	must(core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"},
		Data: map[string]string{"app.yaml": "size: 1", "COLOUR": "blue"}}, metav1.CreateOptions{}))(t)
	must(core.Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"},
		StringData: map[string]string{"password": "hush"}}, metav1.CreateOptions{}))(t)
	change := func(s *corev1.PodSpec, c *corev1.Container) {
		c.Args = []string{"--config=/etc/app/app.yaml", "--name=$(NAME)", "/etc/application"}
		c.WorkingDir = "/var/lib/app"
		c.EnvFrom = []corev1.EnvFromSource{{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}
		c.Env = append(c.Env,
			corev1.EnvVar{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			corev1.EnvVar{Name: "TIER", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}}},
			corev1.EnvVar{Name: "COLOUR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}, Key: "COLOUR"}}},
			corev1.EnvVar{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}, Key: "password"}}},
			corev1.EnvVar{Name: "ABSENT", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}, Key: "absent", Optional: ptr(true)}}},
			corev1.EnvVar{Name: "WHERE", Value: "/etc/app for $(NAME)"},
		)
		s.Volumes = []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
			{Name: "about", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}},
		}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}, {Name: "about", MountPath: "/etc/app-about"}}
	}
	create(t, p, ns, server("a", change))
	create(t, p, ns, server("b", change))
	a, b := awaitPod(t, p, ns, "a", "is Ready", podReady), awaitPod(t, p, ns, "b", "is Ready", podReady)
	if a.Status.PodIP == b.Status.PodIP {
		t.Fatalf("both are at %s", a.Status.PodIP)
	}
	one, other := describeSelf(t, a), describeSelf(t, b)
	if one.PID == other.PID || k.PIDs(ns, "a")["main"] != one.PID {
		t.Errorf("the processes are %d and %d; the kubelet knows %v", one.PID, other.PID, k.PIDs(ns, "a"))
	}
	root := k.Root(ns, "a", "main")
	for _, want := range []string{"C_COLOUR=blue", "NAME=a", "TIER=test", "COLOUR=blue", "PASSWORD=hush", "WHERE=" + root + "/etc/app for a", "HOSTNAME=a", "CONTAINER_ROOT=" + root} {
		if !slices.Contains(one.Env, want) {
			t.Errorf("the environment has no %s: %v", want, one.Env)
		}
	}
	for _, e := range one.Env {
		if strings.HasPrefix(e, "ABSENT=") || strings.HasPrefix(e, "GOPATH=") {
			t.Errorf("the environment has %s", e)
		}
	}
	if want := []string{"--config=" + root + "/etc/app/app.yaml", "--name=a", "/etc/application"}; !slices.Equal(one.Args, want) {
		t.Errorf("the arguments are %v, not %v", one.Args, want)
	}
	if one.Dir != root+"/var/lib/app" {
		t.Errorf("it works in %s", one.Dir)
	}

	file := func(path string) string { return call(t, a, "GET", "/file", url.Values{"path": {root + path}}) }
	if got := file("/etc/app/app.yaml"); got != "size: 1" {
		t.Errorf("the file of the ConfigMap holds %q", got)
	}
	if got := file("/etc/app-about/labels"); !strings.HasPrefix(got, "app=\"a\"\ntier=\"test\"\n") {
		t.Errorf("the file of the labels holds %q", got)
	}
	must(core.ConfigMaps(ns).Patch(t.Context(), "config", types.MergePatchType, []byte(`{"data":{"app.yaml":"size: 2"}}`), metav1.PatchOptions{}))(t)
	must(core.Pods(ns).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"new"}}}`), metav1.PatchOptions{}))(t)
	eventually(t, "the changed files", func(context.Context) error {
		if config, labels := file("/etc/app/app.yaml"), file("/etc/app-about/labels"); config != "size: 2" || !strings.Contains(labels, "tier=\"new\"") {
			return fmt.Errorf("they hold %q and %q", config, labels)
		}
		return nil
	})
	if again := describeSelf(t, a); again.PID != one.PID {
		t.Error("the change restarted it")
	}
}

// A container that crashes is restarted; the status has its exit and the restart count.
func TestKilledPodIsRestartedWithACount(t *testing.T) {
	p, k := processes(t)
	ns := p.Namespace(t)
	create(t, p, ns, server("s", nil))
	pod := awaitPod(t, p, ns, "s", "is Ready", podReady)
	before := describeSelf(t, pod)
	if err := k.KillPod(ns, "s"); err != nil {
		t.Fatal(err)
	}
	pod = awaitPod(t, p, ns, "s", "is back", restarted(1))
	if end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; end == nil || end.ExitCode != 137 || end.Signal != 9 {
		t.Errorf("its last end was %+v", end)
	}
	if after := describeSelf(t, pod); after.PID == before.PID {
		t.Error("it is the same process")
	}
	call(t, pod, "POST", "/exit", url.Values{"code": {"3"}})
	pod = awaitPod(t, p, ns, "s", "is back again", restarted(2))
	if end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; end == nil || end.ExitCode != 3 || end.Reason != "Error" {
		t.Errorf("its last end was %+v", end)
	}
	if err := k.KillPod(ns, "nobody"); err == nil {
		t.Error("an unknown pod could be killed")
	}
}

// A container whose image is changed is stopped in order and restarted with the new one; the others go on.
func TestChangedImageRestartsItsContainer(t *testing.T) {
	p, k := processes(t)
	ns := p.Namespace(t)
	create(t, p, ns, shell("s", "trap 'echo ended; exit 0' TERM; echo $IMAGE; while :; do sleep 0.1; done", func(s *corev1.PodSpec, c *corev1.Container) {
		s.RestartPolicy = corev1.RestartPolicyAlways // with Never the API server refuses that an ended container runs again
		s.Containers = append(s.Containers, corev1.Container{Name: "other", Image: "shell:test", Command: []string{"sleep", "1000"}})
	}))
	begun := func(image string, restarts int32) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			s := pod.Status.ContainerStatuses[0]
			return s.State.Running != nil && s.Image == image && s.RestartCount == restarts
		}
	}
	awaitPod(t, p, ns, "s", "runs", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 2 && begun("shell:test", 0)(pod) && pod.Status.ContainerStatuses[1].State.Running != nil
	})
	logged(t, k.LogFile(ns, "s", "main"), "test\n")
	other := k.PIDs(ns, "s")["other"]
	patch := []byte(`{"spec":{"containers":[{"name":"main","image":"shell:next"}]}}`)
	must(p.Client().CoreV1().Pods(ns).Patch(t.Context(), "s", types.StrategicMergePatchType, patch, metav1.PatchOptions{}))(t)
	pod := awaitPod(t, p, ns, "s", "runs its new image", begun("shell:next", 1))
	if end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; end == nil || end.ExitCode != 0 {
		t.Errorf("its last end was %+v", end)
	}
	logged(t, k.LogFile(ns, "s", "main"), "next\n")
	if now := k.PIDs(ns, "s")["other"]; now != other {
		t.Error("the other container has restarted as well")
	}
}

// logged waits until a log has exactly this text.
func logged(t *testing.T, file, want string) {
	t.Helper()
	eventually(t, file, func(context.Context) error {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			return fmt.Errorf("%q %v", text, err)
		}
		return nil
	})
}

// Readiness makes a pod unready, liveness restarts it, and both begin after the startup
// probe has succeeded.
func TestProbesAreExecuted(t *testing.T) {
	p, _ := processes(t)
	ns := p.Namespace(t)
	create(t, p, ns, server("waits", func(s *corev1.PodSpec, c *corev1.Container) {
		s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		c.StartupProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 600, TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/data/go"}}}}
	}))
	create(t, p, ns, server("lives", func(_ *corev1.PodSpec, c *corev1.Container) {
		c.LivenessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2, TimeoutSeconds: 10, ProbeHandler: healthz()}
	}))
	create(t, p, ns, server("dials", func(_ *corev1.PodSpec, c *corev1.Container) {
		c.ReadinessProbe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(7000)}}
	}))
	awaitPod(t, p, ns, "dials", "is Ready", podReady)
	lives := awaitPod(t, p, ns, "lives", "is Ready", podReady)
	call(t, lives, "POST", "/sick", url.Values{"is": {"true"}})
	lives = awaitPod(t, p, ns, "lives", "was restarted", restarted(1))
	if end := lives.Status.ContainerStatuses[0].LastTerminationState.Terminated; end == nil || end.ExitCode != 0 {
		t.Errorf("it was not asked to end: %+v", end)
	}

	waits := awaitPod(t, p, ns, "waits", "runs", phase(corev1.PodRunning))
	if s := waits.Status.ContainerStatuses[0]; podReady(waits) || s.Started == nil || *s.Started {
		t.Errorf("before its startup probe it is %+v", s)
	}
	eventually(t, "the server", func(ctx context.Context) error { return dial(ctx, waits) })
	root := describeSelf(t, waits).Env[slices.IndexFunc(describeSelf(t, waits).Env, func(e string) bool { return strings.HasPrefix(e, "CONTAINER_ROOT=") })]
	call(t, waits, "POST", "/file", url.Values{"path": {strings.TrimPrefix(root, "CONTAINER_ROOT=") + "/data/go"}, "text": {"go"}})
	waits = awaitPod(t, p, ns, "waits", "is Ready", podReady)
	call(t, waits, "POST", "/sick", url.Values{"is": {"true"}})
	awaitPod(t, p, ns, "waits", "is not Ready", func(pod *corev1.Pod) bool { return !podReady(pod) })
	call(t, waits, "POST", "/sick", url.Values{"is": {"false"}})
	awaitPod(t, p, ns, "waits", "is Ready without a restart", restarted(0))
}

func dial(ctx context.Context, pod *corev1.Pod) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod.Status.PodIP+":7000/healthz", nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// Deletion is SIGTERM first and SIGKILL after the grace, for all processes.
func TestDeletionGivesGraceAndLeavesNothing(t *testing.T) {
	p, k := processes(t)
	ns := p.Namespace(t)
	create(t, p, ns, server("polite", nil))
	create(t, p, ns, server("stubborn", func(s *corev1.PodSpec, c *corev1.Container) {
		s.TerminationGracePeriodSeconds = ptr[int64](2)
		c.Env = append(c.Env, corev1.EnvVar{Name: "STUBBORN", Value: "yes"})
	}))
	create(t, p, ns, shell("family", "sleep 1000 & setsid sleep 1000 & wait", func(s *corev1.PodSpec, _ *corev1.Container) {
		s.TerminationGracePeriodSeconds = ptr[int64](1)
	}))
	awaitPod(t, p, ns, "polite", "is Ready", podReady)
	awaitPod(t, p, ns, "stubborn", "is Ready", podReady)
	awaitPod(t, p, ns, "family", "runs", phase(corev1.PodRunning))
	root := k.Root(ns, "family", "main")
	eventually(t, "the family's children", func(context.Context) error {
		if n := len(carrying(root)); n < 3 {
			return fmt.Errorf("there are %d processes", n)
		}
		return nil
	})
	logs := map[string]string{"polite": k.LogFile(ns, "polite", "main"), "stubborn": k.LogFile(ns, "stubborn", "main")}
	var first []kubelet.Proc
	for _, name := range []string{"polite", "stubborn", "family"} {
		proc, ok := kubelet.FindProcess(k.PIDs(ns, name)["main"])
		if !ok {
			t.Fatalf("%s has no process", name)
		}
		first = append(first, proc)
	}
	began := time.Now()
	for _, name := range []string{"polite", "stubborn", "family"} {
		if err := p.Client().CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"polite", "stubborn", "family"} {
		eventually(t, name, func(ctx context.Context) error {
			_, err := p.Client().CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is still there: %v", err)
			}
			return nil
		})
	}
	if d := time.Since(began); d < 2*time.Second {
		t.Errorf("the stubborn one had only %s", d)
	}
	for i, proc := range first {
		if !proc.Gone() {
			t.Errorf("process %d still runs", i)
		}
	}
	if left := carrying(root); len(left) > 0 {
		t.Errorf("of the family is left: %v", left)
	}
	for name, want := range map[string]string{"polite": "SIGTERM: goodbye\n", "stubborn": "SIGTERM does not impress me\n"} {
		if text, err := os.ReadFile(logs[name]); !strings.HasSuffix(string(text), want) {
			t.Errorf("%s said %q (%v)", name, text, err)
		}
	}
}

// carrying returns the processes with a container's root in their environment.
func carrying(root string) (found []kubelet.Proc) {
	for _, p := range kubelet.Procs() {
		if p.Environ(kubelet.RootVariable) == root {
			found = append(found, p)
		}
	}
	return found
}

// A stopped node kills its pods and restarts them after StartNode; a disconnected one
// keeps them running and reports nothing.
func TestNodesLosePowerAndNetwork(t *testing.T) {
	p, k := processes(t)
	ns := p.Namespace(t)
	bear := func(s *corev1.PodSpec, _ *corev1.Container) { // stay on the lost node
		s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	create(t, p, ns, server("s", bear))
	pod := awaitPod(t, p, ns, "s", "is Ready", podReady)
	before := describeSelf(t, pod)
	if err := k.CutNode(pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	call(t, pod, "POST", "/sick", url.Values{"is": {"true"}})
	eventually(t, "the silent node", func(ctx context.Context) error {
		n, err := p.Client().CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
				return nil
			}
		}
		return fmt.Errorf("it is %+v", n.Status.Conditions)
	})
	if s := must(p.Client().CoreV1().Pods(ns).Get(t.Context(), "s", metav1.GetOptions{}))(t).Status.ContainerStatuses[0]; !s.Ready {
		t.Error("a silent node has reported")
	}
	if now := describeSelf(t, pod); now.PID != before.PID {
		t.Error("a node without network has restarted it")
	}
	if err := k.StartNode(t.Context(), pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, p, ns, "s", "is made unhealthy", func(pod *corev1.Pod) bool { return !pod.Status.ContainerStatuses[0].Ready })

	if err := k.StopNode(pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before.PID, 0); err == nil {
		if proc, ok := kubelet.FindProcess(before.PID); ok {
			t.Errorf("the process survives without power: %v", proc)
		}
	}
	if err := k.StartNode(t.Context(), pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	again := awaitPod(t, p, ns, "s", "is back", restarted(1))
	if again.Status.PodIP != pod.Status.PodIP || again.UID != pod.UID {
		t.Errorf("it moved from %s to %s", pod.Status.PodIP, again.Status.PodIP)
	}
}
