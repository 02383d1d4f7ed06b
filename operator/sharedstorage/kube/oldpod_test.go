package kube

import (
	"testing"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// A pod of an older operator does not say how it was made: it is recreated, and not taken for what
// the claim has just recorded.
func TestRecreateAPodOfAnOlderOperator(t *testing.T) {
	g, made := recreatable(t)
	pod := g.podOf("blue-2")
	delete(pod.Annotations, wantAnnotation)
	g.must(g.o.Client.Update(t.Context(), pod))
	want := made
	want.Class, want.Template = port.Class{Name: "large"}, "second"
	for range 2 {
		_, err := g.Instances().Recreate(t.Context(), blue, want)
		g.must(err)
	}
	if now := g.podOf("blue-2"); now.UID == pod.UID {
		t.Error("the former pod runs on")
	}
}
