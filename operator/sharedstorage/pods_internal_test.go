package sharedstorage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

// Each setting of pods that cannot be is refused with the path of its field and a way out.
func TestWrongSettingsOfPods(t *testing.T) {
	spread := func(key string, skew int32, when string) func(s *v1alpha1.SharedStorageClusterSpec) {
		return func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling.Spread = defaultSpread
			s.Scheduling.TopologySpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: when}}
		}
	}
	tolerate := func(one corev1.Toleration) func(s *v1alpha1.SharedStorageClusterSpec) {
		return func(s *v1alpha1.SharedStorageClusterSpec) { s.Scheduling.Tolerations = []corev1.Toleration{one} }
	}
	label := func(key, value string) func(s *v1alpha1.SharedStorageClusterSpec) {
		return func(s *v1alpha1.SharedStorageClusterSpec) {
			s.PodTemplate.Metadata.Labels = map[string]string{key: value}
		}
	}
	annotate := func(key string) func(s *v1alpha1.SharedStorageClusterSpec) {
		return func(s *v1alpha1.SharedStorageClusterSpec) {
			s.PodTemplate.Metadata.Annotations = map[string]string{key: "x y"}
		}
	}
	memory := func(shared, huge, buffers string) func(s *v1alpha1.SharedStorageClusterSpec) {
		return func(s *v1alpha1.SharedStorageClusterSpec) {
			if shared != "" {
				s.SharedMemory = quantity(shared)
			}
			if huge != "" {
				s.HugePages = quantity(huge)
			}
			if buffers != "" {
				s.Parameters = map[string]string{"shared_buffers": buffers}
			}
		}
	}
	class := func(name string, edit func(s *v1alpha1.SharedStorageClusterSpec)) func(s *v1alpha1.SharedStorageClusterSpec) {
		return func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = name; edit(s) }
	}
	for _, c := range []struct {
		edit func(s *v1alpha1.SharedStorageClusterSpec)
		want string
	}{
		{label("pawl.dev/role", "rw"), "podTemplate.metadata.labels[pawl.dev/role]: the operator owns it; use a label with another prefix"},
		{label("x.pawl.dev/y", "z"), "podTemplate.metadata.labels[x.pawl.dev/y]: the operator owns it"},
		{label("app.kubernetes.io/name", "mine"), "podTemplate.metadata.labels[app.kubernetes.io/name]: the operator owns it"},
		{label("team", "a b"), "podTemplate.metadata.labels[team]: a valid label must"},
		{label("team/", "a"), "podTemplate.metadata.labels[team/]: name part must be non-empty"},
		{label("team", "a"), ""},
		{annotate("pawl.dev/instance"), "podTemplate.metadata.annotations[pawl.dev/instance]: the operator owns it"},
		{annotate("prometheus.io/scrape"), ""},
		{spread("kubernetes.io/hostname", 1, ""), "scheduling.topologySpreadConstraints[0].topologyKey: kubernetes.io/hostname stands in scheduling.spread"},
		{spread("a b", 1, ""), `scheduling.topologySpreadConstraints[0].topologyKey: "a b" is no label of a node`},
		{spread("zone", 16, ""), "scheduling.topologySpreadConstraints[0].maxSkew: 16 is not within 1 and 15"},
		{spread("zone", 1, "Sometimes"), `scheduling.topologySpreadConstraints[0].whenUnsatisfiable: "Sometimes" is none of`},
		{spread("zone", 0, ""), ""},
		{tolerate(corev1.Toleration{Operator: "Is", Key: "a"}), `scheduling.tolerations[0].operator: "Is" is none of`},
		{tolerate(corev1.Toleration{Value: "a"}), "scheduling.tolerations[0].key: without a key the operator is Exists"},
		{tolerate(corev1.Toleration{Key: "a", Operator: "Exists", Value: "b"}), "scheduling.tolerations[0].value: it is empty"},
		{tolerate(corev1.Toleration{Key: "a", Effect: "NoSleep"}), `scheduling.tolerations[0].effect: "NoSleep" is none of`},
		{tolerate(corev1.Toleration{Key: "a", TolerationSeconds: new(int64(3))}), "scheduling.tolerations[0].tolerationSeconds: it counts with"},
		{tolerate(corev1.Toleration{Operator: "Exists"}), ""},
		{memory("1Ki", "", ""), "sharedMemory: 1Ki is less than 1Mi"},
		{memory("1Gi", "", ""), ""}, // the class has no limit
		{class("sized", memory("2Gi", "", "")), "sharedMemory: 2Gi is more than the memory of class sized"},
		{class("sized", memory("1Gi", "", "")), ""},
		{memory("", "3Mi", ""), "hugePages: 3Mi is no multiple of 2Mi"},
		{memory("", "1Gi", ""), "hugePages: class small has neither cpu nor memory"},
		{class("sized", memory("", "128Mi", "")), "hugePages: 128Mi does not hold shared_buffers (134217728 bytes) and a tenth more"},
		{class("sized", memory("", "142Mi", "")), ""},
		{class("sized", memory("", "512Mi", "65536")), "hugePages: 512Mi does not hold shared_buffers (536870912 bytes)"},
		{class("sized", memory("", "1Gi", "512MB")), ""},
		{class("sized", memory("", "1Gi", "many")), ""}, // PostgreSQL refuses it
	} {
		cluster := fixture()
		cluster.Facts.Classes["sized"] = port.Class{Name: "sized", Memory: 1 << 30, CPU: 100}
		c.edit(&cluster.Spec)
		err := cluster.refusal()
		if (err == nil) != (c.want == "") || err != nil && (fault.Of(err) != SpecInvalid || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// Each setting of pods is in the hash of the template, so that its edit is rolled out; what asks for
// nothing is not.
func TestSettingsOfPodsMakeStale(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(s *v1alpha1.SharedStorageClusterSpec)
		want bool
	}{
		"tolerations": {func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling.Tolerations = []corev1.Toleration{{Key: "db", Operator: "Exists"}}
		}, true},
		"affinity":              {func(s *v1alpha1.SharedStorageClusterSpec) { s.Scheduling.Affinity = &corev1.Affinity{} }, true},
		"priority":              {func(s *v1alpha1.SharedStorageClusterSpec) { s.Scheduling.PriorityClassName = "db" }, true},
		"a scheduler":           {func(s *v1alpha1.SharedStorageClusterSpec) { s.Scheduling.SchedulerName = "mine" }, true},
		"the default scheduler": {func(s *v1alpha1.SharedStorageClusterSpec) { s.Scheduling.SchedulerName = "default-scheduler" }, false},
		"a spread": {func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling.TopologySpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: "zone"}}
		}, true},
		"pull secrets": {func(s *v1alpha1.SharedStorageClusterSpec) {
			s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		}, true},
		"a label": {func(s *v1alpha1.SharedStorageClusterSpec) {
			s.PodTemplate.Metadata.Labels = map[string]string{"a": "b"}
		}, true},
		"an annotation": {func(s *v1alpha1.SharedStorageClusterSpec) {
			s.PodTemplate.Metadata.Annotations = map[string]string{"a": "b"}
		}, true},
		"a runtime": {func(s *v1alpha1.SharedStorageClusterSpec) { s.PodTemplate.Spec.RuntimeClassName = "kata" }, true},
		"host aliases": {func(s *v1alpha1.SharedStorageClusterSpec) {
			s.PodTemplate.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1"}}
		}, true},
		"dns":           {func(s *v1alpha1.SharedStorageClusterSpec) { s.PodTemplate.Spec.DNSConfig = &corev1.PodDNSConfig{} }, true},
		"shared memory": {func(s *v1alpha1.SharedStorageClusterSpec) { s.SharedMemory = quantity("64Mi") }, true},
		"huge pages":    {func(s *v1alpha1.SharedStorageClusterSpec) { s.HugePages = quantity("1Gi") }, true},
		"empty lists": {func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling.Tolerations, s.ImagePullSecrets = []corev1.Toleration{}, []corev1.LocalObjectReference{}
			s.Scheduling.TopologySpreadConstraints, s.PodTemplate.Spec.HostAliases = []v1alpha1.SpreadConstraint{}, []corev1.HostAlias{}
			s.PodTemplate.Metadata.Labels, s.PodTemplate.Metadata.Annotations = map[string]string{}, map[string]string{}
		}, false},
	} {
		cluster := fixture()
		for i := range cluster.Facts.Instances {
			cluster.Facts.Instances[i].Template = cluster.template(cluster.Facts.Classes["small"], "15.4")
		}
		c.edit(&cluster.Spec)
		if got := templateDiffers(cluster); got != c.want {
			t.Errorf("%s: stale is %t, want %t", what, got, c.want)
		}
	}
	one, other := fixture(), fixture()
	one.Spec.SharedMemory, other.Spec.SharedMemory = quantity("1Gi"), quantity("1024Mi")
	if class := (port.Class{}); one.template(class, "15.4") != other.template(class, "15.4") {
		t.Error("1Gi and 1024Mi have two hashes")
	}
}

