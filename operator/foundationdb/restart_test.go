package foundationdb

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestRestartRule(t *testing.T) {
	type rule = map[v1beta2.ProcessGroupConditionType]bool
	usual := rule{"IncorrectCommandLine": true, "IncorrectPodSpec": false, "SidecarUnreachable": false, "IncorrectConfigMap": false}
	conversion := rule{"IncorrectCommandLine": true, "SidecarUnreachable": false, "IncorrectConfigMap": false}
	upgrade := rule{"IncorrectCommandLine": true, "IncorrectSidecarImage": false, "IncorrectConfigMap": false}
	for text, want := range map[string]rule{
		``:                             usual,
		`status: {runningVersion: ""}`: usual,
		`status: {requiredAddresses: {tls: true}}`:                                         usual,
		`status: {requiredAddresses: {nonTLS: true}}`:                                      usual,
		`status: {requiredAddresses: {tls: true, nonTLS: true}}`:                           conversion,
		`spec: {version: 7.3.79}`:                                                          usual,
		`spec: {version: 7.4.0}`:                                                           upgrade,
		`spec: {version: 7.3.69-rc1}`:                                                      upgrade,
		`{spec: {version: 7.1.0}, status: {requiredAddresses: {tls: true, nonTLS: true}}}`: upgrade,
	} {
		equal(t, text, RestartRule(clusterOf(t, text)), want)
	}
}

func TestIgnoredAtRestart(t *testing.T) {
	now := time.Unix(10_000, 0)
	group := func(class string, conditions ...v1beta2.ProcessGroupCondition) v1beta2.ProcessGroupStatus {
		return v1beta2.ProcessGroupStatus{ProcessGroupID: v1beta2.ProcessGroupID(class + "-1"), ProcessClass: v1beta2.ProcessClass(class), ProcessGroupConditions: conditions}
	}
	condition := func(kind v1beta2.ProcessGroupConditionType, age time.Duration) v1beta2.ProcessGroupCondition {
		return v1beta2.ProcessGroupCondition{Type: kind, Timestamp: now.Add(-age).Unix()}
	}
	for _, x := range []struct {
		name string
		spec string
		g    v1beta2.ProcessGroupStatus
		want bool
	}{
		{"healthy", ``, group("log"), false},
		{"a tester", ``, group("test"), true},
		{"silent for 30 s", ``, group("log", condition("MissingProcesses", 30*time.Second)), false},
		{"silent for 31 s", ``, group("log", condition("MissingProcesses", 31*time.Second)), true},
		{"silent for 31 s, and the spec waits for 60", `automationOptions: {ignoreMissingProcessesSeconds: 60}`, group("log", condition("MissingProcesses", 31*time.Second)), false},
		{"silent for 1 s, and the spec does not wait", `automationOptions: {ignoreMissingProcessesSeconds: 0}`, group("log", condition("MissingProcesses", time.Second)), true},
		{"pending for 300 s", ``, group("log", condition("PodPending", 300*time.Second)), false},
		{"pending for 301 s", ``, group("log", condition("PodPending", 301*time.Second)), true},
		{"pending for 301 s, and the spec waits for 10 min", `automationOptions: {ignorePendingPodsDuration: 600000000000}`, group("log", condition("PodPending", 301*time.Second)), false},
		{"terminating", ``, group("log", condition("ResourcesTerminating", 0)), true},
		{"another condition", ``, group("log", condition("IncorrectCommandLine", time.Hour)), false},
		{"the spec names it", `buggify: {ignoreDuringRestart: [storage-1, log-1]}`, group("log"), true},
		{"the spec names another", `buggify: {ignoreDuringRestart: [log-11]}`, group("log"), false},
		{"the spec names all", `buggify: {ignoreDuringRestart: ["*"]}`, group("log"), true},
	} {
		equal(t, x.name, IgnoredAtRestart(x.g, specOf(t, x.spec), now), x.want)
	}
}
