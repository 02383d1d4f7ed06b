package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

const current = "foundationdb.org/launcher-current-configuration"

func (f *fixture) annotate(pod, key string, value any) {
	f.t.Helper()
	f.patch(f.get(pod), map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// configure gives the pods of a class another configuration, and has them see it.
func (f *fixture) configure(class fdb.Class, text string) {
	f.t.Helper()
	m := lookup(f, &corev1.ConfigMap{}, "sample-config")
	f.patch(m, map[string]any{"data": map[string]any{"fdbmonitor-conf-" + string(class) + "-json": text}})
	f.wake()
	f.Advance(2 * time.Second)
}

func TestIsolated(t *testing.T) {
	f := unified(t)
	f.annotate("sample-storage-5", "foundationdb.org/isolate-process-group", "true")
	f.Advance(2 * time.Second)
	if p := f.get("sample-storage-5"); f.runs(p.Name) || !ready(p) {
		t.Errorf("an isolated pod runs its server: %v, is ready: %v", f.runs(p.Name), ready(p))
	}
	f.annotate("sample-storage-5", "foundationdb.org/isolate-process-group", nil)
	f.Advance(2 * time.Second)
	if !f.runs("sample-storage-5") {
		t.Error("a pod that is isolated no longer does not run its server")
	}
}

func TestRunServers(t *testing.T) {
	f := unified(t)
	text := f.get("sample-stateless-4").Annotations[current]
	f.configure(fdb.ClassStateless, strings.Replace(text, `"version"`, `"runServers":false,"version"`, 1))
	if f.runs("sample-stateless-4") {
		t.Error("a server runs although none shall")
	}
	f.configure(fdb.ClassStateless, text)
	if !f.runs("sample-stateless-4") {
		t.Error("no server runs although one shall")
	}
}

// TestRefusedConfiguration: what the launcher refuses changes neither its servers nor its annotation.
func TestRefusedConfiguration(t *testing.T) {
	f := unified(t)
	good := f.get("sample-log-1").Annotations[current]
	for _, bad := range []string{
		"", "{", `{"arguments":[]}`, `{"version":"7.3"}`, strings.Replace(good, "FDB_ZONE_ID", "NO_SUCH_VARIABLE", 1),
		strings.Replace(good, "7.3.69", "7.4.6", 1), strings.Replace(good, "Concatenate", "Unheard", 1),
	} {
		f.configure(fdb.ClassLog, bad)
		f.Crash(namespace, "sample-log-1", 1)
		f.Advance(6 * time.Minute)
		if p := f.get("sample-log-1"); p.Annotations[current] != good || !f.runs(p.Name) {
			t.Errorf("%q is taken: %q", bad, p.Annotations[current])
		}
	}
	better := strings.Replace(good, `{"value":"--class=log"}`, `{"value":"--class=log"},{"value":"--knob_x=2"}`, 1)
	f.configure(fdb.ClassLog, better)
	if f.get("sample-log-1").Annotations[current] != better {
		t.Error("a good configuration is not taken after bad ones")
	}
}

// TestCrashes: a server that crashes again and again starts later and later.
func TestCrashes(t *testing.T) {
	for image, delays := range map[v1beta2.ImageType][]time.Duration{
		v1beta2.ImageTypeUnified: {0, time.Second, 4 * time.Second, 9 * time.Second},
		v1beta2.ImageTypeSplit:   {0, time.Minute, time.Minute},
	} {
		f := newFixture(t, sim.Options{Seed: 1}, image)
		f.create(5, 3, 4)
		for n, delay := range delays {
			f.Crash(namespace, "sample-stateless-4", 1)
			at := f.Now()
			for !f.runs("sample-stateless-4") && f.Now().Sub(at) < 5*time.Minute {
				f.Advance(100 * time.Millisecond)
			}
			if waited := f.Now().Sub(at); waited != delay+time.Second {
				t.Errorf("%s: after crash %d the server starts again after %s, want %s", image, n+1, waited, delay+time.Second)
			}
		}
	}
}

// TestClusterFileChange: the launcher announces new coordinators.
func TestClusterFileChange(t *testing.T) {
	f := unified(t)
	var coordinators []fdb.Address
	for _, pod := range []string{"sample-log-1", "sample-log-2", "sample-log-3"} {
		coordinators = append(coordinators, fdb.Address{Host: f.get(pod).Status.PodIP, Port: 4501})
	}
	f.run(fdb.Coordinators(coordinators))
	at := f.Now()
	f.Advance(20 * time.Second)
	for _, pod := range []string{"sample-storage-1", "sample-stateless-4"} {
		var seconds int64
		if _, err := fmt.Sscan(f.get(pod).Annotations["foundationdb.org/cluster-file-change"], &seconds); err != nil || seconds < at.Unix()-1 || seconds > f.Now().Unix() {
			t.Errorf("%s announces %v, %v", pod, seconds, err)
		}
	}
}

// TestUpgrade: the new program is there after the sidecar's, and runs after a restart.
func TestUpgrade(t *testing.T) {
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeUnified, v1beta2.ImageTypeSplit} {
		t.Run(string(image), func(t *testing.T) {
			f := newFixture(t, sim.Options{Seed: 1}, image)
			f.create(5, 3, 4)
			f.cluster.Status.RunningVersion = "7.3.69"
			old := f.at()
			var pods corev1.PodList
			f.must(f.Objects().List(t.Context(), &pods, namespace, nil))
			for _, p := range pods.Items {
				image := strings.Replace(p.Spec.Containers[1].Image, "7.3.69", "7.4.6", 1)
				p.Spec.Containers[1].Image = image
				f.patch(&p, map[string]any{"spec": map[string]any{"containers": p.Spec.Containers}})
			}
			f.Advance(10 * time.Second)
			folder := "/var/fdb/shared-binaries/bin/7.4.6"
			if image == v1beta2.ImageTypeSplit {
				folder = "/var/dynamic-conf/bin/7.4.6"
				there, err := f.Sidecars().Present(t.Context(), f.get("sample-log-1"), "bin/7.4.6/fdbserver")
				if err != nil || !there {
					t.Errorf("the new program is there: %v, %v", there, err)
				}
			}
			f.cluster.Spec.Version = "7.4.6"
			f.saveConfigMap()
			f.wake()
			f.Advance(5 * time.Second)
			if got := f.variables(f.get("sample-log-1"))["BINARY_DIR"]; got != folder {
				t.Errorf("BINARY_DIR is %q, want %q", got, folder)
			}
			for _, command := range f.commands() {
				if strings.HasPrefix(command, folder) {
					t.Errorf("a server runs the new program without a restart: %s", command)
				}
			}
			var all []fdb.Address
			for _, p := range f.status().Cluster.Processes {
				all = append(all, p.Address)
			}
			f.Database().Run(t.Context(), old, fdb.Kill(all, true))
			f.Advance(time.Minute)
			f.cluster.Status.RunningVersion = "7.4.6"
			s := f.status()
			if len(s.Cluster.Processes) != 12 {
				t.Errorf("%d processes report", len(s.Cluster.Processes))
			}
			for _, p := range s.Cluster.Processes {
				if p.Version != "7.4.6" || !strings.HasPrefix(p.CommandLine, folder+"/fdbserver ") {
					t.Errorf("a process runs %s: %s", p.Version, p.CommandLine)
				}
			}
			f.sameCommands()
			for _, v := range f.Cluster().Violations() {
				t.Error(v)
			}
		})
	}
}
