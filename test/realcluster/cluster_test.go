package realcluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// deploy/install.yaml brings up the operator, and the sample becomes Ready; a delete leaves
// nothing of it, volumes included.
func TestInstall(t *testing.T) {
	f := newFixture(t)
	took, _ := install(f) // newFixture has checked the error
	t.Logf("the operator is rolled out %s after kubectl apply", took.Round(100*time.Millisecond))
	f.create()
	t.Logf("\n%s", f.kubectl("get", "ssc,pods,pvc", "-o", "wide"))
	f.kubectl("delete", "ssc", sample, "--timeout=3m")
	f.await(time.Minute, "nothing is left", func(context.Context) error {
		left := f.kubectl("get", "pods,pvc,svc,deploy,secrets,leases", "-l", "pawl.dev/cluster="+sample, "-o", "name")
		if strings.Contains(left, "/") {
			return errors.New(left)
		}
		return nil
	})
}

// Of a client that writes through the Service no answered row is lost, whatever is done to the
// writer. The pauses are in bench/README.md.
func TestWritesSurvive(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*fixture, *v1alpha1.SharedStorageCluster) func(*v1alpha1.SharedStorageCluster) error
	}{
		{"a switch", switchWriter},
		{"a forced deletion of the writer's pod", deleteWriter},
		{"a change of the class", changeClass},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			cluster := f.create()
			w := f.write()
			w.pause(t)
			began := time.Now()
			cluster = f.awaitRunning(c.do(f, cluster))
			took, pause := time.Since(began), w.pause(t)
			rows := w.end(cluster)
			t.Logf("%s: done after %s, longest write pause %s; all of %d answered rows are on all instances", c.name, took.Round(100*time.Millisecond), pause, rows)
		})
	}
}

// switchWriter asks for a switch to a reader.
func switchWriter(f *fixture, c *v1alpha1.SharedStorageCluster) func(*v1alpha1.SharedStorageCluster) error {
	target := ""
	for id := range c.Status.Instances {
		if id != c.Status.Writer {
			target = id
		}
	}
	f.kubectl("annotate", "ssc", sample, "pawl.dev/switch-writer="+target)
	return func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Writer != target {
			return fmt.Errorf("the writer is %s, not %s", c.Status.Writer, target)
		}
		return nil
	}
}

// deleteWriter deletes the pod of the writer as if its node were gone.
func deleteWriter(f *fixture, c *v1alpha1.SharedStorageCluster) func(*v1alpha1.SharedStorageCluster) error {
	was := c.Status.Instances[c.Status.Writer].Address
	pod := f.kubectl("get", "pods", "-o", `jsonpath={.items[?(@.status.podIP=="`+was+`")].metadata.name}`)
	f.kubectl("delete", "pod", pod, "--force", "--grace-period=0")
	return func(c *v1alpha1.SharedStorageCluster) error {
		for id, i := range c.Status.Instances {
			if i.Address == was {
				return fmt.Errorf("instance %s is still at %s", id, was)
			}
		}
		return nil
	}
}

// changeClass asks for a class with other limits, which restarts all instances.
func changeClass(f *fixture, _ *v1alpha1.SharedStorageCluster) func(*v1alpha1.SharedStorageCluster) error {
	f.kubectl("patch", "ssc", sample, "--type=merge", "-p", `{"spec":{"class":{"name":"wide"}}}`)
	return func(c *v1alpha1.SharedStorageCluster) error {
		for id, i := range c.Status.Instances {
			if i.Class != "wide" {
				return fmt.Errorf("instance %s is of class %s", id, i.Class)
			}
		}
		return nil
	}
}
