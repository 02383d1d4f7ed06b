package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/rollout"
)

// layout is where one version of a kind keeps the fields that a rollout reads and writes. Absent
// numbers are 0. An empty path: the kind has no such field.
type layout struct {
	kind     rollout.Kind
	resource schema.GroupVersionKind

	partition  []string
	percents   bool // the partition may be a percentage, and 100% is the full hold
	paused     []string
	updateType []string
	minReady   []string
	policy     []string // OrderedReady or Parallel
	unordered  []string // present: updates do not follow ordinals
	priority   []string // which pods move first, of workloads that count pods
	instance   string   // the label by which one pod is named there
	byName     bool     // its value is the name of the pod, else what follows the name of the workload
	rolling    string   // the update type that rolls; empty: RollingUpdate
	ordinals   []string // the first ordinal
	reserved   []string
}

var rollingUpdate = []string{"spec", "updateStrategy", "rollingUpdate"}

func below(path []string, name string) []string { return append(path[:len(path):len(path)], name) }

// layouts are the versions of the four kinds. A version that is not here is never written: the
// conversion of Advanced StatefulSets to v1alpha1 drops fields.
var layouts = []layout{
	{
		kind: rollout.Deployment, resource: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		paused: []string{"spec", "paused"}, updateType: []string{"spec", "strategy", "type"}, minReady: []string{"spec", "minReadySeconds"},
	},
	{
		kind: rollout.StatefulSet, resource: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		partition: below(rollingUpdate, "partition"), updateType: []string{"spec", "updateStrategy", "type"}, minReady: []string{"spec", "minReadySeconds"},
		policy: []string{"spec", "podManagementPolicy"}, ordinals: []string{"spec", "ordinals", "start"},
	},
	{
		kind: rollout.AdvancedStatefulSet, resource: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
		partition: below(rollingUpdate, "partition"), paused: below(rollingUpdate, "paused"), updateType: []string{"spec", "updateStrategy", "type"},
		minReady: below(rollingUpdate, "minReadySeconds"), policy: []string{"spec", "podManagementPolicy"}, unordered: below(rollingUpdate, "unorderedUpdate"),
		priority: append(below(rollingUpdate, "unorderedUpdate"), "priorityStrategy"), instance: appsv1.StatefulSetPodNameLabel, byName: true,
		ordinals: []string{"spec", "ordinals", "start"}, reserved: []string{"spec", "reserveOrdinals"},
	},
	{
		kind: rollout.CloneSet, resource: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"},
		partition: below(rollingUpdate, "partition"), percents: true, paused: below(rollingUpdate, "paused"), updateType: []string{"spec", "updateStrategy", "type"},
		minReady: []string{"spec", "minReadySeconds"}, priority: below(rollingUpdate, "priorityStrategy"), instance: instanceLabel,
	},
	{
		kind: rollout.CloneSet, resource: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"},
		partition: []string{"spec", "updateStrategy", "partition"}, percents: true, paused: []string{"spec", "updateStrategy", "paused"},
		updateType: []string{"spec", "updateStrategy", "type"}, minReady: []string{"spec", "minReadySeconds"},
		priority: []string{"spec", "updateStrategy", "priorityStrategy"}, instance: instanceLabel, rolling: "ReCreate",
	},
}

// instanceLabel names one pod of a CloneSet.
const instanceLabel = "apps.kruise.io/cloneset-instance-id"

// layoutOf returns the layout for an apiVersion and kind. The faults are UNSUPPORTED_WORKLOAD, and
// KIND_NOT_SERVED for another version of a kind that Pawl drives.
func layoutOf(apiVersion, kind string) (layout, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return layout{}, rollout.UnsupportedWorkload.Errorf("apiVersion %q: %w", apiVersion, err)
	}
	known := false
	for _, l := range layouts {
		if l.resource.Group == gv.Group && l.resource.Kind == kind {
			if known = true; l.resource.Version == gv.Version {
				return l, nil
			}
		}
	}
	if known {
		return layout{}, rollout.KindNotServed.Errorf("%s of %s: Pawl drives %s", kind, apiVersion, versionsOf(gv.Group, kind))
	}
	return layout{}, rollout.UnsupportedWorkload.Errorf("%s of %s", kind, apiVersion)
}

