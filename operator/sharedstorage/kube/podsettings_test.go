package kube

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var update = flag.Bool("update", false, "write the golden files anew")

// everything are settings with each field.
func everything() sharedstorage.PodSettings {
	return sharedstorage.PodSettings{
		Tolerations: []corev1.Toleration{{Key: "db", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}}}},
		}}},
		PriorityClassName: "databases", SchedulerName: "mine", Spread: []v1alpha1.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 2}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		Labels:           map[string]string{"team": "orders", ClusterLabel: "stolen"}, Annotations: map[string]string{"sidecar.istio.io/inject": "false", "prometheus.io/scrape": "false"},
		RuntimeClassName: "kata", HostAliases: []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"store"}}}, DNSConfig: &corev1.PodDNSConfig{Searches: []string{"example.com"}},
		SharedMemory: 256 << 20, HugePages: 512 << 20,
	}
}

func rawOf(t *testing.T, p sharedstorage.PodSettings) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// What the settings decide of the pods of an instance and of the cluster manager, as files: without
// settings, with each of them, and bound to a node besides.
func TestPodsWithSettings(t *testing.T) {
	zones := []client.Object{nodeOn("node-2", "a", corev1.ConditionTrue), nodeOn("node-3", "b", corev1.ConditionTrue)}
	for _, n := range zones {
		n.(*corev1.Node).Spec.Taints = []corev1.Taint{{Key: "db", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	}
	g := newFixture(t, zones...)
	want := port.Instance{Name: "blue-2-b", ID: "2", Type: port.Reader, Class: port.Class{Name: "small", CPU: 250, Memory: 1 << 30}, Version: "15.18", Image: "postgres:15.18", Port: 5432, Spread: hostnameLabel}
	bound, all := want, want
	all.Pod = rawOf(t, everything())
	bound.Pod, bound.Node = all.Pod, "node-2"
	for name, i := range map[string]port.Instance{"pod-plain": want, "pod-settings": all, "pod-bound": bound} {
		pod, err := g.pod(blue, i, "blue-2-b")
		g.must(err)
		g.must(g.spread(t.Context(), blue, pod, i, false))
		golden(t, name, pod.ObjectMeta, &pod.Spec)
	}
	for name, p := range map[string]json.RawMessage{"manager-plain": nil, "manager-settings": all.Pod} {
		d, err := (&Managers{g.Placement}).deployment(blue, port.ManagerSpec{Version: "15", Pod: p, Template: "hash"}, "")
		g.must(err)
		if d.Annotations[templateAnnotation] != "hash" {
			t.Errorf("%s: %v", name, d.Annotations)
		}
		golden(t, name, d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec)
	}
}

// golden compares a pod with a file, without what its programs and their volumes are.
func golden(t *testing.T, name string, about metav1.ObjectMeta, spec *corev1.PodSpec) {
	t.Helper()
	delete(about.Annotations, wantAnnotation)
	spec.InitContainers, spec.Containers = nil, []corev1.Container{{Name: spec.Containers[0].Name, Resources: spec.Containers[0].Resources}}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir == nil || v.EmptyDir.Medium == "" })
	text, err := yaml.Marshal(corev1.PodTemplateSpec{ObjectMeta: about, Spec: *spec})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != string(text) {
		t.Errorf("%s (%v): go test -run %s -update ./operator/sharedstorage/kube writes it anew; it is\n%s", file, err, t.Name(), text)
	}
}

// A node with a taint counts for pods that tolerate it, and for no others.
func TestTaintsThatAreTolerated(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	db := taint("db", "yes", corev1.TaintEffectNoSchedule)
	for what, c := range map[string]struct {
		taints []corev1.Taint
		by     []corev1.Toleration
		fits   bool
	}{
		"none":                 {nil, nil, true},
		"not tolerated":        {[]corev1.Taint{db}, nil, false},
		"a preference":         {[]corev1.Taint{taint("db", "yes", corev1.TaintEffectPreferNoSchedule)}, nil, true},
		"by its value":         {[]corev1.Taint{db}, []corev1.Toleration{{Key: "db", Value: "yes"}}, true},
		"another value":        {[]corev1.Taint{db}, []corev1.Toleration{{Key: "db", Value: "no"}}, false},
		"by its key":           {[]corev1.Taint{db}, []corev1.Toleration{{Key: "db", Operator: corev1.TolerationOpExists}}, true},
		"another key":          {[]corev1.Taint{db}, []corev1.Toleration{{Key: "web", Operator: corev1.TolerationOpExists}}, false},
		"another effect":       {[]corev1.Taint{db}, []corev1.Toleration{{Key: "db", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, false},
		"everything":           {[]corev1.Taint{db, taint("x", "", corev1.TaintEffectNoExecute)}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, true},
		"one of two tolerated": {[]corev1.Taint{db, taint("x", "", corev1.TaintEffectNoExecute)}, []corev1.Toleration{{Key: "db", Value: "yes"}}, false},
	} {
		node := nodeOn("node-2", "a", corev1.ConditionTrue)
		node.Spec.Taints = c.taints
		g := newFixture(t, node)
		err := g.checkNode(t.Context(), port.Instance{NodeSelector: map[string]string{"zone": "a"}, Pod: rawOf(t, sharedstorage.PodSettings{Tolerations: c.by})})
		if (err == nil) != c.fits || err != nil && (fault.Of(err) != port.NoAvailableNode || !strings.Contains(err.Error(), "scheduling.tolerations")) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An instance tells where its node stands in the keys of the spread, and quotas count its huge pages.
func TestDomainAndHugePages(t *testing.T) {
	g := newFixture(t, nodeOn("node-2", "a", corev1.ConditionTrue))
	g.ensure(port.Volume{Size: gi})
	_, err := g.Instances().Ensure(t.Context(), blue, port.Instance{Name: "blue-1-a", ID: "1", Type: port.Writer, Class: port.Class{Name: "small", CPU: 100}, Version: "15", Spread: hostnameLabel, Pod: rawOf(t, everything())})
	g.must(err)
	var pod corev1.Pod
	g.must(g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: "blue-1-a"}, &pod))
	pod.Spec.NodeName = "node-2"
	g.must(g.o.Client.Update(t.Context(), &pod))
	all, err := g.Instances().List(t.Context(), blue)
	g.must(err)
	if len(all) != 1 || all[0].Domain != "zone=a" || len(all[0].Pod) == 0 {
		t.Errorf("%+v", all)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "q"}}
	quota.Status.Hard = corev1.ResourceList{"requests.hugepages-2Mi": resource.MustParse("1Gi")}
	quota.Status.Used = corev1.ResourceList{"requests.hugepages-2Mi": resource.MustParse("512Mi")}
	g.must(g.o.Client.Create(t.Context(), quota))
	for count, want := range map[int]error{1: nil, 2: port.QuotaExceeded} {
		refused(t, "huge pages", g.Instances().Check(t.Context(), blue, all[0], count, gi), want)
	}
}
