package kube

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

func nodeOn(name, zone string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

// The spread of instances is required where the nodes have two values of its key, and never holds
// back a pod otherwise.
func TestTheSpreadIsRequiredWhereItCanBe(t *testing.T) {
	two := []client.Object{nodeOn("node-2", "a", corev1.ConditionTrue), nodeOn("node-3", "b", corev1.ConditionTrue)}
	for name, c := range map[string]struct {
		nodes  []client.Object
		anyway bool
		bound  bool
		node   map[string]string
		want   corev1.UnsatisfiableConstraintAction
	}{
		"two zones":                          {two, false, false, nil, corev1.DoNotSchedule},
		"two zones, one is asked for":        {two, false, false, map[string]string{"zone": "a"}, corev1.ScheduleAnyway},
		"two zones, not required":            {two, true, false, nil, corev1.ScheduleAnyway},
		"two zones, the volume is in one":    {two, false, true, nil, corev1.ScheduleAnyway},
		"one zone":                           {two[:1:1], false, false, nil, corev1.ScheduleAnyway},
		"the other zone does not answer":     {[]client.Object{two[0], nodeOn("node-3", "b", corev1.ConditionFalse)}, false, false, nil, corev1.ScheduleAnyway},
		"nodes without the key do not count": {nil, false, false, nil, corev1.ScheduleAnyway},
	} {
		g := newFixture(t, c.nodes...)
		pod := &corev1.Pod{}
		g.must(g.spread(t.Context(), blue, pod, port.Instance{Spread: "zone", SpreadAnyway: c.anyway, NodeSelector: c.node}, c.bound))
		rules := pod.Spec.TopologySpreadConstraints
		if len(rules) != 1 || rules[0].WhenUnsatisfiable != c.want || *rules[0].NodeTaintsPolicy != corev1.NodeInclusionPolicyHonor || pod.Spec.Affinity.PodAntiAffinity == nil {
			t.Errorf("%s: %+v", name, rules)
		}
	}
}

// A claim that somebody deletes under a running instance is reported; one of an instance that is
// being removed is not.
func TestAClaimIsBeingDeleted(t *testing.T) {
	g := newFixture(t)
	g.ensure(port.Volume{Size: gi})
	g.instance("blue-2-b", port.Reader)
	g.bind("blue-2-b", "1Gi")
	g.start(blue, "blue-2-b", corev1.PodRunning)
	claim := g.claimOf("blue-2-b")
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	g.must(g.o.Client.Update(t.Context(), claim))
	observe := func(state port.VolumeState, message string) {
		t.Helper()
		v, err := g.Storage().Observe(t.Context(), blue)
		if err != nil || v.State != state || !strings.Contains(v.Message, message) {
			t.Errorf("%s %q, %v", v.State, v.Message, err)
		}
	}
	observe(port.VolumeReady, "")
	g.must(g.o.Client.Delete(t.Context(), claim))
	observe(port.VolumeTerminating, fmt.Sprintf("claim %s is being deleted", claim.Name))
	g.must(g.Instances().Remove(t.Context(), blue, "blue-2-b"))
	observe(port.VolumeReady, "")
}
