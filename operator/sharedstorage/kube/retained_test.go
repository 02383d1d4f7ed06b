package kube

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The claim that a deleted cluster has left is taken over only where the new cluster of its name says
// so, by adoptClaims or by the name of the claim. The claim that a writer leaves within the life of its
// cluster goes to the next writer, as ever.
func TestARetainedClaimIsAdoptedOnlyWhereItIsAskedFor(t *testing.T) {
	g := newFixture(t)
	g.ensure(port.Volume{Size: gi})
	g.instance("blue-1-a", port.Writer)
	g.must(g.Storage().Grant(t.Context(), blue, "blue-1-a", 1))
	remove := func(c port.Ref, name string) {
		t.Helper()
		g.must(g.Instances().Remove(t.Context(), c, name))
		pod := &corev1.Pod{}
		if err := g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: name}, pod); err == nil {
			g.must(g.o.Client.Delete(t.Context(), pod))
		}
	}
	remove(blue, "blue-1-a")
	g.instance("blue-1-b", port.Writer)
	if claim := g.claimOf("blue-1-a"); claim.Labels[InstanceLabel] != "blue-1-b" {
		t.Fatalf("the next writer has not the claim of the first: %v", claim.Labels)
	}
	g.must(g.Storage().Grant(t.Context(), blue, "blue-1-b", 2))
	remove(blue, "blue-1-b")
	g.must(g.Storage().Release(t.Context(), blue, true))

	again := port.Ref{Namespace: blue.Namespace, Name: blue.Name, UID: string(types.UID("another"))}
	_, err := g.Storage().Ensure(t.Context(), again, port.Volume{Size: gi}, "key")
	refused(t, "a new cluster", err, port.ClaimRetained)
	_, err = g.Storage().Clone(t.Context(), again, again, "key")
	if err == nil {
		t.Error("a clone over a retained claim")
	}
	v, err := g.Storage().Ensure(t.Context(), again, port.Volume{Size: gi, Adopt: true}, "key")
	g.must(err)
	if !slices.Equal(v.Adopted, []string{"blue-1-a"}) {
		t.Errorf("adopted is %v", v.Adopted)
	}
	if v, err = g.Storage().Ensure(t.Context(), again, port.Volume{Size: gi}, "key"); err != nil || v.Adopted != nil {
		t.Errorf("once it has begun: %v, %v", v.Adopted, err)
	}
	if _, err := g.Instances().Ensure(t.Context(), again, port.Instance{Name: "blue-1-c", ID: "1", Type: port.Writer, Version: "15"}); err != nil {
		t.Fatal(err)
	}
	if claim := g.claimOf("blue-1-a"); claim.Labels[InstanceLabel] != "blue-1-c" {
		t.Errorf("the new writer has not the claim: %v", claim.Labels)
	}
}

// Every container of a pod has requests and a limit of memory, so that a quota admits it.
func TestAllContainersHaveResources(t *testing.T) {
	g := newFixture(t)
	pod, err := g.pod(blue, port.Instance{Name: "blue-1-a", ID: "1", Type: port.Writer, Class: port.Class{CPU: 250, Memory: gi}}, "blue-1-a")
	g.must(err)
	d, err := (&Managers{g.Placement}).deployment(blue, port.ManagerSpec{}, "")
	g.must(err)
	for _, spec := range []corev1.PodSpec{pod.Spec, d.Spec.Template.Spec} {
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			r := c.Resources
			if r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() || r.Limits.Memory().IsZero() {
				t.Errorf("container %s has %+v", c.Name, r)
			}
		}
	}
}
