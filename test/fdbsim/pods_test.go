// Package fdbsim_test runs the simulated programs of FoundationDB as pods of a real control plane.
package fdbsim_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/program"
	"github.com/pawl-dev/pawl/fdb/sim/world"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// The nodes are started by the test, since their images need the socket of a world.
var suite = controlplane.NewSuite(controlplane.Options{Kubelet: kubelet.Options{Nodes: -1}})

func TestMain(m *testing.M) {
	if program.Is(os.Args[0]) { // a pod's
		os.Exit(program.Main(context.Background(), program.This()))
	}
	suite.Main(m)
}

const patience = time.Minute

// manifest is a pod of the split image and one of the unified image, in the shape in which the operator makes them.
const manifest = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: fdb}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: fdb}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list, watch, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: fdb}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: fdb}
subjects: [{kind: ServiceAccount, name: fdb}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data:
  cluster-file: ""
  fdbmonitor-conf: "[general]\nkill_on_configuration_change = false\nrestart_delay = 60\n"
  config-json: '{"version":"7.3.69","runServers":false}'
---
apiVersion: v1
kind: Pod
metadata: {name: unified}
spec:
  serviceAccountName: fdb
  terminationGracePeriodSeconds: 3
  containers:
  - name: foundationdb
    image: foundationdb/fdb-kubernetes-monitor:7.3.69
    args: [--input-dir, /var/dynamic-conf, --log-path, /var/log/fdb-trace-logs/monitor.log]
    ENV
    volumeMounts:
    - {name: data, mountPath: /var/fdb/data}
    - {name: config, mountPath: /var/dynamic-conf}
    - {name: logs, mountPath: /var/log/fdb-trace-logs}
    - {name: binaries, mountPath: /var/fdb/shared-binaries}
  volumes:
  - {name: data, emptyDir: {}}
  - {name: logs, emptyDir: {}}
  - {name: binaries, emptyDir: {}}
  - name: config
    configMap: {name: config, items: [{key: cluster-file, path: fdb.cluster}, {key: config-json, path: config.json}]}
---
apiVersion: v1
kind: Pod
metadata: {name: split}
spec:
  terminationGracePeriodSeconds: 3
  initContainers:
  - name: foundationdb-kubernetes-init
    image: foundationdb/foundationdb-kubernetes-sidecar:7.3.69-1
    args: [--copy-file, fdb.cluster, --input-monitor-conf, fdbmonitor.conf, --copy-binary, fdbserver, --main-container-version, "7.3.69", --init-mode]
    ENV
    volumeMounts: &mounts
    - {name: config, mountPath: /var/input-files}
    - {name: conf, mountPath: /var/output-files}
  containers:
  - name: foundationdb
    image: foundationdb/foundationdb:7.3.69
    command: [sh, -c]
    args: ["fdbmonitor --conffile /var/dynamic-conf/fdbmonitor.conf --lockfile /var/dynamic-conf/fdbmonitor.lockfile --loggroup sample >> /var/log/fdb-trace-logs/fdbmonitor.log 2>&1"]
    ENV
    volumeMounts:
    - {name: data, mountPath: /var/fdb/data}
    - {name: conf, mountPath: /var/dynamic-conf}
    - {name: logs, mountPath: /var/log/fdb-trace-logs}
  - name: foundationdb-kubernetes-sidecar
    image: foundationdb/foundationdb-kubernetes-sidecar:7.3.69-1
    args: [--copy-file, fdb.cluster, --input-monitor-conf, fdbmonitor.conf, --copy-binary, fdbserver, --main-container-version, "7.3.69"]
    ENV
    volumeMounts: *mounts
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
  volumes:
  - {name: data, emptyDir: {}}
  - {name: conf, emptyDir: {}}
  - {name: logs, emptyDir: {}}
  - name: config
    configMap: {name: config, items: [{key: cluster-file, path: fdb.cluster}, {key: fdbmonitor-conf, path: fdbmonitor.conf}]}
`

// environment is that of all containers.
const environment = `env:
    - {name: FDB_PUBLIC_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: FDB_POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: FDB_POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: FDB_POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: FDB_NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: FDB_MACHINE_ID, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: FDB_ZONE_ID, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: FDB_INSTANCE_ID, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
`

const conf = `[general]
kill_on_configuration_change = false
restart_delay = 60
[fdbserver.1]
command = $BINARY_DIR/fdbserver
cluster_file = /var/fdb/data/fdb.cluster
seed_cluster_file = /var/dynamic-conf/fdb.cluster
public_address = $FDB_PUBLIC_IP:4501
class = storage
datadir = /var/fdb/data
locality_instance_id = $FDB_INSTANCE_ID
locality_zoneid = $FDB_ZONE_ID
locality_machineid = $FDB_MACHINE_ID
`

const config = `{"version":"7.3.69","arguments":[{"value":"--cluster_file=/var/fdb/data/fdb.cluster"},{"value":"--seed_cluster_file=/var/dynamic-conf/fdb.cluster"},` +
	`{"type":"Concatenate","values":[{"value":"--public_address=["},{"type":"Environment","source":"FDB_PUBLIC_IP"},{"value":"]:"},{"type":"ProcessNumber","multiplier":2,"offset":4499}]},` +
	`{"value":"--class=storage"},{"type":"Concatenate","values":[{"value":"--datadir=/var/fdb/data/"},{"type":"ProcessNumber"}]},` +
	`{"type":"Concatenate","values":[{"value":"--locality_instance_id="},{"type":"Environment","source":"FDB_INSTANCE_ID"}]},` +
	`{"type":"Concatenate","values":[{"value":"--locality_zoneid="},{"type":"Environment","source":"FDB_ZONE_ID"}]}]}`

// pods are the two pods, with the world that their servers join.
type pods struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	world     *world.World
	first     fdb.Connection
}

func (p *pods) kubectl(input string, args ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.plane.Binaries.Kubectl, append([]string{"--kubeconfig", p.plane.Kubeconfig(), "-n", p.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// eventually waits until a condition holds, and tells why it did not.
func (p *pods) eventually(what string, holds func(ctx context.Context) string) {
	p.t.Helper()
	await.Until(p.t, patience, what, func(ctx context.Context) error {
		if why := holds(ctx); why != "" {
			return errors.New(why)
		}
		return nil
	})
}

func (p *pods) pod(ctx context.Context, name string) *corev1.Pod {
	pod, err := p.plane.Client().CoreV1().Pods(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Pod{}
	}
	return pod
}

// ip waits until a pod runs and returns its address.
func (p *pods) ip(name string) (ip string) {
	p.t.Helper()
	p.eventually(name+" is ready", func(ctx context.Context) string {
		pod := p.pod(ctx, name)
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ip = pod.Status.PodIP
				return ""
			}
		}
		text, err := json.Marshal(pod.Status)
		return string(text) + " " + errText(err)
	})
	return ip
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (p *pods) reach(what string, holds func(*sim.Cluster) bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := p.world.Wait(ctx, p.first, holds); err != nil {
		p.world.Do(p.first, func(c *sim.Cluster) { p.t.Log(strings.Join(c.Transcript(), "\n")) })
		p.t.Fatalf("%s: %v", what, err)
	}
}

func processes(c *sim.Cluster) int {
	s, err := fdb.ParseStatus(c.Status(c.Connection(), c.Protocol()))
	if err != nil {
		return 0
	}
	return len(s.Cluster.Processes)
}

// TestPods: a server in a pod of each image joins one database, and leaves with its pod.
func TestPods(t *testing.T) {
	plane := suite.Plane(t)
	p := &pods{t: t, plane: plane, namespace: plane.Namespace(t), world: world.New(world.Options{Seed: 1, Speed: 10})}
	t.Cleanup(p.world.Close)
	folder, err := os.MkdirTemp("", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := world.Listen(folder + "/s")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.world.Serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := folder + "/7.3.69"
	if err := program.Install(self, fdb.Version{Major: 7, Minor: 3, Patch: 69}, bin); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{world.AddressVariable: folder + "/s"}
	_, err = plane.StartKubelet(kubelet.Options{Mode: kubelet.Process, Name: "process", Nodes: 2, Images: map[string]kubelet.Image{
		"foundationdb/foundationdb":                    {Path: []string{bin}, Env: env},
		"foundationdb/foundationdb-kubernetes-sidecar": {Command: []string{bin + "/sidecar"}, Env: env},
		"foundationdb/fdb-kubernetes-monitor":          {Command: []string{bin + "/fdb-kubernetes-monitor"}, Env: env},
	}})
	if err != nil {
		t.Fatal(err)
	}

	p.kubectl(strings.ReplaceAll(manifest, "ENV\n", environment), "apply", "-f", "-")
	unified, split := p.ip("unified"), p.ip("split")
	p.first = fdb.Connection{Description: "sample", ID: "first", Coordinators: []fdb.Address{{Host: unified, Port: 4501}}}

	// As the operator does it: the connection string, then the servers.
	data, err := json.Marshal(map[string]any{"data": map[string]string{"cluster-file": p.first.String(), "config-json": config, "fdbmonitor-conf": conf}})
	if err != nil {
		t.Fatal(err)
	}
	p.kubectl("", "patch", "configmap", "config", "--type", "merge", "-p", string(data))
	p.eventually("the configuration is told", func(ctx context.Context) string {
		pod := p.pod(ctx, "unified")
		if pod.Annotations["foundationdb.org/launcher-current-configuration"] == config {
			return ""
		}
		return pod.Annotations["foundationdb.org/launcher-current-configuration"]
	})
	p.eventually("the sidecar has the new configuration", func(ctx context.Context) string {
		for _, path := range []string{"copy_files", "copy_monitor_conf"} {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+split+":8080/"+path, nil)
			if err != nil {
				return err.Error()
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err.Error()
			}
			answer.Body.Close()
		}
		if processesOf(p) < 2 {
			return "too few servers"
		}
		return ""
	})
	if got := p.pod(t.Context(), "unified").Annotations["foundationdb.org/launcher-environment"]; !strings.Contains(got, `"BINARY_DIR":"/usr/bin"`) {
		t.Errorf("the environment is %s", got)
	}

	file := filepath.Join(t.TempDir(), "fdb.cluster")
	if err := os.WriteFile(file, []byte(p.first.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cli := exec.CommandContext(t.Context(), bin+"/fdbcli", "-C", file, "--exec", "configure new double ssd", "--timeout", "60")
	cli.Env = []string{world.AddressVariable + "=" + folder + "/s"}
	if out, err := cli.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	p.reach("healthy", func(c *sim.Cluster) bool { return c.Available() && c.Unhealthy() == "" })
	p.kubectl("", "delete", "pod", "split", "unified")
	p.reach("no server is left", func(c *sim.Cluster) bool { return processes(c) == 0 })
	p.eventually("all programs are gone", func(context.Context) string {
		if p.world.Connections() > 0 {
			return "some are connected"
		}
		return ""
	})
}

func processesOf(p *pods) (count int) {
	p.world.Do(p.first, func(c *sim.Cluster) { count = processes(c) })
	return count
}
