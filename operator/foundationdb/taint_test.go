package foundationdb

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTaintConditions(t *testing.T) {
	const options = `automationOptions: {replacements: {taintReplacementOptions: [{key: "*", durationInSeconds: 3600}, {key: exact, durationInSeconds: 60}, {key: never, durationInSeconds: 9223372036854775807}]}}`
	now := time.Unix(1_000_000, 0)
	ago := func(seconds int64) *metav1.Time { return at(now.Unix() - seconds) }
	for _, row := range []struct {
		name, spec          string
		taints              []corev1.Taint
		seen                time.Time
		detected, replacing bool
	}{
		{name: "no option", spec: `{}`, taints: []corev1.Taint{{Key: "a", TimeAdded: ago(9999)}}},
		{name: "no taint", spec: options},
		{name: "a taint without key", spec: options, taints: []corev1.Taint{{TimeAdded: ago(9999)}}},
		{name: "any key, at once", spec: options, taints: []corev1.Taint{{Key: "a", TimeAdded: ago(0)}}, detected: true},
		{name: "any key, its time just not over", spec: options, taints: []corev1.Taint{{Key: "a", TimeAdded: ago(3600)}}, detected: true},
		{name: "any key, its time over", spec: options, taints: []corev1.Taint{{Key: "a", TimeAdded: ago(3601)}}, detected: true, replacing: true},
		{name: "the exact key is shorter, just not over", spec: options, taints: []corev1.Taint{{Key: "exact", TimeAdded: ago(60)}}, detected: true},
		{name: "the exact key is shorter, over", spec: options, taints: []corev1.Taint{{Key: "exact", TimeAdded: ago(61)}}, detected: true, replacing: true},
		{name: "the exact key is longer", spec: options, taints: []corev1.Taint{{Key: "never", TimeAdded: ago(999_999)}}, detected: true},
		{name: "one of two is over", spec: options, taints: []corev1.Taint{{Key: "never", TimeAdded: ago(9999)}, {Key: "exact", TimeAdded: ago(61)}}, detected: true, replacing: true},
		{name: "the time of one is not that of another", spec: options, taints: []corev1.Taint{{Key: "a", TimeAdded: ago(3000)}, {Key: "exact", TimeAdded: ago(10)}}, detected: true},
		{name: "only another key is named", spec: `automationOptions: {replacements: {taintReplacementOptions: [{key: a, durationInSeconds: 0}]}}`, taints: []corev1.Taint{{Key: "b", TimeAdded: ago(9)}}},
		{name: "0 s, now", spec: `automationOptions: {replacements: {taintReplacementOptions: [{key: a, durationInSeconds: 0}]}}`, taints: []corev1.Taint{{Key: "a", TimeAdded: ago(0)}}, detected: true},
		{name: "0 s, then", spec: `automationOptions: {replacements: {taintReplacementOptions: [{key: a, durationInSeconds: 0}]}}`, taints: []corev1.Taint{{Key: "a", TimeAdded: ago(1)}}, detected: true, replacing: true},
		{name: "no time, never seen", spec: options, taints: []corev1.Taint{{Key: "exact"}}, detected: true},
		{name: "no time, seen just not long enough ago", spec: options, taints: []corev1.Taint{{Key: "exact"}}, seen: ago(60).Time, detected: true},
		{name: "no time, seen long ago", spec: options, taints: []corev1.Taint{{Key: "exact"}}, seen: ago(61).Time, detected: true, replacing: true},
		{name: "its time goes before when it was seen", spec: options, taints: []corev1.Taint{{Key: "exact", TimeAdded: ago(61)}}, seen: ago(1).Time, detected: true, replacing: true},
		{name: "a clock that is ahead", spec: options, taints: []corev1.Taint{{Key: "exact", TimeAdded: ago(-100)}}, detected: true},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: row.taints}}
		detected, replacing := TaintConditions(specOf(t, row.spec), node, row.seen, now)
		equal(t, row.name, [2]bool{detected, replacing}, [2]bool{row.detected, row.replacing})
	}
	if detected, replacing := TaintConditions(specOf(t, options), nil, now, now); detected || replacing {
		t.Error("a node that is not known has taints")
	}
}
