package rollout_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// typed runs a command that a text of Pawl names, as a shell would.
func (w *world) typed(command string) {
	w.t.Helper()
	var args []string
	for i, part := range strings.Split(strings.TrimPrefix(command, "kubectl "), "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	w.kubectl(args...)
}

func (w *world) typedAll(block string) {
	w.t.Helper()
	for line := range strings.Lines(block) {
		w.typed(strings.TrimSpace(line))
	}
}

// halfWay is a set named etcd with two revisions; its Rollout is there until a person or the test
// takes it away.
func halfWay(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.statefulSet("etcd", 3, appsv1.ParallelPodManagement)
	w.rollout("etcd", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
	w.is("etcd", "Ready", "True")
	w.setImage("etcd", "r2")
	w.waitsFor("etcd", "HeldByPartition")
	return w
}

// free waits until all pods have the new revision, and judges what is left on the set.
func (w *world) free() {
	w.t.Helper()
	w.until("all pods have the new revision", func() bool { return w.images("etcd") == "0=r2 1=r2 2=r2" })
	set := &appsv1.StatefulSet{}
	w.get("etcd", set)
	for _, all := range []map[string]string{set.Labels, set.Annotations} {
		for key := range all {
			if strings.HasPrefix(key, "pawl.dev/") {
				w.t.Errorf("%s is left", key)
			}
		}
	}
	if len(set.OwnerReferences) != 0 || *set.Spec.UpdateStrategy.RollingUpdate.Partition != 0 {
		w.t.Errorf("the set has the owners %v and the strategy %+v", set.OwnerReferences, set.Spec.UpdateStrategy)
	}
}

var inBackticks = regexp.MustCompile("`(kubectl [^`]*)`")

// TestLeftIsFollowed: the commands in the annotation of a workload that was left half way let it go, under
// the admission rule, which undoes the same write without them.
func TestLeftIsFollowed(t *testing.T) {
	w := halfWay(t)
	if err := w.client.Delete(t.Context(), w.now("etcd")); err != nil {
		t.Fatal(err)
	}
	w.until("the Rollout is gone", func() bool { return w.gone("etcd") })
	w.patch(&appsv1.StatefulSet{}, "etcd", `{"metadata":{"labels":{"pawl.dev/held":null}},"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	set := &appsv1.StatefulSet{}
	w.get("etcd", set)
	if set.Labels["pawl.dev/held"] == "" || *set.Spec.UpdateStrategy.RollingUpdate.Partition != 2 {
		t.Fatalf("nothing guards it: %v, %+v", set.Labels, set.Spec.UpdateStrategy.RollingUpdate)
	}
	commands := inBackticks.FindAllStringSubmatch(set.Annotations["pawl.dev/left"], -1)
	if len(commands) != 2 {
		t.Fatalf("the annotation names the commands %v: %s", commands, set.Annotations["pawl.dev/left"])
	}
	for _, c := range commands {
		w.typed(c[1])
	}
	w.free()
}

// TestGuideLetsGo: both lists of commands of the guide's section on deletion, typed word by word.
func TestGuideLetsGo(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "rollouts.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Delete and uninstall\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("the section has %d lists of commands", len(blocks))
	}
	for i, name := range []string{"the Rollout is gone", "the operator is gone"} {
		t.Run(name, func(t *testing.T) {
			w := halfWay(t)
			if i == 0 {
				if err := w.client.Delete(t.Context(), w.now("etcd")); err != nil {
					t.Fatal(err)
				}
				w.until("the Rollout is gone", func() bool { return w.gone("etcd") })
			} else {
				w.stop()
				w.typedAll(blocks[1][1])
				w.until("the Rollout is gone", func() bool { return w.gone("etcd") })
			}
			w.typedAll(blocks[0][1])
			w.free()
		})
	}
}
