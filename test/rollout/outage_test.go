package rollout_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/rollouttest"
)

// TestAPIServerAway: the API server is away for a minute in each state. No deadline counts that, the
// rollout goes on where it was, and ends as if nothing had been.
func TestAPIServerAway(t *testing.T) {
	for _, name := range rollouttest.Sample(stages, "outage", 4) {
		s := stages[name]
		if s.end == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, proxy := proxied(t)
			c := &rollouttest.Clock{}
			w.Options.Now = c.Now
			w.Witness.Grace = time.Minute // the operator sees late what has fallen
			w.startBehind(proxy)
			set := map[bool]string{true: "ordered", false: "db"}[name == "verifying"]
			s.prepare(w, set, "batchDeadline: 45s\nonFailure: rollback\nrollback: {deadline: 45s}")
			back := w.CutOff(proxy, map[bool]string{true: "rollouts", false: "pods"}[name == "parked" || name == "verifying" || name == "initializing"])
			c.Forward(time.Minute)
			back()
			w.see(set)
			if r := w.now(set); r.Status.Pause != nil || r.Status.Rollback != nil && name != "rollingBack" {
				t.Errorf("it was charged for the outage: %+v, %+v", r.Status.Pause, r.Status.Rollback)
			}
			s.goOn(w, set)
			w.is(set, s.end, metav1.ConditionTrue)
			if r := w.now(set); r.Status.Pause != nil || r.Status.Rollback != nil && name != "rollingBack" {
				t.Errorf("it was charged for the outage: %+v, %+v", r.Status.Pause, r.Status.Rollback)
			}
		})
	}
}
