package kube

import (
	"testing"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// A suspended instance keeps its claim and gets no pod from anybody, until it is ensured again.
func TestSuspendKeepsTheClaim(t *testing.T) {
	g, made := recreatable(t)
	claim := g.claimOf("blue-2")
	for range 2 {
		_, err := g.Instances().Suspend(t.Context(), blue, "blue-2")
		g.must(err)
	}
	for range 2 {
		g.must(g.Revive(t.Context(), blue, func(reason, format string, _ ...any) {
			if reason == "PodRestored" {
				t.Errorf("it is told as lost: %s", format)
			}
		}))
		g.must(g.Restore(t.Context(), blue, nil))
	}
	if pod := g.podOf("blue-2"); pod != nil {
		t.Fatalf("it has the pod %s", pod.UID)
	}
	all, err := g.Instances().List(t.Context(), blue)
	g.must(err)
	if len(all) != 1 || all[0].State != port.Suspended || all[0].ID != "2" || all[0].Type != port.Reader || all[0].Class.Name != made.Class.Name {
		t.Errorf("it is %+v", all)
	}
	if now := g.claimOf("blue-2"); now.UID != claim.UID || now.DeletionTimestamp != nil {
		t.Errorf("the claim is %+v", now)
	}
	_, err = g.Instances().Ensure(t.Context(), blue, made)
	g.must(err)
	if g.podOf("blue-2") == nil || g.claimOf("blue-2").Annotations[suspendedAnnotation] != "" {
		t.Error("it has no pod again")
	}
}

// One that is recreated while it is suspended gets a pod as it is wanted now, and never one of before.
func TestRecreateOfASuspendedInstance(t *testing.T) {
	g, made := recreatable(t)
	_, err := g.Instances().Suspend(t.Context(), blue, "blue-2")
	g.must(err)
	want := made
	want.Class, want.Template = port.Class{Name: "large", CPU: 2000, Memory: 4 << 30}, "second"
	_, err = g.Instances().Recreate(t.Context(), blue, want)
	g.must(err)
	if pod := g.podOf("blue-2"); pod == nil || pod.Spec.Containers[0].Resources.Requests.Memory().Value() != 4<<30 {
		t.Errorf("the pod is %+v", pod)
	}
	if g.claimOf("blue-2").Annotations[suspendedAnnotation] != "" {
		t.Error("it is suspended still")
	}
	g.must(g.Instances().Remove(t.Context(), blue, "blue-2"))
	if _, err := g.Instances().Suspend(t.Context(), blue, "blue-9"); err == nil {
		t.Error("one that never was is suspended")
	}
}