// KindOf returns the kind that an apiVersion and a kind mean. The faults are UNSUPPORTED_WORKLOAD, and
// KIND_NOT_SERVED for another version of a kind that Pawl drives.
func KindOf(apiVersion, kind string) (rollout.Kind, error) {
	l, err := layoutOf(apiVersion, kind)
	return l.kind, err
}

// Optional reports whether a cluster may not serve the kinds of a group: those of OpenKruise come and go with
// their definitions.
func Optional(group string) bool { return group != "apps" }

// Kinds are the kinds and versions that Pawl drives.
func Kinds() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, l := range layouts {
		all = append(all, l.resource)
	}
	return all
}

// HoldFields are the fields of a workload that keep its pods as they are, such as
// spec.updateStrategy.rollingUpdate.partition.
func HoldFields(ref Ref) []string {
	l, err := layoutOf(ref.APIVersion, ref.Kind)
	if err != nil {
		return nil
	}
	var all []string
	for _, path := range [][]string{l.partition, l.paused} {
		if path != nil {
			all = append(all, strings.Join(path, "."))
		}
	}
	return all
}

func versionsOf(group, kind string) string {
	var all []string
	for _, l := range layouts {
		if l.resource.Group == group && l.resource.Kind == kind {
			all = append(all, l.resource.GroupVersion().String())
		}
	}
	return strings.Join(all, " and ")
}

func number(o map[string]any, path []string, missing int) int {
	if path == nil {
		return missing
	}
	value, ok, err := unstructured.NestedFieldNoCopy(o, path...)
	if !ok || err != nil {
		return missing
	}
	switch n := value.(type) {
	case int64:
		return int(n)
	case float64:
		return int(n)
	default:
		return missing
	}
}

func text(o map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(o, path...)
	return s
}

// readPartition is how many of the pods are kept old. 100% and more is the full hold; other
// percentages are rounded up, as the controller of CloneSets does. A set with ordinals of the type
// OnDelete has no partition, and keeps all.
func (l layout) readPartition(o map[string]any, replicas int) int {
	if l.partition == nil {
		return 0
	}
	if l.replacesType() && text(o, l.updateType...) == rollout.OnDelete {
		return rollout.HoldAll
	}
	value, _, _ := unstructured.NestedFieldNoCopy(o, l.partition...)
	if s, ok := value.(string); ok && l.percents {
		var percent int
		if _, err := fmt.Sscanf(s, "%d%%", &percent); err != nil {
			return 0
		}
		if percent >= 100 {
			return rollout.HoldAll
		}
		return rollout.IntOrPercent{Value: percent, Percent: true}.Of(replicas)
	}
	return number(o, l.partition, 0)
}

// partitionValue is what is written for a partition.
func (l layout) partitionValue(n int) any {
	if l.percents && n == rollout.HoldAll {
		return "100%"
	}
	return int64(n)
}

// replacesType reports whether the kind takes no rollingUpdate beside OnDelete.
func (l layout) replacesType() bool {
	return l.kind == rollout.StatefulSet || l.kind == rollout.AdvancedStatefulSet
}

// readUpdateType folds the update types of CloneSets into RollingUpdate.
func (l layout) readUpdateType(o map[string]any) string {
	switch t := text(o, l.updateType...); t {
	case rollout.OnDelete, rollout.Recreate:
		if l.kind == rollout.Deployment { // its Recreate stops all pods, but a rollout of two only scales
			return rollout.RollingUpdate
		}
		return t
	default:
		return rollout.RollingUpdate
	}
}

func (l layout) readReserved(o map[string]any) []string {
	if l.reserved == nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(o, l.reserved...)
	var all []string
	for _, item := range list {
		all = append(all, fmt.Sprint(item))
	}
	return all
}
