package runstore_test

import (
	"fmt"
	"strings"
)

// ruledRollouts are the cases of the rules of Rollouts. What a plan may say is also judged without an
// API server: see rollout.Plan.Problems.
func ruledRollouts() []validationCase {
	const target = "targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}"
	plan := func(message, refused, accepted string) validationCase {
		edit := func(text string) string { return fmt.Sprintf("{spec: {rolloutPlan: {%s}}}", text) }
		return validationCase{"rollouts", message, fmt.Sprintf("{spec: {%s, rolloutPlan: {}}}", target), []string{edit(refused)}, []string{edit(accepted)}}
	}
	const prometheus = "prometheus: {address: 'http://prometheus:9090'"
	deployments := "{spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: new}, sourceRef: {apiVersion: apps/v1, kind: Deployment, name: old}, rolloutPlan: {}}}"
	return []validationCase{
		{
			"rollouts", "targetRef cannot be changed: make another Rollout", fmt.Sprintf("{spec: {%s, rolloutPlan: {}}}", target),
			[]string{"{spec: {targetRef: {name: other}}}"}, []string{"{spec: {hold: DuringRollout}}"},
		},
		{
			"rollouts", "sourceRef cannot be changed: make another Rollout", deployments,
			[]string{"{spec: {sourceRef: {name: other}}}", "{spec: {sourceRef: null}}"}, []string{"{spec: {rolloutPlan: {paused: true}}}"},
		},
		plan("a deadline is at least 1s", "batchDeadline: 10ms", "batchDeadline: 1m30s, deadline: 24h"),
		plan("it is at least 0", "rolloutBatches: [{replicas: -1}]", "rolloutBatches: [{replicas: 0}, {replicas: 30%, maxUnavailable: 1}]"),
		plan("it is at least 1", "disruption: {quorum: {selector: {}, minHealthy: 0}}", "disruption: {quorum: {selector: {}, minHealthy: majority}, maxUnavailable: 10%}"),
		plan("numBatches is not the number of rolloutBatches", "numBatches: 3, rolloutBatches: [{replicas: 1}, {}]", "numBatches: 2, rolloutBatches: [{replicas: 1}, {}]"),
		plan("batchPartition is no index of a batch: they count from 0", "batchPartition: 2, numBatches: 2", "batchPartition: 1, rolloutBatches: [{replicas: 1}, {}]"),
		plan("only the last batch may be without replicas: it takes the rest", "rolloutBatches: [{}, {replicas: 1}]", "rolloutBatches: [{podList: [db-4]}, {pods: {ordinals: ['2-3']}}, {}]"),
		plan("the percentages are more than 100% together", "rolloutBatches: [{replicas: 60%}, {replicas: 41%}, {replicas: 0%}]", "rolloutBatches: [{replicas: 60%}, {replicas: 200}, {podList: [db-1]}, {replicas: 40%}, {replicas: 0%}]"),
		plan("a range goes up: 2-3, not 3-2", "rolloutBatches: [{pods: {ordinals: ['1', '5-2']}}, {}]", "rolloutBatches: [{pods: {ordinals: ['1', '2-5', '7-7', '9-10']}}, {}]"),
		plan("set one of podList and pods", "rolloutBatches: [{podList: [db-0], pods: {role: leader}}, {}]", "rolloutBatches: [{podList: [db-0]}, {}]"),
		plan("a batch has hooks of the types pre-batch-rollout and post-batch-rollout only",
			"rolloutBatches: [{batchRolloutWebhooks: [{name: a, type: event, url: 'http://a'}]}]", "rolloutBatches: [{batchRolloutWebhooks: [{name: a, type: pre-batch-rollout, url: 'http://a/b?c'}]}]"),
		plan("set one of url and flow", "rolloutWebhooks: [{name: a, type: event, url: 'http://a', flow: b}]", "rolloutWebhooks: [{name: a, type: event, flow: b, input: {n: 1}}]"),
		plan("only a flow has an input", "rolloutWebhooks: [{name: a, type: event, url: 'http://a', input: {n: 1}}]", "rolloutWebhooks: [{name: a, type: event, url: 'http://a'}]"),
		plan("set one of provider.prometheus.query and templateRef",
			"canaryMetric: [{name: a, metricsRange: {max: 1}, provider: {"+prometheus+"}}}]", "canaryMetric: [{name: a, metricsRange: {max: '0.01'}, provider: {"+prometheus+", query: up}}}]"),
		plan("min is above max",
			"canaryMetric: [{name: a, metricsRange: {min: '2.5', max: 1}, provider: {"+prometheus+", query: up}}}]", "canaryMetric: [{name: a, metricsRange: {min: '0.5', max: 1}, provider: {"+prometheus+", query: up}}}]"),
		plan("zoneKey counts only beside maxUnavailablePerZone", "disruption: {zoneKey: rack}", "disruption: {zoneKey: rack, maxUnavailablePerZone: 1}"),
		plan("a period is at least 1s", "probes: [{name: a, tcp: {port: 5432}, period: 10ms}]", "probes: [{name: a, tcp: {port: 5432}, period: 1s}]"),
		plan("set one of exec, http and tcp", "probes: [{name: a}]", "probes: [{name: a, tcp: {port: 5432}}]"),
		plan("set one of roleLabel and roleProbe", "order: {roles: [leader]}", "order: {roleLabel: role, roles: [leader]}"),
		plan("roleProbe is the name of no probe", "order: {roleProbe: a, roles: [leader]}", "order: {roleProbe: a, roles: [leader]}, probes: [{name: a, tcp: {port: 1}}]"),
		plan("set one of exec and http", "order: {roleLabel: role, roles: [leader], handover: {timeout: 5s}}", "order: {roleLabel: role, roles: [leader], handover: {exec: {command: [switch]}}}"),
	}
}

