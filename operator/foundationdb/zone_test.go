package foundationdb

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// scheduled gives a pod a node and IPs.
func scheduled(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = "n1"
	pod.Status.PodIP, pod.Status.HostIP = "10.0.0.7", "192.168.0.1"
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.7"}, {IP: "fd00::7"}}
	return pod
}

func TestVariables(t *testing.T) {
	for _, row := range []struct {
		name, cluster  string
		pod            func(*corev1.Pod)
		split, unified map[string]string // nil: not built
	}{
		{
			name: "plain", cluster: `spec: {}`,
			split: map[string]string{"FDB_PUBLIC_IP": "10.0.0.7", "FDB_POD_IP": "10.0.0.7", "FDB_MACHINE_ID": "n1", "FDB_ZONE_ID": "n1", "FDB_INSTANCE_ID": "log-2", "BINARY_DIR": "/usr/bin", "FDB_DNS_NAME": "sample-log-2.sample.default.svc.cluster.local"},
			unified: map[string]string{
				"FDB_PUBLIC_IP": "10.0.0.7", "FDB_POD_IP": "10.0.0.7", "FDB_MACHINE_ID": "n1", "FDB_ZONE_ID": "n1", "FDB_INSTANCE_ID": "log-2", "BINARY_DIR": "/usr/bin", "FDB_DNS_NAME": "sample-log-2.sample.default.svc.cluster.local",
				"FDB_POD_NAME": "sample-log-2", "FDB_POD_NAMESPACE": "default", "FDB_NODE_NAME": "n1", "FDB_CLUSTER_FILE": "/var/dynamic-conf/fdb.cluster",
				"FDB_NETWORK_OPTION_TRACE_LOG_GROUP": "sample", "FDB_NETWORK_OPTION_TRACE_ENABLE": "/var/log/fdb-trace-logs",
			},
		},
		{
			name: "IPv6, in an upgrade to an incompatible version", cluster: `{spec: {version: 7.4.6, routing: {podIPFamily: 6, useDNSInClusterFile: false}}}`,
			pod: func(p *corev1.Pod) { sidecarOf(p).Image = "mirror/sidecar:7.4.6-1" },
			split: map[string]string{
				"FDB_PUBLIC_IP": "[fd00::7]", "FDB_POD_IP": "[fd00::7]", "FDB_MACHINE_ID": "n1", "FDB_ZONE_ID": "n1", "FDB_INSTANCE_ID": "log-2", "BINARY_DIR": "/var/dynamic-conf/bin/7.4.6",
			},
			unified: map[string]string{
				"FDB_PUBLIC_IP": "10.0.0.7,fd00::7", "FDB_POD_IP": "10.0.0.7,fd00::7", "FDB_MACHINE_ID": "n1", "FDB_ZONE_ID": "n1", "FDB_INSTANCE_ID": "log-2", "BINARY_DIR": "/var/fdb/shared-binaries/bin/7.4.6",
				"FDB_POD_NAME": "sample-log-2", "FDB_POD_NAMESPACE": "default", "FDB_NODE_NAME": "n1", "FDB_CLUSTER_FILE": "/var/dynamic-conf/fdb.cluster",
				"FDB_NETWORK_OPTION_TRACE_LOG_GROUP": "sample", "FDB_NETWORK_OPTION_TRACE_ENABLE": "/var/log/fdb-trace-logs",
			},
		},
		{
			name:    "a service, a variable of the template, and one that the sidecar is not told",
			cluster: `spec: {sidecarVariables: [RACK, SECRET], useExplicitListenAddress: false, routing: {publicIPSource: service, podIPFamily: 4, useDNSInClusterFile: false}, faultDomain: {valueFrom: $RACK}, processes: {general: {podTemplate: {spec: {containers: [{name: foundationdb-kubernetes-sidecar, env: [{name: ROW, value: r}, {name: RACK, value: "$(ROW)-1-$$(ROW)-$(NONE)"}, {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}}}}`,
			pod:     func(p *corev1.Pod) { p.Annotations[PublicIPAnnotation] = "10.1.1.1" },
			split: map[string]string{
				"FDB_PUBLIC_IP": "10.1.1.1", "FDB_POD_IP": "10.0.0.7", "FDB_MACHINE_ID": "n1", "FDB_ZONE_ID": "n1", "FDB_INSTANCE_ID": "log-2", "BINARY_DIR": "/usr/bin", "RACK": "r-1-$(ROW)-$(NONE)",
			},
		},
		{
			name: "what the launcher tells wins", cluster: `spec: {}`,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = nil
				p.Annotations[LauncherEnvironmentAnnotation] = `{"FDB_INSTANCE_ID":"log-9","NODE_LABEL_RACK":"r1","BINARY_DIR":"/x"}`
			},
			unified: map[string]string{"FDB_INSTANCE_ID": "log-9", "NODE_LABEL_RACK": "r1", "BINARY_DIR": "/x"},
		},
		{
			name: "a pod that tells nothing", cluster: `spec: {}`,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers, p.Status, p.Spec.NodeName = nil, corev1.PodStatus{}, ""
				p.Annotations[LauncherEnvironmentAnnotation] = `[]`
			},
			split:   map[string]string{"FDB_PUBLIC_IP": "", "FDB_POD_IP": "", "FDB_MACHINE_ID": "sample-log-2", "FDB_ZONE_ID": "sample-log-2", "FDB_INSTANCE_ID": "log-2", "BINARY_DIR": "/usr/bin"},
			unified: map[string]string{"FDB_INSTANCE_ID": "log-2", "BINARY_DIR": "/usr/bin"},
		},
	} {
		for image, want := range map[v1beta2.ImageType]map[string]string{v1beta2.ImageTypeSplit: row.split, v1beta2.ImageTypeUnified: row.unified} {
			if want == nil {
				continue
			}
			c := clusterOf(t, row.cluster)
			c.Spec.ImageType = image
			pod := scheduled(podOf(t, c, log2))
			if row.pod != nil {
				row.pod(pod)
			}
			equal(t, row.name+", "+string(image), Variables(c, log2, pod), want)
		}
	}
}

