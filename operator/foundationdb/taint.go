package foundationdb

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TaintConditions judges the taints of a group's node: detected, as the spec names one of them, and replacing, as
// one has been there for longer than the spec says. The option with the taint's key goes before that with *. A taint
// counts from its timeAdded; one that has none (only those with NoExecute have) counts from when it was first seen:
// the time of the group's condition NodeTaintDetected, or zero if it has none.
func TaintConditions(spec v1beta2.FoundationDBClusterSpec, node *corev1.Node, seen, now time.Time) (detected, replacing bool) {
	if node == nil {
		return false, false
	}
	options := map[string]int64{}
	for _, o := range spec.AutomationOptions.Replacements.TaintReplacementOptions {
		if _, twice := options[o.Key]; !twice {
			options[o.Key] = o.DurationInSeconds
		}
	}
	if seen.IsZero() {
		seen = now
	}
	for _, taint := range node.Spec.Taints {
		duration, named := options[taint.Key]
		if !named {
			duration, named = options["*"]
		}
		if !named || taint.Key == "" || duration < 0 {
			continue
		}
		since := seen
		if taint.TimeAdded != nil && !taint.TimeAdded.IsZero() {
			since = taint.TimeAdded.Time
		}
		detected = true
		replacing = replacing || now.Unix()-since.Unix() > duration // no time.Duration holds the largest one
	}
	return detected, replacing
}
