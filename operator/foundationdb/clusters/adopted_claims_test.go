package clusters_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// The published operator does not name claims by their template. Its groups keep theirs, also when a pod is made
// anew; a new group has the name of the template.
func TestTakeOverOfNamedClaims(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	c := l.cluster()
	c.Status.Conditions, c.Status.Plan, c.Status.ObservedGeneration, c.Status.Groups = nil, nil, 0, ""
	if err := l.As("").Objects.SaveStatus(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	l.edit(`{"spec":{"processes":{"general":{"volumeClaimTemplate":{"metadata":{"name":"disk"},"spec":{}}}}}}`)
	l.restart("next")
	l.writes(200*time.Millisecond, "7.3.69")
	before := map[string]types.UID{}
	for _, pod := range l.pods() {
		before[pod.Name] = pod.UID
	}
	l.settle(time.Hour)
	for _, pod := range l.pods() {
		if pod.UID != before[pod.Name] {
			l.fail("%s was made anew", pod.Name)
		}
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: l.podOfClass("storage")}}
	if found, err := l.As("").Objects.Get(context.Background(), pod); err != nil || !found {
		t.Fatal(found, err)
	}
	if err := l.As("").Objects.Delete(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	l.edit(`{"spec":{"processCounts":{"storage":4}}}`)
	l.settle(time.Hour)
	l.has("storage", 4)
	var claims corev1.PersistentVolumeClaimList
	if err := l.As("").Objects.List(context.Background(), &claims, namespace, nil); err != nil {
		t.Fatal(err)
	}
	suffixes := map[string]int{}
	for _, claim := range claims.Items {
		suffixes[claim.Name[len(claim.Name)-5:]]++
	}
	if suffixes["-disk"] != 1 || suffixes["-data"] != len(claims.Items)-1 {
		l.fail("claims: %v", suffixes)
	}
	l.kept()
}

func (l *life) podOfClass(class v1beta2.ProcessClass) string {
	for _, pod := range l.pods() {
		if pod.Labels["foundationdb.org/fdb-process-class"] == string(class) {
			return pod.Name
		}
	}
	l.t.Fatalf("no pod of class %s", class)
	return ""
}