func TestZone(t *testing.T) {
	const rack = `processes: {general: {podTemplate: {metadata: {labels: {rack: label}}, spec: {containers: [{name: foundationdb, env: [{name: RACK, value: r1}]}, {name: foundationdb-kubernetes-sidecar, env: [{name: RACK, value: r1}]}]}}}}, sidecarVariables: [RACK]`
	const own = `processes: {general: {podTemplate: {spec: {containers: [{name: foundationdb, env: [{name: FDB_ZONE_ID, value: mine}]}, {name: foundationdb-kubernetes-sidecar, env: [{name: FDB_ZONE_ID, value: mine}]}]}}}}`
	for text, want := range map[string][2]string{ // on a node, without one
		`{}`: {"n1", ""},
		`{faultDomain: {key: kubernetes.io/hostname}}`:                                   {"n1", ""},
		`{faultDomain: {key: topology.kubernetes.io/zone}}`:                              {"n1", ""},
		`{faultDomain: {key: foundationdb.org/none}}`:                                    {"sample-log-2", "sample-log-2"},
		`{faultDomain: {key: foundationdb.org/kubernetes-cluster, value: kc1}}`:          {"kc1", "kc1"},
		`{faultDomain: {key: rack, valueFrom: $RACK}, ` + rack + `}`:                     {"r1", "r1"},
		`{faultDomain: {key: rack, valueFrom: $NODE_LABEL_RACK}}`:                        {"", ""}, // until the launcher tells
		`{faultDomain: {key: rack, valueFrom: "metadata.labels['rack']"}, ` + rack + `}`: {"label", "label"},
		`{faultDomain: {key: rack, valueFrom: spec.nodeName}}`:                           {"n1", ""},
		`{` + own + `}`: {"mine", "mine"},
	} {
		for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
			c := clusterOf(t, `spec: `+text)
			c.Spec.ImageType = image
			pod := podOf(t, c, log2)
			without := Zone(c, pod)
			equal(t, text+" "+string(image), [2]string{Zone(c, scheduled(pod)), without}, want)
		}
	}
	c := clusterOf(t, `spec: {faultDomain: {key: rack, valueFrom: $NODE_LABEL_RACK}}`)
	pod := podOf(t, c, log2)
	pod.Annotations[LauncherEnvironmentAnnotation] = `{"NODE_LABEL_RACK":"r7"}`
	equal(t, "the launcher has told", Zone(c, pod), "r7")
}

