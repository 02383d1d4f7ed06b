// Package classic_test runs the operator of examples/classic on a real control
// plane: interrupted, resumed, killed and started again.
package classic_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

var suite = controlplane.NewSuite(controlplane.Options{Kubelet: kubelet.Options{Name: "paper"}})

func TestMain(m *testing.M) { suite.Main(m) }

const example = "../../examples/classic"

// build builds the operator's program, once per plane.
var build = sync.OnceValues(func() (string, error) {
	program := filepath.Join(folder, "operator")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = example
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the operator: %w\n%s", err, out)
	}
	return program, nil
})

// folder is removed when the plane stops.
var folder string

// fixture is one cluster of the operator in its own namespace.
type fixture struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
}

func newFixture(t *testing.T) *fixture {
	plane := suite.Plane(t)
	folder = plane.Dir()
	return &fixture{t: t, plane: plane, namespace: plane.Namespace(t)}
}

// operator is a process of the example.
type operator struct {
	cmd   *exec.Cmd
	done  chan struct{}
	mu    sync.Mutex
	lines []string
}

// start starts the operator; it is killed when the test ends.
func (l *fixture) start() *operator {
	l.t.Helper()
	program, err := build()
	if err != nil {
		l.t.Fatal(err)
	}
	o := &operator{cmd: exec.Command(program, "-namespace", l.namespace, "-flows", example+"/workflow"), done: make(chan struct{})}
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+l.plane.Kubeconfig(), "POD_NAMESPACE="+l.namespace)
	o.cmd.Stderr = os.Stderr
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(o.done)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			o.mu.Lock()
			o.lines = append(o.lines, scanner.Text())
			o.mu.Unlock()
		}
		_ = o.cmd.Wait()
	}()
	l.t.Cleanup(func() {
		o.kill()
		if l.t.Failed() {
			l.t.Logf("the operator said:\n%s", o.log())
		}
	})
	return o
}

// kill kills the operator with SIGKILL.
func (o *operator) kill() {
	_ = o.cmd.Process.Kill()
	<-o.done
}

func (o *operator) log() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n")
}

