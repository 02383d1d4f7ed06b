package foundationdb

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

var (
	storage1 = fdb.GroupID{Class: fdb.ClassStorage, Number: 1}
	log2     = fdb.GroupID{Class: fdb.ClassLog, Number: 2}
)

func podOf(t *testing.T, c *v1beta2.FoundationDBCluster, id fdb.GroupID) *corev1.Pod {
	t.Helper()
	pod, err := Pod(c, id, PodFacts{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func mainOf(pod *corev1.Pod) *corev1.Container {
	return containerOf(pod.Spec.Containers, MainContainer)
}
func sidecarOf(pod *corev1.Pod) *corev1.Container {
	return containerOf(pod.Spec.Containers, SidecarContainer)
}

// variablesOf returns the variables of a container as text: a value, or the path of a field.
func variablesOf(c *corev1.Container) map[string]string {
	m := map[string]string{}
	for _, v := range c.Env {
		if m[v.Name] = v.Value; v.ValueFrom != nil {
			m[v.Name] = "<" + v.ValueFrom.FieldRef.FieldPath + ">"
		}
	}
	return m
}

// TestPods: what pods look like, of both images, with and without TLS, with one and with several servers.
func TestPods(t *testing.T) {
	const tls = `, mainContainer: {enableTls: true, peerVerificationRules: "S.CN=a"}, sidecarContainer: {enableTls: true, peerVerificationRules: "S.CN=b"}, trustedCAs: [one]`
	for _, image := range []string{"split", "unified"} {
		for name, extra := range map[string]string{"plain": "", "tls": tls} {
			for count, servers := range map[string]string{"one": "", "several": ", storageServersPerPod: 2"} {
				c := clusterOf(t, `spec: {imageType: `+image+extra+servers+`}`)
				golden(t, "pod-"+image+"-"+name+"-"+count+".yaml", asText(t, podOf(t, c, storage1)))
			}
		}
	}
	golden(t, "pod-template.yaml", asText(t, podOf(t, clusterOf(t, everyTemplate), fdb.GroupID{Prefix: "dc1", Class: fdb.ClassStateless, Number: 3})))
}

// everyTemplate has a template that names all that may be named.
const everyTemplate = `
spec:
  processGroupIDPrefix: dc1
  dataCenter: dc1
  labels: {matchLabels: {app: sample}, resourceLabels: {team: storage}, processGroupIDLabels: [id, other-id], processClassLabels: [class, other-class]}
  faultDomain: {key: topology.kubernetes.io/zone, valueFrom: $RACK}
  routing: {publicIPSource: service, podIPFamily: 6}
  buggify: {noSchedule: [dc1-stateless-3]}
  processes:
    general:
      podTemplate:
        metadata:
          name: ignored
          labels: {mine: "1", app: not-mine, class: not-mine}
          annotations: {foundationdb.org/delay-shutdown: 60s, foundationdb.org/image-type: ignored, foundationdb.org/last-applied-spec: ignored}
        spec:
          hostname: ignored
          serviceAccountName: fdb-kubernetes
          nodeSelector: {disk: fast}
          tolerations: [{key: dedicated, operator: Exists}]
          affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, podAffinityTerm: {topologyKey: rack}}]}}
          initContainers: [{name: first, image: busybox}, {name: foundationdb-kubernetes-init, image: ignored}]
          containers:
          - {name: before, image: busybox}
          - name: foundationdb
            image: registry:5000/mirror/fdb
            command: [wrapper]
            args: [ignored]
            resources: {requests: {cpu: 2}}
            securityContext: {readOnlyRootFilesystem: false, runAsUser: 0}
            env: [{name: FDB_CLUSTER_FILE, value: /mine}, {name: FDB_INSTANCE_ID, value: ignored}, {name: RACK, value: r1}]
            volumeMounts: [{name: data, mountPath: /mine}, {name: certificates, mountPath: /certificates}]
          volumes: [{name: certificates, secret: {secretName: certificates}}, {name: fdb-trace-logs, hostPath: {path: /mine}}]
`

// TestPublishedHashes: the operator that people know makes pods with these hashes. So pods that it has made are as
// they should be, and none is made anew. Computed by fdb-kubernetes-operator 2.33.0, internal.GetPod.
func TestPublishedHashes(t *testing.T) {
	for _, row := range publishedHashes {
		for image, want := range map[string]string{"split": row.split, "unified": row.unified} {
			c := clusterOf(t, `spec: {imageType: `+image+`, `+row.spec+`}`)
			id, err := fdb.ParseGroupID(row.id)
			if err != nil {
				t.Fatal(err)
			}
			if got := podOf(t, c, id).Annotations[SpecAnnotation]; got != want {
				t.Errorf("%s, %s of {%s}: %s, expected %s", row.id, image, row.spec, got, want)
			}
		}
	}
}

// TestPodNames: each name of the published pods is there, as other programs and people look for it.
func TestPodNames(t *testing.T) {
	c := clusterOf(t, `spec: {storageServersPerPod: 2, trustedCAs: [one], sidecarVariables: [RACK], sidecarContainer: {enableTls: true}}`)
	split := c.DeepCopy()
	split.Spec.ImageType = v1beta2.ImageTypeSplit
	a, b := podOf(t, c, storage1), podOf(t, split, storage1)

	equal(t, "name", a.Name, "sample-storage-1")
	equal(t, "labels", a.Labels, map[string]string{
		"foundationdb.org/fdb-cluster-name": "sample", "foundationdb.org/fdb-process-class": "storage", "foundationdb.org/fdb-process-group-id": "storage-1",
	})
	equal(t, "annotations", a.Annotations, map[string]string{
		"foundationdb.org/last-applied-spec": PodHash(&a.Spec), "foundationdb.org/image-type": "unified", "foundationdb.org/public-ip-source": "pod", "foundationdb.org/ip-family": "0",
	})
	equal(t, "image type", b.Annotations["foundationdb.org/image-type"], "split")
	equal(t, "images", []string{mainOf(a).Image, sidecarOf(a).Image, mainOf(b).Image, sidecarOf(b).Image, b.Spec.InitContainers[0].Image}, []string{
		"foundationdb/fdb-kubernetes-monitor:7.3.69", "foundationdb/fdb-kubernetes-monitor:7.3.69",
		"foundationdb/foundationdb:7.3.69", "foundationdb/foundationdb-kubernetes-sidecar:7.3.69-1", "foundationdb/foundationdb-kubernetes-sidecar:7.3.69-1",
	})
	common := map[string]string{
		"FDB_PUBLIC_IP": "<status.podIP>", "FDB_POD_IP": "<status.podIP>", "FDB_MACHINE_ID": "<spec.nodeName>", "FDB_ZONE_ID": "<spec.nodeName>",
		"FDB_INSTANCE_ID": "storage-1", "FDB_DNS_NAME": "sample-storage-1.sample.default.svc.cluster.local", "STORAGE_SERVERS_PER_POD": "2",
	}
	with := func(extra map[string]string) map[string]string {
		m := map[string]string{}
		for _, from := range []map[string]string{common, extra} {
			for name, value := range from {
				m[name] = value
			}
		}
		return m
	}
	equal(t, "variables of the launcher", variablesOf(mainOf(a)), with(map[string]string{
		"FDB_CLUSTER_FILE": "/var/dynamic-conf/fdb.cluster", "FDB_TLS_CA_FILE": "/var/dynamic-conf/ca.pem",
		"FDB_POD_NAME": "<metadata.name>", "FDB_POD_NAMESPACE": "<metadata.namespace>", "FDB_NODE_NAME": "<spec.nodeName>",
		"FDB_NETWORK_OPTION_TRACE_LOG_GROUP": "sample", "FDB_NETWORK_OPTION_TRACE_ENABLE": "/var/log/fdb-trace-logs",
	}))
	equal(t, "variables of fdbmonitor", variablesOf(mainOf(b)), map[string]string{"FDB_CLUSTER_FILE": "/var/dynamic-conf/fdb.cluster", "FDB_TLS_CA_FILE": "/var/dynamic-conf/ca.pem"})
	equal(t, "variables of the sidecar", variablesOf(sidecarOf(b)), with(map[string]string{"FDB_TLS_VERIFY_PEERS": "", "FDB_TLS_CA_FILE": "/var/input-files/ca.pem"}))

	for what, row := range map[string][2]string{
		"launcher":        {strings.Join(mainOf(a).Args, " "), "--input-dir /var/dynamic-conf --log-path /var/log/fdb-trace-logs/monitor.log --process-count 2"},
		"unified sidecar": {strings.Join(sidecarOf(a).Args, " "), "--mode sidecar --output-dir /var/fdb/shared-binaries --main-container-version 7.3.69 --copy-binary fdbserver --copy-binary fdbcli --log-path /var/log/fdb-trace-logs/monitor.log"},
		"fdbmonitor": {strings.Join(slices.Concat(mainOf(b).Command, mainOf(b).Args), " "), "sh -c fdbmonitor --conffile /var/dynamic-conf/fdbmonitor.conf --lockfile /var/dynamic-conf/fdbmonitor.lockfile --loggroup sample" +
			" >> /var/log/fdb-trace-logs/fdbmonitor-$(date '+%Y-%m-%d').log 2>&1"},
		"split sidecar": {strings.Join(sidecarOf(b).Args, " "), "--copy-file fdb.cluster --copy-file ca.pem --input-monitor-conf fdbmonitor.conf --copy-binary fdbserver --copy-binary fdbcli --main-container-version 7.3.69" +
			" --substitute-variable FDB_POD_IP --substitute-variable RACK --substitute-variable FDB_DNS_NAME --tls"},
		"init container": {strings.Join(b.Spec.InitContainers[0].Args, " "), "--copy-file fdb.cluster --copy-file ca.pem --input-monitor-conf fdbmonitor.conf --copy-binary fdbserver --copy-binary fdbcli --main-container-version 7.3.69" +
			" --substitute-variable FDB_POD_IP --substitute-variable RACK --substitute-variable FDB_DNS_NAME --init-mode"},
	} {
		equal(t, what, row[0], row[1])
	}

	mounts := func(c *corev1.Container) (list []string) {
		for _, m := range c.VolumeMounts {
			list = append(list, m.Name+" "+m.MountPath)
		}
		return list
	}
	equal(t, "mounts", [][]string{mounts(mainOf(a)), mounts(sidecarOf(a)), mounts(mainOf(b)), mounts(sidecarOf(b)), mounts(&b.Spec.InitContainers[0])}, [][]string{
		{"data /var/fdb/data", "config-map /var/dynamic-conf", "shared-binaries /var/fdb/shared-binaries", "fdb-trace-logs /var/log/fdb-trace-logs"},
		{"shared-binaries /var/fdb/shared-binaries", "fdb-trace-logs /var/log/fdb-trace-logs"},
		{"data /var/fdb/data", "dynamic-conf /var/dynamic-conf", "fdb-trace-logs /var/log/fdb-trace-logs"},
		{"config-map /var/input-files", "dynamic-conf /var/output-files"}, {"config-map /var/input-files", "dynamic-conf /var/output-files"},
	})
	files := func(pod *corev1.Pod) (list []string) {
		for _, v := range pod.Spec.Volumes {
			if v.ConfigMap != nil {
				list = append(list, v.ConfigMap.Name)
				for _, item := range v.ConfigMap.Items {
					list = append(list, item.Key+" "+item.Path)
				}
			}
		}
		return list
	}
	equal(t, "files", [][]string{files(a), files(b)}, [][]string{
		{"sample-config", "fdbmonitor-conf-storage-json config.json", "cluster-file fdb.cluster", "ca-file ca.pem"},
		{"sample-config", "fdbmonitor-conf-storage-density-2 fdbmonitor.conf", "cluster-file fdb.cluster", "ca-file ca.pem"},
	})
	for _, pod := range []*corev1.Pod{a, b} {
		m, err := ConfigMap(c)
		if pod == b {
			m, err = ConfigMap(split)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files(pod)[1:] {
			if key, _, _ := strings.Cut(file, " "); m.Data[key] == "" && key != "cluster-file" && !strings.HasPrefix(key, "fdbmonitor-conf") {
				t.Errorf("the config map has no %s", key)
			}
		}
	}
}

// TestPodVersions: which versions the containers have before, during and after an upgrade.
func TestPodVersions(t *testing.T) {
	for _, row := range []struct{ running, desired, main, sidecar, patched string }{
		{"", "7.3.69", "7.3.69", "7.3.69", "7.3.69"},
		{"7.3.69", "7.3.69", "7.3.69", "7.3.69", "7.3.69"},
		{"7.3.69", "7.3.79", "7.3.79", "7.3.79", "7.3.79"}, // compatible: at once
		{"7.3.79", "7.3.69", "7.3.69", "7.3.69", "7.3.69"},
		{"7.3.69", "7.4.6", "7.3.69", "7.3.69", "7.4.6"}, // incompatible: running pods get the sidecar first
		{"7.4.6", "7.4.6", "7.4.6", "7.4.6", "7.4.6"},
		{"7.3.0-rc1", "7.3.0", "7.3.0-rc1", "7.3.0-rc1", "7.3.0"},
		{"7.3.0-rc1", "7.3.0-rc2", "7.3.0-rc1", "7.3.0-rc1", "7.3.0-rc2"},
		{"unreadable", "7.3.69", "7.3.69", "7.3.69", "7.3.69"},
	} {
		for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
			c := clusterOf(t, "{}")
			c.Status.RunningVersion, c.Spec.Version, c.Spec.ImageType = row.running, row.desired, image
			pod, suffix := podOf(t, c, log2), ""
			if image == v1beta2.ImageTypeSplit {
				suffix = "-1"
			}
			tag := func(image string) string { return image[strings.LastIndex(image, ":")+1:] }
			main, err := MainImage(c, fdb.ClassLog)
			sidecar, err2 := SidecarImage(c, fdb.ClassLog, c.Spec.ImageType)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			equal(t, fmt.Sprint(row, image), []string{tag(mainOf(pod).Image), tag(main), tag(sidecarOf(pod).Image), tag(sidecar), argumentOf(sidecarOf(pod).Args, "--main-container-version")},
				[]string{row.main, row.main, row.sidecar + suffix, row.patched + suffix, row.main})
		}
	}
}

// TestImages: where the image of a container comes from.
func TestImages(t *testing.T) {
	const container = `processes: {log: {podTemplate: {spec: {containers: [{name: foundationdb, image: "%s"}]}}}}`
	for text, want := range map[string]string{
		`{}`: "foundationdb/fdb-kubernetes-monitor:7.3.69",
		`{mainContainer: {imageConfigs: [{baseImage: a/b}]}}`:                                                "a/b:7.3.69",
		`{mainContainer: {imageConfigs: [{tagSuffix: -x}]}}`:                                                 "foundationdb/fdb-kubernetes-monitor:7.3.69-x",
		`{mainContainer: {imageConfigs: [{version: 7.3.79, tag: x}, {version: 7.3.69, tag: "y"}]}}`:          "foundationdb/fdb-kubernetes-monitor:y",
		`{` + fmt.Sprintf(container, "a/b") + `, mainContainer: {imageConfigs: [{baseImage: c, tag: "1"}]}}`: "a/b:1",
		`{` + fmt.Sprintf(container, "host:5000/b") + `}`:                                                    "host:5000/b:7.3.69",
		`{` + fmt.Sprintf(container, "a/b:1") + `}`:                                                          "FDB_SPEC_INVALID",
		`{` + fmt.Sprintf(container, "a/b@sha256:1") + `}`:                                                   "FDB_SPEC_INVALID",
	} {
		c := clusterOf(t, `spec: `+text)
		got, err := MainImage(c, fdb.ClassLog)
		if err != nil {
			got = string(fault.Of(err).Code)
		}
		equal(t, text, got, want)
		if _, podErr := Pod(c, log2, PodFacts{}); (podErr == nil) != (err == nil) {
			t.Errorf("%s: the pod: %v", text, podErr)
		}
	}
	configs := make([]v1beta2.ImageConfig, 1, 2)
	configs[0] = v1beta2.ImageConfig{TagSuffix: "-x"}
	c := clusterOf(t, "{}")
	c.Spec.MainContainer.ImageConfigs = configs
	if _, err := MainImage(c, fdb.ClassLog); err != nil || configs[:2][1].BaseImage != "" {
		t.Errorf("the spec was changed: %v, %v", configs[:2], err)
	}
}

// TestFaultDomains: what is a fault domain, and how pods are spread over them.
func TestFaultDomains(t *testing.T) {
	for text, want := range map[string][3]string{ // machine, zone, topology key
		`{}`:                           {"<spec.nodeName>", "<spec.nodeName>", "kubernetes.io/hostname"},
		`{key: foundationdb.org/none}`: {"<metadata.name>", "<metadata.name>", ""},
		`{key: foundationdb.org/kubernetes-cluster, value: kc1}`: {"<spec.nodeName>", "kc1", ""},
		`{key: rack, valueFrom: $RACK}`:                          {"<spec.nodeName>", "", "rack"},
		`{key: rack, valueFrom: "metadata.labels['rack']"}`:      {"<spec.nodeName>", "<metadata.labels['rack']>", "rack"},
	} {
		pod := podOf(t, clusterOf(t, `spec: {faultDomain: `+text+`}`), log2)
		key := ""
		if a := pod.Spec.Affinity; a != nil {
			term := a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
			key = term.TopologyKey
			equal(t, "selector", term.LabelSelector.MatchLabels, map[string]string{ClusterLabel: "sample", ClassLabel: "log"})
		}
		v := variablesOf(mainOf(pod))
		equal(t, text, [3]string{v["FDB_MACHINE_ID"], v["FDB_ZONE_ID"], key}, want)
	}
}

// TestAddresses: where the IPs of a pod come from.
func TestAddresses(t *testing.T) {
	for text, want := range map[string][5]string{ // public IP, pod IP, family, bind address, public-ip
		`{}`:                        {"<status.podIP>", "<status.podIP>"},
		`{podIPFamily: 4}`:          {"<status.podIPs>", "<status.podIPs>", "4"},
		`{podIPFamily: 6}`:          {"<status.podIPs>", "<status.podIPs>", "6", "[::]:8080"},
		`{publicIPSource: service}`: {"<metadata.annotations['foundationdb.org/public-ip']>", "<status.podIP>", "", "", "1.2.3.4"},
		`{publicIPSource: service, podIPFamily: 4}`: {"<metadata.annotations['foundationdb.org/public-ip']>", "<status.podIPs>", "4", "", "1.2.3.4"},
	} {
		for _, image := range []string{"split", "unified"} {
			pod, err := Pod(clusterOf(t, `spec: {imageType: `+image+`, routing: `+text+`}`), log2, PodFacts{ServiceIP: "1.2.3.4"})
			if err != nil {
				t.Fatal(err)
			}
			container, want := mainOf(pod), want
			if image == "split" {
				container = sidecarOf(pod)
			} else {
				want[2], want[3] = "", ""
			}
			v := variablesOf(container)
			equal(t, image+text, [5]string{v["FDB_PUBLIC_IP"], v["FDB_POD_IP"], argumentOf(container.Args, "--public-ip-family"), argumentOf(container.Args, "--bind-address"), pod.Annotations[PublicIPAnnotation]}, want)
		}
	}
	for text, want := range map[string]bool{`{}`: true, `{useExplicitListenAddress: false}`: false, `{useExplicitListenAddress: false, routing: {publicIPSource: service}}`: true} {
		for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
			c := clusterOf(t, `spec: `+text)
			c.Spec.ImageType = image
			equal(t, text, HasListenIP(podOf(t, c, log2)), want)
		}
	}
}

// TestPodDNS: pods have names as long as they are asked for, or stand in the cluster file.
func TestPodDNS(t *testing.T) {
	const name = "sample-log-2.sample.default.svc.cluster.local"
	for text, want := range map[string][3]string{ // host name, subdomain, FDB_DNS_NAME
		`spec: {}`:                          {"sample-log-2", "sample", name},
		`spec: {routing: {dnsDomain: a.b}}`: {"sample-log-2", "sample", "sample-log-2.sample.default.svc.a.b"},
		`spec: {routing: {useDNSInClusterFile: false}}`:                                                                  {},
		`spec: {routing: {useDNSInClusterFile: false, headlessService: true}}`:                                           {"sample-log-2", "sample", ""},
		`spec: {routing: {useDNSInClusterFile: false, defineDNSLocalityFields: true}}`:                                   {"sample-log-2", "sample", name},
		`{spec: {routing: {useDNSInClusterFile: false}}, status: {connectionString: "a:b@1.1.1.1:4501,[::1]:4501:tls"}}`: {},
		`{spec: {routing: {useDNSInClusterFile: false}}, status: {connectionString: "a:b@1.1.1.1:4501,name.x:4501"}}`:    {"sample-log-2", "sample", name},
	} {
		for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
			c := clusterOf(t, text)
			c.Spec.ImageType = image
			pod := podOf(t, c, log2)
			container := mainOf(pod)
			if image == v1beta2.ImageTypeSplit {
				container = sidecarOf(pod)
				if slices.Contains(container.Args, "FDB_DNS_NAME") != (want[2] != "") {
					t.Errorf("%s: %v", text, container.Args)
				}
			}
			equal(t, text, [3]string{pod.Spec.Hostname, pod.Spec.Subdomain, variablesOf(container)["FDB_DNS_NAME"]}, want)
		}
	}
}

// TestNamesGoLate: pods are made anew once when names are turned off, after the coordinators have IPs.
func TestNamesGoLate(t *testing.T) {
	for _, image := range []string{"split", "unified"} {
		hash := func(routing, coordinator string) string {
			c := clusterOf(t, `{spec: {imageType: `+image+`, routing: `+routing+`}, status: {connectionString: "a:b@`+coordinator+`:4501"}}`)
			return podOf(t, c, log2).Annotations[SpecAnnotation]
		}
		const off = `{useDNSInClusterFile: false}`
		if hash(`{}`, "x.y") != hash(off, "x.y") {
			t.Errorf("%s: the pod changes while the cluster file has names", image)
		}
		if hash(off, "x.y") == hash(off, "1.1.1.1") || hash(`{}`, "x.y") != hash(`{}`, "1.1.1.1") {
			t.Errorf("%s: the name stays, or goes too early", image)
		}
	}
}

// TestProbes: only the sidecar of the split image has probes of ours.
func TestProbes(t *testing.T) {
	for text, want := range map[string][2]string{
		`{}`: {`{"tcpSocket":{"port":8080},"timeoutSeconds":1,"periodSeconds":30,"failureThreshold":5}`, "null"},
		`{sidecarContainer: {enableLivenessProbe: false, enableReadinessProbe: true}}`:                                                          {"null", `{"tcpSocket":{"port":8080}}`},
		`{processes: {log: {podTemplate: {spec: {containers: [{name: foundationdb-kubernetes-sidecar, livenessProbe: {periodSeconds: 7}}]}}}}}`: {`{"periodSeconds":7}`, "null"},
	} {
		c := clusterOf(t, `spec: `+text)
		c.Spec.ImageType = v1beta2.ImageTypeSplit
		pod := podOf(t, c, log2)
		live, _ := json.Marshal(sidecarOf(pod).LivenessProbe)
		ready, _ := json.Marshal(sidecarOf(pod).ReadinessProbe)
		equal(t, text, [2]string{string(live), string(ready)}, want)
		if mainOf(pod).LivenessProbe != nil || pod.Spec.InitContainers[0].LivenessProbe != nil {
			t.Error("another container has a probe")
		}
	}
}

// TestLogGroupIsQuoted: the log group stands in a shell command.
func TestLogGroupIsQuoted(t *testing.T) {
	for group, want := range map[string]string{"a-b_c.1": "a-b_c.1", "a b": "'a b'", "a'$(b)": `'a'\''$(b)'`, "": "sample"} {
		c := clusterOf(t, `spec: {imageType: split}`)
		c.Spec.LogGroup = group
		if args := mainOf(podOf(t, c, log2)).Args[0]; !strings.Contains(args, " --loggroup "+want+" >> ") {
			t.Errorf("%q: %s", group, args)
		}
	}
}

// TestShellWord: a shell reads exactly the text.
func TestShellWord(t *testing.T) {
	for _, text := range []string{"a", "a b", "a'b", `a"$(id)`, "a;b&c|d>e", "`id`", "*", "~", "#x", "", "ä", "-x", `\\`, "a\tb"} {
		got, err := exec.Command("sh", "-c", "printf '[%s]' "+shellWord(text)).Output() //nolint:gosec // that is the point
		if err != nil {
			t.Fatal(err)
		}
		equal(t, text, string(got), "["+text+"]")
	}
}

// TestConfigAnnotation: a pod tells which files it has when it is told.
func TestConfigAnnotation(t *testing.T) {
	c := clusterOf(t, `{spec: {storageServersPerPod: 2}, status: {connectionString: "a:b@1.1.1.1:4501"}}`)
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
		c.Spec.ImageType = image
		m, err := ConfigMap(c)
		if err != nil {
			t.Fatal(err)
		}
		pod, err := Pod(c, storage1, PodFacts{ConfigMap: m})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, string(image), pod.Annotations["foundationdb.org/last-applied-config-map"], ConfigHash(m, fdb.ClassStorage, image, 2))
	}
}
