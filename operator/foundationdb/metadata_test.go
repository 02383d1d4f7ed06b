package foundationdb

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TestLabels: which labels select children, and which they have. Those of the operator win over those of a template.
func TestLabels(t *testing.T) {
	const labelled = `labels: {matchLabels: {app: a, both: match}, resourceLabels: {team: b, both: resource, id: resource}, processGroupIDLabels: [id, id2], processClassLabels: [class, class2]}`
	for text, want := range map[string][2]map[string]string{
		`{}`: {
			{ClusterLabel: "sample"},
			{ClusterLabel: "sample", ClassLabel: "log", GroupLabel: "log-2"},
		},
		`{labels: {resourceLabels: {team: b}}}`: {
			{ClusterLabel: "sample"},
			{ClusterLabel: "sample", ClassLabel: "log", GroupLabel: "log-2", "team": "b"},
		},
		`{labels: {matchLabels: {app: a}}}`: {
			{"app": "a"},
			{"app": "a", ClusterLabel: "sample", ClassLabel: "log", GroupLabel: "log-2"},
		},
		`{` + labelled + `, processes: {general: {podTemplate: {metadata: {labels: {app: template, mine: "1", class2: template}}}}}}`: {
			{"app": "a", "both": "match"},
			{"app": "a", "both": "match", "team": "b", "id": "log-2", "id2": "log-2", "class": "log", "class2": "log", "mine": "1"},
		},
	} {
		c := clusterOf(t, `spec: `+text)
		labels, _ := Metadata(c, log2)
		equal(t, text, [2]map[string]string{MatchLabels(c), labels}, want)
		id, there := GroupIDOf(labels, c.Spec)
		class, classThere := ClassOf(labels, c.Spec)
		equal(t, text, []any{id, there, class, classThere}, []any{v1beta2.ProcessGroupID("log-2"), true, fdb.ClassLog, true})
	}
	c := clusterOf(t, `spec: {`+labelled+`}`)
	for _, labels := range []map[string]string{nil, {}, {GroupLabel: "log-2", ClassLabel: "log"}, {"id2": "log-2", "class2": "log"}, {"id": "", "class": ""}} {
		id, there := GroupIDOf(labels, c.Spec)
		class, classThere := ClassOf(labels, c.Spec)
		equal(t, "only the first label is read", []any{id, there, class, classThere}, []any{v1beta2.ProcessGroupID(""), false, fdb.Class(""), false})
	}
	MatchLabels(c)["app"], ChildLabels(c)["app"], GroupLabels(c, log2)["app"] = "x", "x", "x"
	equal(t, "the spec is not changed", c.Spec.Labels.MatchLabels["app"], "a")
}

// TestMetadata: what is merged into objects that exist. How they were made is not.
func TestMetadata(t *testing.T) {
	c := clusterOf(t, `
spec:
  processes:
    general: {podTemplate: {metadata: {annotations: {x: pod}}}, volumeClaimTemplate: {metadata: {annotations: {x: claim, foundationdb.org/last-applied-spec: no}, labels: {l: claim}}}}
    stateless: {podTemplate: {metadata: {annotations: {x: stateless, foundationdb.org/image-type: no, foundationdb.org/public-ip: no, foundationdb.org/isolate-process-group: "true"}}}}`)
	_, annotations := Metadata(c, log2)
	equal(t, "of general", annotations, map[string]string{"x": "pod"})
	_, annotations = Metadata(c, fdb.GroupID{Class: fdb.ClassStateless, Number: 1})
	equal(t, "of the class", annotations, map[string]string{"x": "stateless", "foundationdb.org/isolate-process-group": "true"})
	labels, annotations := ClaimMetadata(c, log2)
	equal(t, "of the claim", []map[string]string{labels, annotations}, []map[string]string{
		{ClusterLabel: "sample", ClassLabel: "log", GroupLabel: "log-2", "l": "claim"}, {"x": "claim"},
	})

	pod := podOf(t, c, log2)
	_, annotations = PodMetadata(c, log2, pod)
	equal(t, "no node yet", annotations, map[string]string{"x": "pod"})
	pod.Spec.NodeName = "n1"
	labels, annotations = PodMetadata(c, log2, pod)
	equal(t, "on a node", annotations, map[string]string{"x": "pod", "foundationdb.org/current-node": "n1"})

	lackingLabels, lackingAnnotations := Lacking(pod, labels, annotations)
	equal(t, "lacking", []map[string]string{lackingLabels, lackingAnnotations}, []map[string]string{nil, {"foundationdb.org/current-node": "n1"}})
	pod.Annotations[NodeAnnotation], pod.Labels[ClassLabel], pod.Labels["foreign"] = "n1", "storage", "stays"
	lackingLabels, lackingAnnotations = Lacking(pod, labels, annotations)
	equal(t, "changed", []map[string]string{lackingLabels, lackingAnnotations}, []map[string]string{{ClassLabel: "log"}, nil})
	lackingLabels, _ = Lacking(&corev1.Pod{}, map[string]string{"empty": ""}, nil)
	equal(t, "an empty label is one", lackingLabels, map[string]string{"empty": ""})

	before := maps.Clone(c.Spec.Processes["general"].PodTemplate.Annotations)
	pod.Annotations["x"] = "changed"
	equal(t, "the spec is not changed", c.Spec.Processes["general"].PodTemplate.Annotations, before)
}
