package clusters_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// told are the messages of Events with a reason.
func (l *life) told(reason string) (messages []string) {
	for _, e := range l.Events() {
		if e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// The CRD of another operator keeps none of the fields that are ours: an Event says so, a settled cluster is not
// written again and again, and neither this operator nor its successor takes the cluster for another's.
func TestStatusOfAnotherCRD(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.Prune("observedGeneration", "groups", "conditions", "plan")
	l.settle(30 * time.Minute)
	events := strings.Join(l.told(clusters.StatusPruned.Reason()), "\n")
	for _, field := range []string{"status.observedGeneration", "status.groups", "status.conditions", "status.plan"} {
		if !strings.Contains(events, field) {
			l.fail("no Event names %s: %s", field, events)
		}
	}
	quiet := func() {
		t.Helper()
		effects, told := l.Effects(), len(l.Events())
		l.lasts(10 * time.Minute)
		if n := l.Effects() - effects; n != 0 || len(l.Events()) != told {
			l.fail("a settled cluster has %d effects, and %d Events", n, len(l.Events())-told)
		}
	}
	quiet()

	l.restart("next")
	l.lasts(3 * time.Minute) // it learns what is dropped
	quiet()
	l.edit(`{"spec":{"version":"7.3.79"}}`)
	l.settle(2 * time.Hour)
	for _, pod := range l.pods() {
		if !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return strings.Contains(s.Image, "7.3.79") }) {
			l.fail("%s was not made anew: the cluster is held as another's", pod.Name)
		}
	}
	if e := l.told(clusters.TwoOperators.Reason()); len(e) > 0 {
		l.fail("%s", e)
	}

	l.Prune()
	l.edit(`{"spec":{"processCounts":{"storage":4}}}`)
	l.settle(time.Hour)
	if c := l.cluster(); len(c.Status.Conditions) == 0 || c.Status.ObservedGeneration == 0 {
		l.fail("the status is still without what the new CRD keeps")
	}
}

// A CRD that keeps conditions has one that names what it drops, until it is replaced.
func TestStatusOfAnOlderCRD(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.Prune("plan")
	l.settle(30 * time.Minute)
	c := meta.FindStatusCondition(l.cluster().Status.Conditions, clusters.TypeStatusPruned)
	if c == nil || c.Status != "True" || !strings.Contains(c.Message, "status.plan") {
		l.fail("condition: %v", c)
	}
	if n := len(l.told(clusters.StatusPruned.Reason())); n != 1 {
		l.fail("told %d times", n)
	}
	l.Prune()
	l.restart("next")
	l.edit(`{"spec":{"processCounts":{"storage":4}}}`)
	l.settle(time.Hour)
	if c := meta.FindStatusCondition(l.cluster().Status.Conditions, clusters.TypeStatusPruned); c == nil || c.Status != "False" {
		l.fail("condition after the CRD was replaced: %v", c)
	}
}

// The plan of a take-over is told by an Event where the status cannot.
func TestTakeOverUnderAnotherCRD(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	c := l.cluster()
	c.Status.Conditions, c.Status.Plan, c.Status.ObservedGeneration, c.Status.Groups = nil, nil, 0, ""
	l.Prune("observedGeneration", "groups", "conditions", "plan")
	if err := l.As("").Objects.SaveStatus(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l.restart("next")
	l.edit(`{"spec":{"processes":{"general":{"podTemplate":{"spec":{"priorityClassName":"high"}}}}}}`)
	l.lasts(30 * time.Minute)
	told := l.told("ApprovalMissing")
	if len(told) == 0 {
		l.fail("no Event tells the hash of the plan")
	}
	_, hash, _ := strings.Cut(told[len(told)-1], ": ")
	hash, _, _ = strings.Cut(strings.TrimPrefix(hash, "the annotation pawl.dev/approve: "), " ")
	for _, pod := range l.pods() {
		if pod.Spec.PriorityClassName != "" {
			l.fail("%s was made anew before the approval", pod.Name)
		}
	}
	l.annotate("pawl.dev/approve", hash)
	l.settle(6 * time.Hour)
	for _, pod := range l.pods() {
		if pod.Spec.PriorityClassName != "high" {
			l.fail("%s is as it was", pod.Name)
		}
	}
}
