package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// As root, pods find each other by the names that a cluster gives them: those that are not ready only
// when the Service says so.
func TestPodsFindEachOtherByName(t *testing.T) {
	if err := kubelet.CanMount(); err != nil {
		t.Skip("no mount namespaces: ", err)
	}
	p := suite.Plane(t)
	ns := p.Namespace(t)
	k := programs(t, p, "names", kubelet.Options{DNS: true})
	for name, early := range map[string]bool{"early": true, "ready": false} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: early, Selector: map[string]string{"group": name},
		}}
		if _, err := p.Client().CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := on("names", shell("one-"+name, "exec sleep 1000", func(s *corev1.PodSpec, c *corev1.Container) {
			s.Hostname, s.Subdomain = "one", name
			c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", "up"}}}}
		}))
		pod.Labels = map[string]string{"group": name}
		create(t, p, ns, pod)
	}
	address := map[string]string{}
	for _, name := range []string{"early", "ready"} {
		pod := awaitPod(t, p, ns, "one-"+name, "runs", func(pod *corev1.Pod) bool {
			return pod.Status.PodIP != "" && pod.Status.ContainerStatuses[0].State.Running != nil
		})
		address[name] = pod.Status.PodIP
	}
	lookup := func(name string) string {
		all, err := k.Resolver().LookupHost(t.Context(), name+"."+ns+".svc.cluster.local")
		if err != nil {
			return "none"
		}
		return strings.Join(all, " ")
	}
	for name, want := range map[string]string{"one.early": address["early"], "early": address["early"], "one.ready": "none", "two.early": "none", "nobody": "none"} {
		eventually(t, name+" is "+want, func(context.Context) error {
			if got := lookup(name); got != want {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
	}
	if out, err := k.Exec(t.Context(), ns, "one-early", "main", "touch", "up"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := k.Exec(t.Context(), ns, "one-ready", "main", "touch", "up"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eventually(t, "a pod resolves the name of another one that is ready", func(ctx context.Context) error {
		out, err := k.Exec(ctx, ns, "one-early", "main", "getent", "hosts", "one.ready")
		if err != nil || !strings.HasPrefix(string(out), address["ready"]+" ") {
			return fmt.Errorf("%q: %w", out, err)
		}
		return nil
	})
}
