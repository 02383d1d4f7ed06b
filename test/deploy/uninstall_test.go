package deploy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
)

// uninstall returns the commands of the guide, and the command that also removes the CRDs.
func uninstall(t *testing.T) (lines []string, crds string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/guide/install-kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile("(?s)\n## Uninstall\n(.*?)\n## ").FindStringSubmatch(string(page))
	if section == nil {
		t.Fatal("the guide has no section Uninstall")
	}
	block := regexp.MustCompile("(?s)\n```sh\n(.*?)```\n").FindStringSubmatch(section[1])
	inline := regexp.MustCompile("`(kubectl delete crd [^`]*)`").FindStringSubmatch(section[1])
	if block == nil || inline == nil {
		t.Fatalf("the guide has no commands:\n%s", section[1])
	}
	return strings.Split(strings.TrimSpace(block[1]), "\n"), inline[1]
}

// shell runs a command line at the root of the repository.
func (h *fixture) shell(line string) (string, error) {
	h.t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.plane.Kubeconfig(), "PATH="+filepath.Dir(h.plane.Binaries.Kubectl)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The commands of "Uninstall" in the guide delete the clusters and the operator, and leave
// the CRDs and other objects.
func TestUninstall(t *testing.T) {
	lines, crds := uninstall(t)
	h := installManifest(t)
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "mine"}}
	if err := h.client.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	h.kubectl("apply", "-f", "../../examples/sharedstorage/cluster.yaml", "-f", "../../examples/sharedstorage/mpdcluster.yaml")
	for _, name := range []string{"ssc/orders", "mpdcluster/polar"} {
		h.await(2*time.Minute, name+" waits for the operator when it goes", func(context.Context) error {
			out, err := h.try("get", name, "-o", "jsonpath={.metadata.finalizers}")
			if err == nil && !strings.Contains(out, "pawl.dev") {
				err = errors.New("its finalizers are " + out)
			}
			return err
		})
	}

	typed := 0
	for _, line := range lines {
		if !strings.HasPrefix(line, "kubectl ") {
			if !strings.HasPrefix(line, "helm uninstall ") {
				t.Errorf("who types %q?", line)
			}
			continue
		}
		typed++
		h.step(line, func() {
			if out, err := h.shell(line); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		})
	}
	if typed < 2 {
		t.Fatalf("the guide says %q", lines)
	}
	requests, err := h.plane.Requests()
	if err != nil {
		t.Fatal(err)
	}
	forgotten = len(requests)

	objects, err := deploy.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var stay []string
	for _, u := range objects {
		err := h.client.Get(t.Context(), client.ObjectKeyFromObject(u), u)
		crd := u.GetKind() == "CustomResourceDefinition"
		if crd {
			stay = append(stay, "customresourcedefinition.apiextensions.k8s.io/"+u.GetName())
		}
		if crd && err != nil || !crd && !apierrors.IsNotFound(err) {
			t.Errorf("%s %s afterwards: %v", u.GetKind(), u.GetName(), err)
		}
	}
	if n := h.plane.Kubelet.Pods(deploy.Namespace); n != 0 {
		t.Errorf("%d operators still run", n)
	}
	var clusters v1alpha1.SharedStorageClusterList
	if err := h.client.List(t.Context(), &clusters); err != nil || len(clusters.Items) > 0 {
		t.Errorf("%d clusters are left, %v", len(clusters.Items), err)
	}
	if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(mine), mine); err != nil {
		t.Errorf("a person's ConfigMap: %v", err)
	}
	out, err := h.shell(crds + " --dry-run=server -o name")
	names := strings.Fields(out)
	if slices.Sort(names); err != nil || !slices.Equal(names, slices.Sorted(slices.Values(stay))) {
		t.Errorf("%s would delete %v (%v), want %v", crds, names, err, stay)
	}
}
