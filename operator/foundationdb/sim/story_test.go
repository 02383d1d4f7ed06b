package sim_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestStory: what happens to a cluster whose pods are made by hand, of each image type.
func TestStory(t *testing.T) {
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeUnified, v1beta2.ImageTypeSplit} {
		t.Run(string(image), func(t *testing.T) {
			f := newFixture(t, sim.Options{Seed: 1}, image)
			part := func(title string) { f.Cluster().Note("== %s", title) }
			part("a cluster is created")
			f.create(5, 3, 4)
			f.sameCommands()

			part("a server crashes, and starts again")
			f.Crash(namespace, "sample-storage-2", 1)
			f.Advance(30 * time.Second)
			f.healthy()

			part("a pod is deleted, and comes back with its data")
			f.must(f.Objects().Delete(t.Context(), f.get("sample-storage-4")))
			f.Advance(5 * time.Second)
			f.add(fdb.ClassStorage, 4)
			f.Advance(30 * time.Second)
			f.healthy()

			part("a pod and its claim are deleted by somebody, and come back without data")
			f.DeletePod(namespace, "sample-storage-5")
			f.DeleteClaim(namespace, "sample-storage-5-data")
			f.Advance(5 * time.Second)
			f.add(fdb.ClassStorage, 5)
			f.Advance(10 * time.Minute)
			f.healthy()

			part("a parameter is changed: servers have it after their restart only")
			before := f.commands()
			f.cluster.Spec.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"general": {CustomParameters: []v1beta2.CustomParameter{"knob_x=1"}}}
			f.saveConfigMap()
			f.wake()
			f.Advance(2 * time.Minute)
			if diff := cmp.Diff(before, f.commands()); diff != "" {
				t.Errorf("commands have changed without a restart:\n%s", diff)
			}
			var all []fdb.Address
			for _, p := range f.status().Cluster.Processes {
				all = append(all, p.Address)
			}
			f.run(fdb.Kill(all, false))
			f.Advance(time.Minute)
			f.sameCommands()
			f.healthy()
			for command := range strings.SplitSeq(strings.Join(f.commands(), "\n"), "\n") {
				if !strings.Contains(command, "--knob_x=1") {
					t.Errorf("a server runs without the parameter: %s", command)
				}
			}

			for _, v := range f.Cluster().Violations() {
				t.Error(v)
			}
			golden(t, "story-"+string(image)+".txt", strings.Join(f.Transcript(), "\n")+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +got; -update writes it anew):\n%s", name, diff)
	}
}

func (f *fixture) healthy() {
	f.t.Helper()
	if why := f.Cluster().Unhealthy(); why != "" {
		f.t.Errorf("the database is not healthy: %s", why)
	}
}

// commands returns the command lines that the servers report.
func (f *fixture) commands() []string {
	f.t.Helper()
	var found []string
	for _, p := range f.status().Cluster.Processes {
		found = append(found, p.CommandLine)
	}
	slices.Sort(found)
	return found
}

// sameCommands checks that each server runs with what the operator expects of its variables.
func (f *fixture) sameCommands() {
	f.t.Helper()
	for _, p := range f.status().Cluster.Processes {
		pod := f.get("sample-" + p.Locality["instance_id"])
		variables := f.variables(pod)
		want, err := foundationdb.StartCommands(f.cluster, p.Class, f.image, 1, variables)
		f.must(err)
		if diff := cmp.Diff(want[0], p.CommandLine); diff != "" {
			f.t.Errorf("%s (-operator +server):\n%s", pod.Name, diff)
		}
	}
}
