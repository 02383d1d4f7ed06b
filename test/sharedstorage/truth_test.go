package sharedstorage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// conditionOf returns a condition as "True Reason".
func conditionOf(c *v1alpha1.SharedStorageCluster, kind string) string {
	for _, cond := range c.Status.Conditions {
		if cond.Type == kind {
			return string(cond.Status) + " " + cond.Reason
		}
	}
	return ""
}

// turns waits until a condition has this status and reason, and returns how long it took.
func (w *fixture) turns(limit time.Duration, name, kind string, want ...string) time.Duration {
	w.t.Helper()
	began := time.Now()
	w.await(limit, fmt.Sprintf("%s is %s", kind, strings.Join(want, " or ")), func(ctx context.Context) error {
		c, err := w.cluster(ctx, name)
		if err != nil {
			return err
		}
		now := conditionOf(c, kind)
		for _, one := range want {
			if strings.HasPrefix(now, one) {
				return nil
			}
		}
		return fmt.Errorf("it is %s", now)
	})
	took := time.Since(began)
	w.t.Logf("%-18s %-26s after %s", kind, strings.Join(want, " or "), took.Round(10*time.Millisecond))
	return took
}

// signalPod signals all processes of a pod.
func (w *fixture) signalPod(pod string, sig syscall.Signal) {
	w.t.Helper()
	if err := w.plane.Kubelet.Signal(w.namespace, pod, "", sig); err != nil {
		w.t.Fatal(err)
	}
}

// managerPod returns the pod of a cluster manager and how often its container was started again.
func (w *fixture) managerPod(ctx context.Context, name string) (pod string, restarts int32, ready bool) {
	var pods corev1.PodList
	if err := w.client.List(ctx, &pods, client.InNamespace(w.namespace), client.MatchingLabels{"pawl.dev/cluster": name, "pawl.dev/component": "manager"}); err != nil || len(pods.Items) != 1 {
		return "", 0, false
	}
	p := pods.Items[0]
	for _, s := range p.Status.ContainerStatuses {
		restarts, ready = restarts+s.RestartCount, s.Ready
	}
	return p.Name, restarts, ready
}

// The conditions of a cluster follow what happens within seconds: a reader that the writer does not
// stream to, commits that wait, a manager that is frozen, a claim that somebody deletes, a writer
// that is frozen. A client loses no answered row, its longest pause is under ten seconds, and the
// readers stay behind their Service.
func TestConditionsAreTruths(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.awaitRunning("orders", 2, nil)
	w.turns(time.Minute, "orders", "HighAvailability", "True FailoverOn")
	nodes := map[string]bool{}
	for _, i := range c.Status.Instances {
		nodes[i.Node] = true
	}
	if len(nodes) != 3 {
		t.Errorf("the instances are on nodes %v, by %s", nodes, w.kubectl("get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.name} {.spec.topologySpreadConstraints} {.spec.nodeSelector}; {end}"))
	}
	f := w.write("orders")
	if _, err := queryRow[int](t.Context(), w, "orders", c.Status.Instances[c.Status.Writer], "SELECT 1 FROM nowhere"); err == nil {
		t.Error("there is a table that nobody has made")
	}
	w.await(time.Minute, "the log of the engine is JSON in the log of the pod", func(context.Context) error {
		out, err := os.ReadFile(filepath.Join(w.plane.Dir(), "by-name", w.namespace+"_"+c.Status.Instances[c.Status.Writer].Name, "engine.log"))
		found := false
		for line := range strings.Lines(string(out)) {
			var one struct{ Logger, Level, Msg, User string }
			if bad := json.Unmarshal([]byte(line), &one); bad != nil && err == nil {
				err = fmt.Errorf("%w: %s", bad, line)
			}
			found = found || one.Logger == "postgres" && one.Level == "ERROR" && one.User == "postgres" && strings.Contains(one.Msg, "nowhere")
		}
		if err == nil && !found {
			err = fmt.Errorf("no error about the table in\n%s", out)
		}
		return err
	})

	var readers []string
	for id, i := range c.Status.Instances {
		if id != c.Status.Writer {
			readers = append(readers, i.Name)
		}
	}
	w.signalPod(readers[0], syscall.SIGSTOP)
	w.turns(20*time.Second, "orders", "Available", "False", "Unknown")
	w.signalPod(readers[1], syscall.SIGSTOP)
	w.turns(20*time.Second, "orders", "Ready", "False CommitsWait")
	w.turns(20*time.Second, "orders", "HighAvailability", "False NoReaderInSync", "False NoHealthyReader")
	for _, reader := range readers {
		w.signalPod(reader, syscall.SIGCONT)
	}
	w.turns(time.Minute, "orders", "Ready", "True")
	w.turns(time.Minute, "orders", "HighAvailability", "True")
	w.turns(time.Minute, "orders", "Available", "True")

	manager, restarts, _ := w.managerPod(t.Context(), "orders")
	w.signalPod(manager, syscall.SIGSTOP)
	frozen := time.Now()
	w.await(30*time.Second, "the manager is made anew", func(ctx context.Context) error {
		pod, now, ready := w.managerPod(ctx, "orders")
		if now == restarts && pod == manager || !ready {
			return fmt.Errorf("%s, %d restarts, ready %t", pod, now, ready)
		}
		return nil
	})
	t.Logf("the frozen manager is made anew after %s", time.Since(frozen).Round(10*time.Millisecond))
	c = w.awaitRunning("orders", 2, nil)
	w.turns(time.Minute, "orders", "HighAvailability", "True")

	f.MaxPause()
	w.signalPod(c.Status.Instances[c.Status.Writer].Name, syscall.SIGSTOP)
	w.turns(20*time.Second, "orders", "Ready", "False", "Unknown")
	routed, err := w.routedPods(t.Context(), "orders", "ro")
	if err != nil || len(routed) != 2 {
		t.Errorf("%d readers are behind the Service while the writer is away: %v", len(routed), err)
	}
	old := c.Status.Writer
	w.await(time.Minute, "a reader has taken over", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "orders")
		if err == nil && (c.Status.Writer == old || c.Status.Writer == "" || f.Silence() > time.Second) {
			err = fmt.Errorf("writer %q, silent for %s", c.Status.Writer, f.Silence())
		}
		return err
	})
	if pause := f.MaxPause(); pause > 30*time.Second { // less than ten when the machine is quiet
		t.Errorf("a frozen writer cost %s", pause)
	} else {
		t.Logf("a frozen writer cost %s", pause.Round(10*time.Millisecond))
	}
	w.signalPod(c.Status.Instances[old].Name, syscall.SIGCONT)
	c = w.awaitRunning("orders", 2, nil)
	w.checkReplication(c)

	reader, place := "", ""
	for id, i := range c.Status.Instances {
		if id != c.Status.Writer {
			reader, place = i.Name, id
		}
	}
	if err := w.client.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: reader}}); err != nil {
		t.Fatal(err)
	}
	w.turns(20*time.Second, "orders", "StorageReady", "False VolumeTerminating")
	w.kubectl("annotate", "ssc", "orders", "pawl.dev/rebuild="+place)
	w.turns(4*time.Minute, "orders", "StorageReady", "True")
	c = w.awaitRunning("orders", 2, nil)
	rows, _ := f.end(c)
	t.Logf("%d rows were committed and are on all instances", rows)
}
