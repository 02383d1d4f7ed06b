package application

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestStandings: Applications are counted by state; one that is gone is not counted.
func TestStandings(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	stands := func(name string, complete, ready metav1.ConditionStatus) {
		m.stands(types.NamespacedName{Name: name}, stateOf([]metav1.Condition{{Type: RolloutComplete, Status: complete}, {Type: Ready, Status: ready}}))
	}
	stands("a", metav1.ConditionFalse, metav1.ConditionFalse)
	stands("b", metav1.ConditionTrue, metav1.ConditionFalse)
	stands("c", metav1.ConditionTrue, metav1.ConditionTrue)
	stands("d", metav1.ConditionUnknown, metav1.ConditionUnknown)
	stands("a", metav1.ConditionTrue, metav1.ConditionTrue)
	m.stands(types.NamespacedName{Name: "d"}, "")
	const want = `
# HELP pawl_application_applications Applications by state.
# TYPE pawl_application_applications gauge
pawl_application_applications{state="changing"} 0
pawl_application_applications{state="reached"} 1
pawl_application_applications{state="ready"} 2
pawl_application_applications{state="unknown"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "pawl_application_applications"); err != nil {
		t.Error(err)
	}
}
