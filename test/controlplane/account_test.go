package controlplane_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// programs starts nodes of one test that run its server and its shell.
func programs(t *testing.T, p *controlplane.Plane, name string, o kubelet.Options) *kubelet.Kubelet {
	t.Helper()
	program := must(os.Executable())(t)
	o.Mode, o.Nodes = kubelet.Process, 1
	o.Images = map[string]kubelet.Image{
		"server:test": {Command: []string{program}, Env: map[string]string{"TEST_SERVER": "1"}},
		"shell:test":  {Command: []string{"sh"}},
	}
	return extra(t, p, name, o)
}

// As root, rest.InClusterConfig works in a pod, with a token that is replaced; a file at the
// path is seen by that pod alone, and by its probes.
func TestPodHasItsServiceAccountWhereClientsLook(t *testing.T) {
	if err := kubelet.CanMount(); err != nil {
		t.Skip("no mount namespaces: ", err)
	}
	p := suite.Plane(t)
	ns := p.Namespace(t)
	k := programs(t, p, "account", kubelet.Options{InCluster: true, TokenAge: 2 * time.Second})
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	create(t, p, ns, on("account", server("s", func(s *corev1.PodSpec, c *corev1.Container) {
		s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr[int64](12345), RunAsGroup: ptr[int64](2345), SupplementalGroups: []int64{345}}
		c.StartupProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "test -e /var/run/secrets/kubernetes.io/service*/ca.crt"}}}}
	})))
	pod := awaitPod(t, p, ns, "s", "is Ready", podReady)
	for range 2 {
		who := call(t, pod, "GET", "/whoami", nil)
		if want := "system:serviceaccount:" + ns + ":default in " + ns; who != want {
			t.Errorf("it is %q, not %q", who, want)
		}
		before := call(t, pod, "GET", "/file", url.Values{"path": {dir + "/token"}})
		eventually(t, "another token", func(context.Context) error {
			if call(t, pod, "GET", "/file", url.Values{"path": {dir + "/token"}}) == before {
				return fmt.Errorf("it is the same")
			}
			return nil
		})
	}
	me := describeSelf(t, pod)
	if me.UID != 12345 {
		t.Errorf("it runs as %d", me.UID)
	}
	for _, v := range me.Env {
		if strings.HasPrefix(v, "KUBECONFIG=") {
			t.Errorf("it has %s", v)
		}
	}
	if _, err := os.Stat(dir + "/token"); err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		t.Error("the test sees the token of the pod")
	}
	if out, err := k.Exec(t.Context(), ns, "s", "", "sh", "-c", "cat /var/run/secrets/kubernetes.io/service*/namespace"); string(out) != ns {
		t.Errorf("exec sees %q (%v)", out, err)
	}
}

// A running pod sees a changed ConfigMap after the delay, and one that starts at once.
func TestFilesOfConfigMapsAreLate(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	const delay = 3 * time.Second
	k := programs(t, p, "late", kubelet.Options{FileDelay: delay})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "one"}}
	must(p.Client().CoreV1().ConfigMaps(ns).Create(t.Context(), config, metav1.CreateOptions{}))(t)
	mount := func(s *corev1.PodSpec, c *corev1.Container) {
		s.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "c", MountPath: "/config"}}
	}
	sees := func(name string) string {
		text, err := os.ReadFile(k.Root(ns, name, "main") + "/config/k")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	change := func(to string) time.Time {
		config.Data["k"] = to
		began := time.Now()
		must(p.Client().CoreV1().ConfigMaps(ns).Update(t.Context(), config, metav1.UpdateOptions{}))(t)
		return began
	}
	create(t, p, ns, on("late", server("s", mount)))
	awaitPod(t, p, ns, "s", "is Ready", podReady)
	if sees("s") != "one" {
		t.Errorf("it begins with %q", sees("s"))
	}
	began := change("two")
	create(t, p, ns, on("late", shell("young", "grep two /config/k", mount)))
	awaitPod(t, p, ns, "young", "sees the new one", phase(corev1.PodSucceeded))
	until := func(want string) func(context.Context) error {
		return func(context.Context) error {
			if got := sees("s"); got != want {
				return fmt.Errorf("it sees %q", got)
			}
			return nil
		}
	}
	eventually(t, "the change", until("two"))
	if took := time.Since(began); took < delay {
		t.Errorf("it saw the change after %s", took)
	}
	k.SetFileDelay(0)
	change("three")
	eventually(t, "the next change", until("three"))
}
