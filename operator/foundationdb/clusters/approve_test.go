package clusters_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// passes makes passes for some time, whatever comes of them.
func (l *life) lasts(d time.Duration) {
	l.t.Helper()
	for until := l.Now().Add(d); l.Now().Before(until); {
		l.pass()
	}
}

func (l *life) annotate(name, value string) {
	l.t.Helper()
	l.edit(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value))
}

// hash is the one that the plan of a held cluster tells.
func (l *life) hash() string {
	l.t.Helper()
	for _, e := range l.cluster().Status.Plan {
		if _, after, ok := strings.Cut(e.Remedy, foundationdb.ApproveAnnotation+" to "); ok {
			hash, _, _ := strings.Cut(after, " ")
			return hash
		}
	}
	l.fail("no entry of the plan tells a hash")
	return ""
}

// A held link decides, and does not act; an approved plan passes once.
func TestHoldAndApprove(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	l.annotate(foundationdb.HoldAnnotation, "AddProcessGroups")
	l.edit(`{"spec":{"processCounts":{"storage":4}}}`)
	l.lasts(5 * time.Minute)
	l.has("storage", 3)
	first := l.hash()

	l.annotate(foundationdb.ApproveAnnotation, "0123456789abcdef")
	l.lasts(time.Minute)
	l.has("storage", 3)
	if l.hash() != first {
		t.Error("the same plan has two hashes")
	}

	l.annotate(foundationdb.ApproveAnnotation, first)
	l.settle(time.Hour)
	l.has("storage", 4)
	if c := l.cluster(); c.Annotations[foundationdb.ApproveAnnotation] != "" {
		t.Error("the approval is still there")
	}

	l.edit(`{"spec":{"processCounts":{"storage":5}}}`)
	l.lasts(5 * time.Minute)
	l.has("storage", 4)
	if l.hash() == first {
		t.Error("another plan has the same hash")
	}
	l.edit(`{"metadata":{"annotations":{"pawl.dev/hold":null}}}`)
	l.settle(time.Hour)
	l.has("storage", 5)
}

// A cluster of another operator is left as it is until a person approves what would be done to it.
func TestTakeOver(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	l.writes(200*time.Millisecond, "7.3.69")
	pods := l.pods()
	for i := range pods {
		pod := &pods[i]
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"another"}}}`, foundationdb.SpecAnnotation)
		if err := l.As("").Objects.Patch(context.Background(), pod, []byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	c := l.cluster()
	c.Status.Conditions, c.Status.Plan, c.Status.ObservedGeneration, c.Status.Groups = nil, nil, 0, ""
	if err := l.As("").Objects.SaveStatus(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	l.restart("next")
	l.lasts(time.Hour)
	if adopted := meta.FindStatusCondition(l.cluster().Status.Conditions, clusters.TypeAdopted); adopted == nil || adopted.Status != metav1.ConditionFalse {
		l.fail("it was taken over: %v", adopted)
	}
	for _, pod := range l.pods() {
		if pod.Annotations[foundationdb.SpecAnnotation] != "another" {
			l.fail("%s was made anew", pod.Name)
		}
	}

	l.annotate(foundationdb.ApproveAnnotation, l.hash())
	l.settle(6 * time.Hour)
	if c := l.cluster(); c.Annotations[clusters.AdoptedAnnotation] == "" {
		t.Error("the take-over is not recorded")
	}
	for _, pod := range l.pods() {
		if pod.Annotations[foundationdb.SpecAnnotation] == "another" {
			l.fail("%s is as it was", pod.Name)
		}
	}
	l.kept()
}

func (l *life) pods() []corev1.Pod {
	l.t.Helper()
	var list corev1.PodList
	if err := l.As("").Objects.List(context.Background(), &list, namespace, nil); err != nil {
		l.t.Fatal(err)
	}
	return list.Items
}

// A status that another program changes ends all work on the cluster until a person has looked at it.
func TestTwoOperators(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	c := l.cluster()
	c.Status.RunningVersion = "7.1.1"
	if err := l.As("").Objects.SaveStatus(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	l.edit(`{"spec":{"processCounts":{"storage":4}}}`)
	l.lasts(10 * time.Minute)
	l.has("storage", 3)
	if l.last.Reason() != clusters.TwoOperators.Reason() {
		l.fail("it says %s", l.last)
	}
	l.annotate(clusters.AdoptedAnnotation, "looked at")
	l.settle(time.Hour)
	l.has("storage", 4)
}
