package sim_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

const namespace = "demo"

// fixture is a world with a cluster whose pods are made by hand.
type fixture struct {
	*sim.World
	t       testing.TB
	cluster *v1beta2.FoundationDBCluster
	image   v1beta2.ImageType
	version string
}

func newFixture(t testing.TB, o sim.Options, image v1beta2.ImageType) *fixture {
	t.Helper()
	f := &fixture{World: sim.New(o), t: t, image: image, version: "7.3.69"}
	f.cluster = &v1beta2.FoundationDBCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample"},
		Spec: v1beta2.FoundationDBClusterSpec{
			Version: f.version, ImageType: image,
			DatabaseConfiguration: v1beta2.DatabaseConfiguration{RedundancyMode: "double", StorageEngine: "ssd-2"},
		},
	}
	f.must(f.Objects().Create(t.Context(), f.cluster))
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// saveConfigMap makes or changes the config map as the cluster wants it.
func (f *fixture) saveConfigMap() {
	f.t.Helper()
	c := f.cluster.DeepCopy()
	for _, class := range []fdb.Class{fdb.ClassStorage, fdb.ClassLog, fdb.ClassStateless} {
		c.Status.ProcessGroups = append(c.Status.ProcessGroups, v1beta2.ProcessGroupStatus{ProcessClass: v1beta2.ProcessClass(class)})
	}
	c.Status.ImageTypes = []v1beta2.ImageType{f.image}
	m, err := foundationdb.ConfigMap(c)
	f.must(err)
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	found, err := f.Objects().Get(f.t.Context(), old)
	f.must(err)
	if !found {
		f.must(f.Objects().Create(f.t.Context(), m))
		return
	}
	f.patch(old, map[string]any{"data": m.Data})
}

// add makes the pod of a group, and its claim.
func (f *fixture) add(class fdb.Class, n int) *corev1.Pod {
	f.t.Helper()
	id := string(class) + "-" + strconv.Itoa(n)
	pod := f.pod(class, id)
	if class.Stateful() {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name + "-data", OwnerReferences: pod.OwnerReferences},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("128Gi")}},
			},
		}
		found, err := f.Objects().Get(f.t.Context(), claim.DeepCopy())
		f.must(err)
		if !found {
			f.must(f.Objects().Create(f.t.Context(), claim))
		}
	}
	f.must(f.Objects().Create(f.t.Context(), pod))
	return pod
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// pod is a pod as section 4.1 of the specification says.
func (f *fixture) pod(class fdb.Class, id string) *corev1.Pod {
	labels := map[string]string{
		foundationdb.ClusterLabel: f.cluster.Name, foundationdb.ClassLabel: string(class), foundationdb.GroupLabel: id,
	}
	env := []corev1.EnvVar{
		{Name: "FDB_CLUSTER_FILE", Value: "/var/dynamic-conf/fdb.cluster"},
		field("FDB_PUBLIC_IP", "status.podIP"), field("FDB_POD_IP", "status.podIP"), field("FDB_MACHINE_ID", "spec.nodeName"),
		field("FDB_ZONE_ID", "spec.nodeName"), {Name: "FDB_INSTANCE_ID", Value: id},
		field("FDB_POD_NAME", "metadata.name"), field("FDB_POD_NAMESPACE", "metadata.namespace"), field("FDB_NODE_NAME", "spec.nodeName"),
		{Name: "FDB_DNS_NAME", Value: f.cluster.Name + "-" + id + ".sample.demo.svc.cluster.local"},
	}
	name := f.cluster.Name + "-" + id
	key := "fdbmonitor-conf-" + string(class)
	file := "fdbmonitor.conf"
	if f.image == v1beta2.ImageTypeUnified {
		key, file = key+"-json", "config.json"
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.foundationdb.org/v1beta2", Kind: "FoundationDBCluster", Name: f.cluster.Name, UID: f.cluster.UID}},
		},
		Spec: corev1.PodSpec{
			Hostname: name, Subdomain: f.cluster.Name,
			Volumes: []corev1.Volume{
				{Name: "data"}, {Name: "dynamic-conf"}, {Name: "fdb-trace-logs"}, {Name: "shared-binaries"},
				{Name: "config-map", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: f.cluster.Name + "-config"},
					Items:                []corev1.KeyToPath{{Key: key, Path: file}, {Key: "cluster-file", Path: "fdb.cluster"}},
				}}},
			},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 1,
				PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: "kubernetes.io/hostname",
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
						foundationdb.ClusterLabel: f.cluster.Name, foundationdb.ClassLabel: string(class),
					}},
				},
			}}}},
		},
	}
	if class.Stateful() {
		p.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-data"}
	}
	data := corev1.VolumeMount{Name: "data", MountPath: "/var/fdb/data"}
	if f.image == v1beta2.ImageTypeUnified {
		binaries := corev1.VolumeMount{Name: "shared-binaries", MountPath: "/var/fdb/shared-binaries"}
		p.Spec.Containers = []corev1.Container{{
			Name: "foundationdb", Image: "foundationdb/fdb-kubernetes-monitor:" + f.version, Env: env,
			Args:         []string{"--input-dir", "/var/dynamic-conf", "--log-path", "/var/log/fdb-trace-logs/monitor.log"},
			VolumeMounts: []corev1.VolumeMount{data, {Name: "config-map", MountPath: "/var/dynamic-conf"}, binaries},
		}, {
			Name: "foundationdb-kubernetes-sidecar", Image: "foundationdb/fdb-kubernetes-monitor:" + f.version,
			Args: []string{
				"--mode", "sidecar", "--output-dir", "/var/fdb/shared-binaries", "--main-container-version", f.version,
				"--copy-binary", "fdbserver", "--copy-binary", "fdbcli", "--log-path", "/var/log/fdb-trace-logs/monitor.log",
			},
			VolumeMounts: []corev1.VolumeMount{binaries},
		}}
		return p
	}
	args := []string{
		"--copy-file", "fdb.cluster", "--input-monitor-conf", "fdbmonitor.conf", "--copy-binary", "fdbserver", "--copy-binary", "fdbcli",
		"--main-container-version", f.version, "--substitute-variable", "FDB_POD_IP", "--substitute-variable", "FDB_DNS_NAME",
	}
	mounts := []corev1.VolumeMount{{Name: "config-map", MountPath: "/var/input-files"}, {Name: "dynamic-conf", MountPath: "/var/output-files"}}
	sidecar := "foundationdb/foundationdb-kubernetes-sidecar:" + f.version + "-1"
	p.Spec.InitContainers = []corev1.Container{{
		Name: "foundationdb-kubernetes-init", Image: sidecar, Args: append([]string{"--init-mode"}, args...), Env: env, VolumeMounts: mounts,
	}}
	p.Spec.Containers = []corev1.Container{{
		Name: "foundationdb", Image: "foundationdb/foundationdb:" + f.version, Env: env,
		Command:      []string{"sh", "-c"},
		Args:         []string{"fdbmonitor --conffile /var/dynamic-conf/fdbmonitor.conf --lockfile /var/dynamic-conf/fdbmonitor.lockfile --loggroup sample"},
		VolumeMounts: []corev1.VolumeMount{data, {Name: "dynamic-conf", MountPath: "/var/dynamic-conf"}},
	}, {Name: "foundationdb-kubernetes-sidecar", Image: sidecar, Args: args, Env: env, VolumeMounts: mounts}}
	return p
}

