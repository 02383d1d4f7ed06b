package kube_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
)

// The chart gives the rights that the operator needs, those for moved coordinators only where they are asked for.
func TestTheChartGivesTheRights(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/chart/templates/_rules.tpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range append(append(kube.Rules(), kube.NodeRules()...), kube.ShellRules()...) {
		group := `""`
		if rule.APIGroups[0] != "" {
			group = rule.APIGroups[0]
		}
		want := fmt.Sprintf("- apiGroups: [%s]\n  resources: [%s]\n  verbs: [%s]", group, strings.Join(rule.Resources, ", "), strings.Join(rule.Verbs, ", "))
		if !strings.Contains(string(text), want) {
			t.Errorf("the chart does not give\n%s", want)
		}
	}
}