// TestCommandsAreComplete: a pod knows each variable that its files use.
func TestCommandsAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, id := drawCluster(t)
		c.Status.HasListenIPsForAllPods = listens(c.Spec)
		pod, err := Pod(c, id, PodFacts{ServiceIP: "10.1.1.1"})
		if err != nil {
			t.Fatal(err)
		}
		variables := Variables(c, id, scheduled(pod))
		commands, err := StartCommands(c, id.Class, ImageTypeOf(pod), ServersIn(pod), variables)
		if err != nil && or(c.Spec.Routing.PodIPFamily, 0) == 6 && publicIPSource(c.Spec) == v1beta2.PublicIPService {
			return // the service of this test has an IPv4 address
		}
		if ImageTypeOf(pod) == v1beta2.ImageTypeSplit && strings.Contains(fmt.Sprint(pod.Spec.Containers[1].Args), "crash-loop") {
			return // the arguments of the sidecar say which variables there are
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(commands) != ServersPerPod(c.Spec, id.Class) {
			t.Fatalf("%d commands", len(commands))
		}
		for _, command := range commands {
			if strings.Contains(command, "$") {
				t.Fatalf("%s, with %v", command, variables)
			}
			if !strings.Contains(command, "--locality_instance_id="+id.String()+" ") || !strings.Contains(command, "--locality_zoneid="+Zone(c, pod)) {
				t.Fatal(command)
			}
		}
	})
}

// drawCluster draws a cluster and a group of it: one value of each kind of setting.
func drawCluster(t *rapid.T) (*v1beta2.FoundationDBCluster, fdb.GroupID) {
	one := func(name string, texts ...string) string { return rapid.SampledFrom(texts).Draw(t, name) }
	spec := strings.Join([]string{
		"version: " + one("version", "7.3.69", "7.3.79", "7.4.6"),
		"imageType: " + one("image", "split", "unified"),
		"storageServersPerPod: " + one("storage servers", "0", "1", "3"),
		"logServersPerPod: " + one("log servers", "0", "2"),
		"trustedCAs: " + one("CAs", "[]", "[one, two]"),
		"mainContainer: " + one("main", "{}", "{enableTls: true}", "{imageConfigs: [{baseImage: a/b}]}"),
		"sidecarContainer: " + one("sidecar", "{}", "{enableTls: true, peerVerificationRules: x, enableReadinessProbe: true}", "{enableLivenessProbe: false}"),
		"routing: {" + one("source", "", "publicIPSource: service, ", "publicIPSource: pod, ") + one("family", "", "podIPFamily: 4, ", "podIPFamily: 6, ") +
			one("DNS", "", "useDNSInClusterFile: false", "useDNSInClusterFile: false, headlessService: true", "useDNSInClusterFile: false, defineDNSLocalityFields: true", "dnsDomain: x.y") + "}",
		"faultDomain: " + one("domain", "{}", "{key: foundationdb.org/none}", "{key: foundationdb.org/kubernetes-cluster, value: kc1, zoneCount: 3}", "{key: rack, valueFrom: $RACK}", "{key: rack, valueFrom: metadata.name}"),
		"sidecarVariables: [RACK]",
		"useExplicitListenAddress: " + one("listen", "null", "true", "false"),
		"logGroup: " + one("log group", "''", "mine"),
		"labels: " + one("labels", "{}", "{matchLabels: {app: a}, resourceLabels: {team: b}, processGroupIDLabels: [id, other], processClassLabels: [class]}"),
		"processGroupIDPrefix: " + one("prefix", "''", "dc1"),
		"dataCenter: " + one("data center", "''", "dc1"),
		"buggify: " + one("buggify", "{}", "{noSchedule: ['*']}", "{noSchedule: [log-2]}", "{crashLoop: ['*']}", "{crashLoopContainers: [{containerName: foundationdb-kubernetes-sidecar, targets: [log-2]}]}"),
		"processes: {general: {podTemplate: {metadata: {labels: {rack: r1}}, spec: {containers: [{name: foundationdb, env: [{name: RACK, value: r1}]}, {name: foundationdb-kubernetes-sidecar, env: [{name: RACK, value: r1}]}]}}}" +
			one("claim", "", ", log: {volumeClaimTemplate: {metadata: {name: disk}, spec: {resources: {requests: {storage: 16G}}}}}", ", storage: {podTemplate: {metadata: {annotations: {a: b}}, spec: {nodeSelector: {a: b}, containers: [{name: foundationdb, env: [{name: RACK, value: r2}]}, {name: foundationdb-kubernetes-sidecar, env: [{name: RACK, value: r2}]}]}}}") + "}",
	}, "\n")
	c := &v1beta2.FoundationDBCluster{}
	c.Name, c.Namespace, c.UID, c.Status.RunningVersion = "sample", "default", "1234", "7.3.69"
	mustYAML(t, spec, &c.Spec)
	id := fdb.GroupID{Prefix: c.Spec.ProcessGroupIDPrefix, Class: fdb.Class(one("class", "storage", "log", "transaction", "stateless", "coordinator", "cluster_controller")), Number: rapid.IntRange(1, 99999).Draw(t, "number")}
	return c, id
}
