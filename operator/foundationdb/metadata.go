package foundationdb

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Annotations of pods; claims have the first one, ImageTypeAnnotation and ServersAnnotation. Source: fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdb_labels.go, and foundationdb 7.3.69, fdbkubernetesmonitor/api/annotations.go.
const (
	SpecAnnotation           = "foundationdb.org/last-applied-spec"       // the hash of what the object was made of
	ConfigAnnotation         = "foundationdb.org/last-applied-config-map" // ConfigHash of the files that the pod has
	PublicIPAnnotation       = "foundationdb.org/public-ip"               // of the group's service
	PublicIPSourceAnnotation = "foundationdb.org/public-ip-source"        // pod, service
	IPFamilyAnnotation       = "foundationdb.org/ip-family"               // 4, 6, 0
	ImageTypeAnnotation      = "foundationdb.org/image-type"              // split, unified
	NodeAnnotation           = "foundationdb.org/current-node"
	// ServersAnnotation is the number of servers whose data a claim has: of claims, and of this operator only.
	ServersAnnotation = "pawl.dev/servers-per-pod"
	// IsolateAnnotation is a person's: with "true" the servers stop, and the pod stays.
	IsolateAnnotation = "foundationdb.org/isolate-process-group"

	LauncherConfigurationAnnotation = "foundationdb.org/launcher-current-configuration" // the file in use
	LauncherEnvironmentAnnotation   = "foundationdb.org/launcher-environment"           // the variables in use, as JSON
	OutdatedConfigAnnotation        = "foundationdb.org/outdated-config-map-seen"       // unix seconds; wakes the launcher
	ClusterFileChangeAnnotation     = "foundationdb.org/cluster-file-change"            // unix seconds
)

// made are the annotations that tell how an object was made or what it does. A template does not set them, and
// nothing but the act itself changes them.
var made = []string{
	SpecAnnotation, ConfigAnnotation, PublicIPAnnotation, PublicIPSourceAnnotation, IPFamilyAnnotation, ImageTypeAnnotation, ServersAnnotation, NodeAnnotation,
	LauncherConfigurationAnnotation, LauncherEnvironmentAnnotation, OutdatedConfigAnnotation, ClusterFileChangeAnnotation,
}

// MatchLabels select the children of a cluster.
func MatchLabels(c *v1beta2.FoundationDBCluster) map[string]string {
	if set := c.Spec.Labels.MatchLabels; set != nil {
		return maps.Clone(set)
	}
	return map[string]string{ClusterLabel: c.Name}
}

// ChildLabels are the labels of every child of a cluster.
func ChildLabels(c *v1beta2.FoundationDBCluster) map[string]string {
	labels := map[string]string{ClusterLabel: c.Name}
	if set := c.Spec.Labels.ResourceLabels; set != nil {
		labels = maps.Clone(set)
	}
	maps.Copy(labels, MatchLabels(c))
	return labels
}

// GroupLabels are the labels of the children of a group.
func GroupLabels(c *v1beta2.FoundationDBCluster, id fdb.GroupID) map[string]string {
	labels := ChildLabels(c)
	for _, name := range classLabels(c.Spec) {
		labels[name] = string(id.Class)
	}
	for _, name := range idLabels(c.Spec) {
		labels[name] = id.String()
	}
	return labels
}

func classLabels(spec v1beta2.FoundationDBClusterSpec) []string {
	if names := spec.Labels.ProcessClassLabels; len(names) > 0 {
		return names
	}
	return []string{ClassLabel}
}

func idLabels(spec v1beta2.FoundationDBClusterSpec) []string {
	if names := spec.Labels.ProcessGroupIDLabels; len(names) > 0 {
		return names
	}
	return []string{GroupLabel}
}

// GroupIDOf returns the id of the group to which a child with these labels belongs, and whether it has one.
func GroupIDOf(labels map[string]string, spec v1beta2.FoundationDBClusterSpec) (v1beta2.ProcessGroupID, bool) {
	id := labels[idLabels(spec)[0]]
	return v1beta2.ProcessGroupID(id), id != ""
}

// ClassOf returns the class of the group to which a child with these labels belongs, and whether it has one.
func ClassOf(labels map[string]string, spec v1beta2.FoundationDBClusterSpec) (fdb.Class, bool) {
	class := labels[classLabels(spec)[0]]
	return fdb.Class(class), class != ""
}

// Metadata returns what the pod of a group must carry: labels, and the labels and annotations of its template. They
// are merged into a pod that exists; what it has besides is never removed. Annotations that tell how a pod was made
// are not among them.
func Metadata(c *v1beta2.FoundationDBCluster, id fdb.GroupID) (labels, annotations map[string]string) {
	t := settingsOf(c.Spec, id.Class).PodTemplate
	if t == nil {
		t = &corev1.PodTemplateSpec{}
	}
	return merged(c, id, t.ObjectMeta)
}

// PodMetadata is Metadata, and the node on which the pod runs.
func PodMetadata(c *v1beta2.FoundationDBCluster, id fdb.GroupID, pod *corev1.Pod) (labels, annotations map[string]string) {
	labels, annotations = Metadata(c, id)
	if node := pod.Spec.NodeName; node != "" {
		annotations[NodeAnnotation] = node
	}
	return labels, annotations
}

// ClaimMetadata is what Metadata is for pods.
func ClaimMetadata(c *v1beta2.FoundationDBCluster, id fdb.GroupID) (labels, annotations map[string]string) {
	t := settingsOf(c.Spec, id.Class).VolumeClaimTemplate
	if t == nil {
		t = &corev1.PersistentVolumeClaim{}
	}
	return merged(c, id, t.ObjectMeta)
}

func merged(c *v1beta2.FoundationDBCluster, id fdb.GroupID, template metav1.ObjectMeta) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	maps.Copy(labels, template.Labels)
	maps.Copy(labels, GroupLabels(c, id))
	for name, value := range template.Annotations {
		if !slices.Contains(made, name) {
			annotations[name] = value
		}
	}
	return labels, annotations
}

// Lacking returns the labels and annotations that an object does not have as it must: what a merge patch sets. Both
// are nil when nothing is lacking.
func Lacking(object metav1.Object, labels, annotations map[string]string) (lackingLabels, lackingAnnotations map[string]string) {
	return lacking(object.GetLabels(), labels), lacking(object.GetAnnotations(), annotations)
}

func lacking(has, must map[string]string) map[string]string {
	var l map[string]string
	for name, value := range must {
		if current, there := has[name]; !there || current != value {
			if l == nil {
				l = map[string]string{}
			}
			l[name] = value
		}
	}
	return l
}

// ownersOf makes the cluster the owner of a child: with the cluster, its children go.
func ownersOf(c *v1beta2.FoundationDBCluster) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1beta2.GroupVersion.String(), Kind: "FoundationDBCluster", Name: c.Name, UID: c.UID, Controller: new(true),
	}}
}