// refusedRollouts are Rollouts that cannot be created, with the message.
var refusedRollouts = map[string]string{
	"{metadata: {name: " + strings.Repeat("a", 64) + "}, spec: {targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: a}, rolloutPlan: {}}}": "the name of a Rollout has at most 63 characters: a label of its workload holds it",
	"{spec: {rolloutPlan: {}}}": "set exactly one of targetRef and application",
	"{spec: {application: {name: shop, targetRevision: shop-v1, sourceRevision: shop-v1}, rolloutPlan: {}}}":                                                  "the source must be another revision than the target",
	"{spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, sourceRef: {apiVersion: apps/v1, kind: StatefulSet, name: b}, rolloutPlan: {}}}":    "sourceRef is a Deployment",
	"{spec: {targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, sourceRef: {apiVersion: apps/v1, kind: Deployment, name: old}, rolloutPlan: {}}}": "only a rollout of Deployments has a sourceRef",
	"{spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, sourceRef: {apiVersion: apps/v1, kind: Deployment, name: a}, rolloutPlan: {}}}":     "sourceRef and targetRef name the same Deployment",
}

const aComponent = "{name: db, workload: {apiVersion: apps/v1, kind: StatefulSet, spec: {}}}"

// ruledApplications are the cases of the rules of Applications: those of their plans are those of Rollouts.
func ruledApplications() []validationCase {
	base := fmt.Sprintf("{spec: {components: [%s], rolloutPlan: {}}}", aComponent)
	all := []validationCase{
		{
			"applications", "a component keeps its kind: take it out, or add one of another name", base,
			[]string{"{spec: {components: [{name: db, workload: {apiVersion: apps/v1, kind: Deployment, spec: {}}}]}}"}, []string{"{spec: {rolloutComponent: db}}"},
		},
		{
			"applicationrevisions", "a revision cannot be changed", fmt.Sprintf("{spec: {application: shop, hash: abc, components: [%s]}}", strings.Replace(aComponent, "name: db,", "name: db, workloadName: db,", 1)),
			[]string{"{spec: {hash: other}}"}, []string{"{metadata: {labels: {kept: by}}}"},
		},
		{
			"rollouts", "the Application cannot be changed: make another Rollout", "{spec: {application: {name: shop, targetRevision: shop-v1}, rolloutPlan: {}}}",
			[]string{"{spec: {application: {name: other}}}"}, []string{"{spec: {application: {targetRevision: shop-v2, sourceRevision: shop-v1}}}"},
		},
	}
	for _, row := range ruledRollouts() {
		if strings.HasPrefix(row.refused[0], "{spec: {rolloutPlan:") {
			row.resource, row.was = "applications", base
			all = append(all, row)
		}
	}
	return all
}

const wrongKind = "a component is a Deployment or StatefulSet of apps/v1, or a CloneSet or StatefulSet of apps.kruise.io"

// refusedApplications and refusedRevisions cannot be created, with the message.
var (
	refusedApplications = map[string]string{
		"{spec: {components: [{name: db, workload: {apiVersion: apps/v1, kind: DaemonSet, spec: {}}}]}}": wrongKind,
		"{spec: {components: [" + aComponent + "], rolloutComponent: web}}":                              "there is no such component",
		"{metadata: {name: " + strings.Repeat("a", 53) + "}, spec: {components: [" + aComponent + "]}}":  "the name of an Application has at most 52 characters: its revisions and workloads are named after it",
	}
	refusedRevisions = map[string]string{
		"{spec: {application: shop, hash: abc, components: [{name: db, workloadName: db, workload: {apiVersion: apps/v1, kind: DaemonSet, spec: {}}}]}}": wrongKind,
	}
)
