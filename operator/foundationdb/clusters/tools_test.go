package clusters_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// An upgrade to a version without tools does not begin: nobody could hear the database after it. All else goes on.
func TestUpgradeWithoutTools(t *testing.T) {
	t.Parallel()
	l := begin(t, sim.Options{Tools: []string{"7.3"}}, nil)
	l.settle(30 * time.Minute)
	l.edit(`{"spec":{"version":"7.4.6","processCounts":{"storage":4}}}`)
	l.lasts(time.Hour)
	l.has("storage", 4)
	runs("7.3.69")(l)
	blocked := meta.FindStatusCondition(l.cluster().Status.Conditions, clusters.TypeUpgradeBlocked)
	if blocked == nil || blocked.Status != metav1.ConditionTrue || blocked.Reason != port.ToolsMissing.Reason() {
		l.fail("%v", blocked)
	}
	if l.last.Reason() != port.ToolsMissing.Reason() {
		l.fail("it waits for %s", l.last)
	}
	for _, pod := range l.pods() {
		for _, c := range pod.Spec.Containers {
			if c.Image != "foundationdb/fdb-kubernetes-monitor:7.3.69" {
				l.fail("%s has the image %s", pod.Name, c.Image)
			}
		}
	}
	l.edit(`{"spec":{"version":"7.3.69"}}`)
	l.settle(time.Hour)
}

// A cluster whose version has no tools says so.
func TestNoTools(t *testing.T) {
	t.Parallel()
	l := begin(t, sim.Options{Tools: []string{"7.4"}}, nil)
	l.lasts(10 * time.Minute)
	ready := meta.FindStatusCondition(l.cluster().Status.Conditions, clusters.TypeAvailable)
	if ready == nil || ready.Status != metav1.ConditionUnknown || ready.Reason != port.ToolsMissing.Reason() {
		l.fail("%v", ready)
	}
}