func (f *fixture) get(pod string) *corev1.Pod {
	f.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}}
	found, err := f.Objects().Get(f.t.Context(), p)
	f.must(err)
	if !found {
		f.t.Fatalf("there is no pod %s", pod)
	}
	return p
}

// create makes a database: pods, then the cluster file, then the configuration.
func (f *fixture) create(storage, log, stateless int) {
	f.t.Helper()
	f.saveConfigMap()
	var coordinators []*corev1.Pod
	for _, of := range []struct {
		class fdb.Class
		count int
	}{{fdb.ClassStorage, storage}, {fdb.ClassLog, log}, {fdb.ClassStateless, stateless}} {
		for n := 1; n <= of.count; n++ {
			if p := f.add(of.class, n); of.class == fdb.ClassStorage && n <= 3 {
				coordinators = append(coordinators, p)
			}
		}
	}
	f.Advance(15 * time.Second)
	connection := fdb.Connection{Description: "sample", ID: "first"}
	for _, p := range coordinators {
		connection.Coordinators = append(connection.Coordinators, fdb.Address{Host: f.get(p.Name).Status.PodIP, Port: 4501})
	}
	f.cluster.Status.ConnectionString = connection.String()
	f.must(f.Objects().SaveStatus(f.t.Context(), f.cluster))
	f.saveConfigMap()
	f.wake()
	f.Advance(10 * time.Second)
	f.run(fdb.Configure(fdb.Configuration{RedundancyMode: "double", StorageEngine: "ssd-2"}, true))
	f.Advance(30 * time.Second)
}

// wake has all pods see the config map.
func (f *fixture) wake() {
	f.t.Helper()
	var pods corev1.PodList
	f.must(f.Objects().List(f.t.Context(), &pods, namespace, nil))
	for i := range pods.Items {
		p := &pods.Items[i]
		f.patch(p, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			"foundationdb.org/outdated-config-map-seen": fmt.Sprint(f.Now().Unix()),
		}}})
	}
	if f.image != v1beta2.ImageTypeUnified {
		f.Advance(2 * time.Second)
		for i := range pods.Items {
			f.must(f.Sidecars().Copy(f.t.Context(), &pods.Items[i]))
		}
	}
}

func (f *fixture) at() port.Endpoint {
	f.t.Helper()
	at, err := port.EndpointOf(f.cluster)
	f.must(err)
	return at
}

func (f *fixture) run(call fdb.Call) port.Answer {
	f.t.Helper()
	a := f.Database().Run(f.t.Context(), f.at(), call)
	if a.Outcome == fdb.Refused {
		f.t.Fatalf("%s: %s", call.Command, a.Result)
	}
	return a
}

func (f *fixture) status() *fdb.Status {
	f.t.Helper()
	s, err := f.Database().Status(f.t.Context(), f.at(), port.Long)
	f.must(err)
	return s
}

func (f *fixture) patch(o port.Object, patch map[string]any) {
	f.t.Helper()
	text, err := json.Marshal(patch)
	f.must(err)
	f.must(f.Objects().Patch(f.t.Context(), o, text))
}

// variables are what a pod's files are made with, as the pod says.
func (f *fixture) variables(pod *corev1.Pod) map[string]string {
	f.t.Helper()
	if f.image == v1beta2.ImageTypeSplit {
		known, err := f.Sidecars().Substitutions(f.t.Context(), pod)
		f.must(err)
		return known
	}
	var known map[string]string
	f.must(json.Unmarshal([]byte(pod.Annotations["foundationdb.org/launcher-environment"]), &known))
	return known
}
