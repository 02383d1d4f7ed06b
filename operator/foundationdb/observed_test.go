package foundationdb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func annotated(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

func TestPublicIPs(t *testing.T) {
	both := []corev1.PodIP{{IP: "10.0.0.7"}, {IP: "nonsense"}, {IP: "fd00::7"}, {IP: "::ffff:10.0.0.8"}}
	for name, row := range map[string]struct {
		annotations map[string]string
		ip          string
		ips         []corev1.PodIP
		want        []string
	}{
		"nothing yet":                {},
		"its only IP":                {ip: "10.0.0.7", want: []string{"10.0.0.7"}},
		"the first":                  {ip: "fd00::7", ips: both, want: []string{"fd00::7"}},
		"no family":                  {annotations: map[string]string{IPFamilyAnnotation: "0"}, ip: "10.0.0.7", ips: both, want: []string{"10.0.0.7"}},
		"IPv4":                       {annotations: map[string]string{IPFamilyAnnotation: "4"}, ip: "fd00::7", ips: both, want: []string{"10.0.0.7", "::ffff:10.0.0.8"}},
		"IPv6":                       {annotations: map[string]string{IPFamilyAnnotation: "6"}, ip: "10.0.0.7", ips: both, want: []string{"fd00::7"}},
		"IPv6, and there is none":    {annotations: map[string]string{IPFamilyAnnotation: "6"}, ip: "10.0.0.7"},
		"IPv4, and no list":          {annotations: map[string]string{IPFamilyAnnotation: "4"}, ip: "10.0.0.7", want: []string{"10.0.0.7"}},
		"the service":                {annotations: map[string]string{PublicIPSourceAnnotation: "service", PublicIPAnnotation: "10.1.1.1"}, ip: "10.0.0.7", want: []string{"10.1.1.1"}},
		"the service, not yet":       {annotations: map[string]string{PublicIPSourceAnnotation: "service"}, ip: "10.0.0.7"},
		"the pod, not its service":   {annotations: map[string]string{PublicIPSourceAnnotation: "pod", PublicIPAnnotation: "10.1.1.1"}, ip: "10.0.0.7", want: []string{"10.0.0.7"}},
		"a family that is no number": {annotations: map[string]string{IPFamilyAnnotation: "x"}, ip: "10.0.0.7", ips: both, want: []string{"10.0.0.7"}},
	} {
		pod := annotated(row.annotations)
		pod.Status.PodIP, pod.Status.PodIPs = row.ip, row.ips
		equal(t, name, PublicIPs(pod), row.want)
	}
}

// TestIPFamilyOfOlderPods: those that other operators made have no annotation.
func TestIPFamilyOfOlderPods(t *testing.T) {
	for _, family := range []int{0, 4, 6} {
		for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
			c := clusterOf(t, `{status: {connectionString: "a:b@1.1.1.1:4501", hasListenIPsForAllPods: true}}`)
			c.Spec.ImageType = image
			if family != 0 {
				c.Spec.Routing.PodIPFamily = &family
			}
			pod := podOf(t, c, log2)
			delete(pod.Annotations, IPFamilyAnnotation)
			if image == v1beta2.ImageTypeUnified {
				if _, known := IPFamilyOf(pod); known {
					t.Error("the launcher has told nothing yet")
				}
				conf, err := MonitorConf(c, fdb.ClassLog, image, 1)
				if err != nil {
					t.Fatal(err)
				}
				pod.Annotations[LauncherConfigurationAnnotation] = conf
			}
			got, known := IPFamilyOf(pod)
			equal(t, string(image), []any{got, known}, []any{family, true})
		}
	}
	if _, known := IPFamilyOf(annotated(nil)); known {
		t.Error("a pod without containers tells its family")
	}
}