// HighAvailability names the topology keys in which no healthy reader stands apart from the writer.
func TestHighAvailabilityTellsTheSpread(t *testing.T) {
	for what, c := range map[string]struct {
		writer, reader, sick port.Domain // domains; the second reader is not healthy
		reason, want         string
	}{
		"apart":                       {"zone=a", "zone=b", "zone=a", "FailoverOn", ""},
		"together":                    {"zone=a", "zone=a", "zone=a", "SpreadNotMet", "outside of zone a, "},
		"only the sick one is apart":  {"zone=a", "zone=a", "zone=b", "SpreadNotMet", "outside of zone a, "},
		"nodes without the label":     {"", "", "", "FailoverOn", ""},
		"two keys":                    {"zone=a,rack=1", "zone=a,rack=1", "", "SpreadNotMet", "outside of zone a and rack 1, "},
		"a reader without a value":    {"zone=a", "", "", "SpreadNotMet", "outside of zone a, "},
		"one of two keys is together": {"zone=a,rack=1", "zone=b,rack=1", "", "SpreadNotMet", "outside of rack 1, "},
	} {
		cluster := fixture()
		cluster.Spec.Scheduling.Spread = "zone"
		cluster.Spec.Scheduling.TopologySpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: "rack"}, {TopologyKey: "kubernetes.io/hostname"}}
		for n, d := range []port.Domain{c.writer, c.reader, c.sick} {
			cluster.Facts.Instances[n].Domain = d
		}
		cluster.Facts.Topology.Sync = []string{"blue-2"}
		cluster.Facts.Engines["blue-3"] = port.Status{Installed: true}
		got := highAvailability(cluster, view{position: machine.Position{State: Running}})
		if got.Status != metav1.ConditionTrue || got.Reason != c.reason || !strings.Contains(got.Message, c.want) {
			t.Errorf("%s: %s %s %s", what, got.Status, got.Reason, got.Message)
		}
	}
}