// begunSteps returns the steps that the operator has begun, each once, in order.
func (o *operator) begunSteps() []string {
	var steps []string
	for line := range strings.Lines(o.log()) {
		var entry struct{ Msg, Step string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "StepInited" {
			continue
		}
		if !slices.Contains(steps, entry.Step) {
			steps = append(steps, entry.Step)
		}
	}
	return steps
}

func (l *fixture) create(data map[string]string) {
	l.t.Helper()
	_, err := l.plane.Client().CoreV1().ConfigMaps(l.namespace).Create(l.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"dbcluster": "c1"}}, Data: data,
	}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *fixture) patch(patch string) {
	l.t.Helper()
	_, err := l.plane.Client().CoreV1().ConfigMaps(l.namespace).Patch(l.t.Context(), "c1", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *fixture) get() *corev1.ConfigMap {
	l.t.Helper()
	c, err := l.plane.Client().CoreV1().ConfigMaps(l.namespace).Get(l.t.Context(), "c1", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// eventually polls until look returns no error.
func (l *fixture) eventually(what string, look func() error) {
	l.t.Helper()
	await.Until(l.t, 2*time.Minute, what, func(context.Context) error { return look() })
}

func (l *fixture) until(state string) {
	l.t.Helper()
	l.eventually("the cluster", func() error {
		if c := l.get(); c.Data["state"] != state {
			return fmt.Errorf("it is %q, not %s: %v, %v", c.Data["state"], state, c.Data, c.Annotations)
		}
		return nil
	})
}

func (l *fixture) event(reason string) {
	l.t.Helper()
	l.eventually("the event "+reason, func() error {
		list, err := l.plane.Client().CoreV1().Events(l.namespace).List(l.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=c1"})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason {
				return nil
			}
			seen = append(seen, e.Reason)
		}
		return fmt.Errorf("there are %v", seen)
	})
}

// A cluster is installed. A step interrupts the flow, and the annotation resumes it. The
// operator is killed within a step and started again. The flow ends in Running, and no
// finished step is begun again.
func TestInstall(t *testing.T) {
	l := newFixture(t)
	first := l.start()
	l.create(map[string]string{"readers": "2", "storageClass": "missing", "hold": "true"})

	l.until("Interrupt")
	notes := l.get().Annotations
	if notes["interrupt.reason"] != "STORAGE_CLASS_MISSING" || notes["interrupt.previous.status"] != "Creating" || !strings.Contains(notes["interrupt.message"], "storageClass") {
		t.Errorf("the cluster shows %v", notes)
	}
	l.event("WF_Interrupted")
	if pods, err := l.plane.Client().CoreV1().Pods(l.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) > 0 {
		t.Errorf("steps behind the interruption have begun: %d pods, %v", len(pods.Items), err)
	}

	l.patch(`{"data":{"storageClass":"fast"},"metadata":{"annotations":{"interrupt.recover":"T"}}}`)
	l.eventually("CreateManager", func() error {
		if began := first.begunSteps(); !slices.Contains(began, "CreateManager") {
			return fmt.Errorf("the operator has begun %v", began)
		}
		return nil
	})
	first.kill()
	second := l.start()
	l.patch(`{"data":{"hold":"false"}}`)
	l.until("Running")
	l.event("WF_Completed")

	if want := []string{"InitMeta", "PrepareStorage", "CreateWriter", "CreateReaders", "CreateManager"}; !slices.Equal(first.begunSteps(), want) {
		t.Errorf("the first process has begun %v", first.begunSteps())
	}
	if want := []string{"CreateManager", "AddToManager", "UpdateRunningStatus"}; !slices.Equal(second.begunSteps(), want) {
		t.Errorf("the second process has begun %v", second.begunSteps())
	}
	if members := l.get().Data["members"]; members != "manager reader-0 reader-1 writer on fast" {
		t.Errorf("the manager knows %q", members)
	}
	for key := range l.get().Annotations {
		if strings.HasPrefix(key, "interrupt.") {
			t.Errorf("the annotation %s stays", key)
		}
	}
	l.checkOwned()
}

// checkOwned checks that the flow records are deleted with their cluster.
func (l *fixture) checkOwned() {
	l.t.Helper()
	list, err := l.plane.Client().CoreV1().ConfigMaps(l.namespace).List(l.t.Context(), metav1.ListOptions{LabelSelector: "pawl.dev/kind=run"})
	if err != nil || len(list.Items) == 0 {
		l.t.Fatalf("%d records of flows: %v", len(list.Items), err)
	}
	for _, record := range list.Items {
		if owners := record.OwnerReferences; len(owners) != 1 || owners[0].Name != "c1" || owners[0].UID != l.get().UID {
			l.t.Errorf("%s is owned by %v", record.Name, owners)
		}
	}
}

// A flow in the ConfigMap of the PolarDB Stack engine continues, once.
func TestTakeOver(t *testing.T) {
	l := newFixture(t)
	l.create(map[string]string{"readers": "0", "storageClass": "fast", "state": "Creating"})
	done := func(step string) string { return `{"StepName":"` + step + `","stepStatus":"completed"}` }
	left := `{"flowStatus":"running","flowName":"CreateCluster","startTime":"2021-07-21 08:32:47.492","initContext":{"_resourceName":"c1","_resourceNameSpace":"` + l.namespace + `"},"runningSteps":[` +
		strings.Join([]string{done("InitMeta"), `{"StepName":"PrepareStorage","stepStatus":"completed","contextOutput":{"storageClass":"slow"}}`, done("CreateWriter"), done("CreateReaders")}, ",") +
		`,{"StepName":"CreateManager","stepStatus":"failed","retryTimes":3},{"StepName":"AddToManager","stepStatus":"prepared"},{"StepName":"UpdateRunningStatus","stepStatus":"prepared"}]}`
	records := l.plane.Client().CoreV1().ConfigMaps(l.namespace)
	_, err := records.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c1-workflow", Labels: map[string]string{"flowJobsDomain": "c1"}},
		Data:       map[string]string{"1-CreateCluster": left},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := l.start()
	l.until("Running")
	if want := []string{"CreateManager", "AddToManager", "UpdateRunningStatus"}; !slices.Equal(o.begunSteps(), want) {
		t.Errorf("the operator has begun %v", o.begunSteps())
	}
	if members := l.get().Data["members"]; members != "manager on slow" {
		t.Errorf("the manager knows %q", members)
	}
	after, err := records.Get(t.Context(), "c1-workflow", metav1.GetOptions{})
	if err != nil || !maps.Equal(after.Data, map[string]string{"1-CreateCluster": left}) || after.Annotations["pawl.dev/taken-over"] == "" {
		t.Errorf("the old records are %v with %v: %v", after.Data, after.Annotations, err)
	}
}

// Two operators at once, without leader election: the leases keep one of them out of the
// other's flow. If one is paused for longer than its lease and continued, it saves
// nothing.
func TestTwoOperators(t *testing.T) {
	l := newFixture(t)
	first := l.start()
	l.create(map[string]string{"readers": "1", "storageClass": "fast", "hold": "true"})
	l.eventually("CreateManager", func() error {
		if began := first.begunSteps(); !slices.Contains(began, "CreateManager") {
			return fmt.Errorf("the operator has begun %v", began)
		}
		return nil
	})
	second := l.start()
	if err := signal(first, "STOP"); err != nil {
		t.Fatal(err)
	}
	l.eventually("the second operator", func() error {
		if began := second.begunSteps(); !slices.Contains(began, "CreateManager") {
			return fmt.Errorf("it has begun %v", began)
		}
		return nil
	})
	if err := signal(first, "CONT"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	l.patch(`{"data":{"hold":"false"}}`)
	l.until("Running")
	if began := slices.Concat(first.begunSteps(), second.begunSteps()); len(began) != 8 { // CreateManager twice: the first was not finished
		t.Errorf("the operators have begun %v and %v", first.begunSteps(), second.begunSteps())
	}
}

func signal(o *operator, name string) error {
	var out bytes.Buffer
	cmd := exec.Command("kill", "-"+name, fmt.Sprint(o.cmd.Process.Pid))
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kill -%s: %w: %s", name, err, &out)
	}
	return nil
}
