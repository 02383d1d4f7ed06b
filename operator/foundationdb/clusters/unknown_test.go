package clusters_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// Each field of the spec that nobody knows is named by its path. It is looked for once a generation, and a pass over a
// settled cluster makes no more calls than it did.
func TestUnknownFieldsAreTold(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	ignored := func(status, message string) {
		t.Helper()
		c := meta.FindStatusCondition(l.cluster().Status.Conditions, clusters.TypeFieldsIgnored)
		if c == nil || string(c.Status) != status || message != "" && c.Message != message {
			l.fail("FieldsIgnored: %v, want %s %s", c, status, message)
		}
	}
	ignored("False", "")
	l.edit(`{"spec":{"wings":{"count":2},"automationOptions":{"fly":true,"useManagementAPI":true},"processes":{"log":{"colour":"red"}}}}`)
	l.settle(time.Hour)
	ignored("True", "spec.automationOptions.fly, spec.automationOptions.useManagementAPI, spec.processes.log.colour, spec.wings")

	l.ResetCalls()
	l.pass()
	total := 0
	for call, n := range l.Calls() {
		if call.Verb == "UnknownFields" {
			t.Errorf("it is asked again: %v", call)
		}
		if call.Verb == "Get" || call.Verb == "List" {
			total += n
		}
	}
	if total != 5 {
		t.Errorf("%d calls in a steady pass: %v", total, l.Calls())
	}

	l.restart("next")
	l.edit(`{"spec":{"wings":null,"processes":null,"automationOptions":{"fly":null,"useManagementAPI":null}}}`)
	l.settle(time.Hour)
	ignored("False", "")
}
