package rollout

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// TestProbeThresholds: attempts in a row count, and failures only when the pod was ready once.
func TestProbeThresholds(t *testing.T) {
	probe := rollout.Probe{FailureThreshold: 2, SuccessThreshold: 2}
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		attempts string // r: the pod is ready; +: a success; -: a failure
		want     rollout.ProbeFacts
	}{
		"it starts":                {"-----", rollout.ProbeFacts{Value: "connection refused"}},
		"it starts, and is ready":  {"-----r-", rollout.ProbeFacts{Value: "connection refused"}},
		"it fails when it is":      {"---r--", rollout.ProbeFacts{Failed: true, Value: "connection refused"}},
		"it passes":                {"--r++", rollout.ProbeFacts{Passing: true, Value: "1"}},
		"one success":              {"r-+", rollout.ProbeFacts{Value: "1"}},
		"one failure of two":       {"r++-", rollout.ProbeFacts{Passing: true, Value: "1"}},
		"it fails later":           {"r++--", rollout.ProbeFacts{Failed: true, Value: "connection refused"}},
		"it passes once too early": {"++-", rollout.ProbeFacts{Value: "connection refused"}},
	} {
		var s probing
		at := time.Unix(0, 0)
		for _, attempt := range c.attempts {
			switch at = at.Add(time.Second); attempt {
			case 'r':
				s.ready = true
			case '+':
				s.result(probe, "1", nil, at)
			case '-':
				s.result(probe, "", down, at)
			}
		}
		if s.facts.At.IsZero() {
			t.Errorf("%s: no time", name)
		}
		s.facts.At = time.Time{}
		if s.facts != c.want {
			t.Errorf("%s: %+v, expected %+v", name, s.facts, c.want)
		}
	}
}