func TestServersIn(t *testing.T) {
	container := func(name string, args []string, env ...corev1.EnvVar) corev1.Container {
		return corev1.Container{Name: name, Args: args, Env: env}
	}
	for name, row := range map[string]struct {
		image      string
		containers []corev1.Container
		want       int
	}{
		"no container":               {"unified", nil, 1},
		"none":                       {"unified", []corev1.Container{container(MainContainer, nil)}, 1},
		"argument":                   {"unified", []corev1.Container{container(MainContainer, []string{"--process-count", "3"})}, 3},
		"argument before variable":   {"unified", []corev1.Container{container(MainContainer, []string{"--process-count", "3"}, valueEnv("LOG_SERVERS_PER_POD", "2"))}, 3},
		"argument without value":     {"unified", []corev1.Container{container(MainContainer, []string{"--process-count"})}, 1},
		"variable":                   {"unified", []corev1.Container{container(MainContainer, nil, valueEnv("LOG_SERVERS_PER_POD", "2"))}, 2},
		"variable of the sidecar":    {"split", []corev1.Container{container(MainContainer, nil), container(SidecarContainer, nil, valueEnv("STORAGE_SERVERS_PER_POD", "2"))}, 2},
		"of transaction":             {"split", []corev1.Container{container(SidecarContainer, nil, valueEnv("TRANSACTION_SERVERS_PER_POD", "4"))}, 4},
		"of the wrong container":     {"split", []corev1.Container{container(MainContainer, nil, valueEnv("STORAGE_SERVERS_PER_POD", "2"))}, 1},
		"of a class with one server": {"split", []corev1.Container{container(SidecarContainer, nil, valueEnv("PROXY_SERVERS_PER_POD", "2"))}, 1},
		"no number":                  {"split", []corev1.Container{container(SidecarContainer, nil, valueEnv("LOG_SERVERS_PER_POD", "x"))}, 1},
		"zero":                       {"split", []corev1.Container{container(SidecarContainer, nil, valueEnv("LOG_SERVERS_PER_POD", "0"))}, 1},
		"no image type":              {"", []corev1.Container{container(SidecarContainer, nil, valueEnv("LOG_SERVERS_PER_POD", "2"))}, 2},
	} {
		pod := annotated(map[string]string{ImageTypeAnnotation: row.image})
		pod.Spec.Containers = row.containers
		equal(t, name, ServersIn(pod), row.want)
	}
}

func TestBuggify(t *testing.T) {
	const (
		main    = `buggify: {crashLoopContainers: [{containerName: foundationdb, targets: [log-2]}]}`
		sidecar = `buggify: {crashLoopContainers: [{containerName: foundationdb-kubernetes-sidecar, targets: ['*']}]}`
		first   = `buggify: {crashLoopContainers: [{containerName: foundationdb-kubernetes-init, targets: ['*']}]}`
		old     = `buggify: {crashLoop: [log-2]}`
		nowhere = `buggify: {noSchedule: [log-2]}`
		others  = `buggify: {noSchedule: [log-3, storage-2], crashLoop: [log-3]}`
		pinned  = `processes: {general: {podTemplate: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}}}}`
	)
	for _, image := range []string{"split", "unified"} {
		for _, row := range [][3]string{
			{``, ``, ``}, {others, ``, ``}, {``, others, ``}, {main, main, ``}, {main, old, ``}, {pinned, pinned, ``},
			{``, main, "container foundationdb should crash"}, {main, ``, "container foundationdb should not crash any more"},
			{``, old, "container foundationdb should crash"},
			{``, sidecar, "container foundationdb-kubernetes-sidecar should crash"}, {sidecar, main, "container foundationdb should crash"},
			{``, nowhere, "the pod should fit no node"}, {nowhere, ``, "the pod should fit nodes again"}, {pinned, nowhere, "the pod should fit no node"},
			{``, first, map[string]string{"split": "container foundationdb-kubernetes-init should crash"}[image]},
			{first, ``, map[string]string{"split": "container foundationdb-kubernetes-init should not crash any more"}[image]},
		} {
			c := clusterOf(t, `spec: {imageType: `+image+`, `+row[0]+`}`)
			equal(t, image+": "+row[0]+" -> "+row[1], BuggifyDiffers(specOf(t, row[1]), log2, podOf(t, c, log2)), row[2])
		}
	}
	pod := podOf(t, clusterOf(t, `{}`), log2)
	mainOf(pod).Args = nil
	equal(t, "without arguments", BuggifyDiffers(specOf(t, `{}`), log2, pod), "")
	pod = podOf(t, clusterOf(t, `spec: {imageType: split, `+main+`}`), log2)
	equal(t, "fdbmonitor crashes", [][]string{mainOf(pod).Command, mainOf(pod).Args}, [][]string{{"sh", "-c"}, {"crash-loop"}})
	pod = podOf(t, clusterOf(t, `spec: {`+main+`}`), log2)
	equal(t, "the launcher crashes", [][]string{mainOf(pod).Command, mainOf(pod).Args}, [][]string{{"crash-loop"}, {"crash-loop"}})
	pod = podOf(t, clusterOf(t, `spec: {`+nowhere+`}`), log2)
	equal(t, "no node has the label", asText(t, pod.Spec.Affinity.NodeAffinity), `requiredDuringSchedulingIgnoredDuringExecution:
  nodeSelectorTerms:
  - matchExpressions:
    - key: foundationdb.org/no-schedule-allowed
      operator: In
      values:
      - "true"
`)
}
