package runstore_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var runKind = schema.GroupVersionResource{Group: "pawl.dev", Version: "v1alpha1", Resource: "runs"}

// fixture is a store with an engine that serves requests in objects.
type fixture struct {
	*testing.T
	space string
	store *kuberuns.Store
	runs  dynamic.ResourceInterface
}

func openFixture(t *testing.T, flows ...workflow.Flow) *fixture {
	t.Helper()
	plane := suite.Plane(t)
	space := namespace(t, plane.Client())
	s, _ := open(t, plane.Config(), kuberuns.Run, space)
	e := serve(t, s, flows, workflow.Options{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeRequests(ctx, e) }()
	t.Cleanup(func() { stop(); <-ended })
	return &fixture{T: t, space: space, store: s, runs: dynamic.NewForConfigOrDie(plane.Config()).Resource(runKind).Namespace(space)}
}

func (d *fixture) create(name string, spec map[string]any) {
	d.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "pawl.dev/v1alpha1", "kind": "Run", "metadata": map[string]any{"name": name}, "spec": spec}}
	if _, err := d.runs.Create(d.Context(), o, metav1.CreateOptions{}); err != nil {
		d.Fatal(err)
	}
}

func (d *fixture) annotate(name, key, value string) {
	d.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if _, err := d.runs.Patch(d.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		d.Fatal(err)
	}
}

// await polls an object until it meets a condition.
func (d *fixture) await(name, what string, good func(o *unstructured.Unstructured) bool) *unstructured.Unstructured {
	d.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		o, err := d.runs.Get(d.Context(), name, metav1.GetOptions{})
		if err == nil && good(o) {
			return o
		}
		if time.Now().After(deadline) {
			d.Fatalf("%s: not within a minute: %v, %v", what, o, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func field(o *unstructured.Unstructured, path ...string) string {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func phaseIs(phase runtype.Phase) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		return field(o, "status", "phase") == string(phase) && len(o.GetAnnotations()) == 0
	}
}

// A Run that a person creates is started once, under its own name.
func TestAnObjectStartsARun(t *testing.T) {
	var got struct{ Readers int }
	d := openFixture(t,
		workflow.Flow{Name: "Read", Steps: []workflow.Step{{Name: "Input", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome { return outcome.Fail(t.Input(&got)) }}}},
		workflow.Flow{Name: "Wait", Steps: []workflow.Step{{Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}}}})
	d.create("mine", map[string]any{"flow": "Read", "subject": "kind/space/a", "input": map[string]any{"readers": int64(2)}, "actor": "ann"})
	o := d.await("mine", "the end of the run", phaseIs(runtype.Succeeded))
	if got.Readers != 2 {
		t.Errorf("the step saw %+v", got)
	}
	id := field(o, "status", "id")
	r, _, err := d.store.Load(t.Context(), id)
	if err != nil || r.Subject != "kind/space/a" || r.Actor != "ann" {
		t.Errorf("loaded by its id %s: %+v, %v", id, r, err)
	}
	d.create("lost", map[string]any{"flow": "Nothing"})
	o = d.await("lost", "a refusal", func(o *unstructured.Unstructured) bool {
		return field(o, "status", "lastRequest", "state") == "Refused"
	})
	if code := field(o, "status", "lastRequest", "code"); code != "FLOW_UNKNOWN" || field(o, "status", "lastRequest", "remedy") == "" {
		t.Errorf("refused with %s: %v", code, o.Object["status"])
	}
	d.create("first", map[string]any{"flow": "Wait", "subject": "kind/space/b"})
	d.await("first", "waiting", phaseIs(runtype.Waiting))
	d.create("second", map[string]any{"flow": "Wait", "subject": "kind/space/b"})
	d.await("second", "its place in the queue", phaseIs(runtype.Queued))
	d.annotate("first", "pawl.dev/signal.go", "s1")
	d.await("second", "its turn", phaseIs(runtype.Waiting))
	_, err = d.runs.Patch(t.Context(), "first", types.MergePatchType, []byte(`{"spec":{"flow":"Read"}}`), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "flow cannot be changed") {
		t.Errorf("the flow of a run was changed: %v", err)
	}
}

// Each annotation is accepted once and removed; a refusal is in status with its remedy,
// and in an Event.
func TestAnnotationsOnARun(t *testing.T) {
	d := openFixture(t, workflow.Flow{Name: "Wait", Steps: []workflow.Step{
		{Name: "One", Wait: &workflow.WaitFor{Signal: "go"}, Skippable: true},
		{Name: "Two", Wait: &workflow.WaitFor{Signal: "go"}},
	}})
	d.create("r", map[string]any{"flow": "Wait", "subject": "kind/space/a"})
	d.await("r", "waiting", phaseIs(runtype.Waiting))
	d.annotate("r", "pawl.dev/pause", "true") // without an id
	o := d.await("r", "paused", phaseIs(runtype.Paused))
	if verb := field(o, "status", "lastRequest", "verb"); verb != "pause" || field(o, "status", "lastRequest", "id") == "" {
		t.Errorf("last request %v", o.Object["status"])
	}
	d.annotate("r", "pawl.dev/resume", "a1,from=nowhere")
	o = d.await("r", "a refusal", func(o *unstructured.Unstructured) bool {
		return field(o, "status", "lastRequest", "id") == "a1" && len(o.GetAnnotations()) == 0
	})
	if field(o, "status", "lastRequest", "state") != "Refused" || field(o, "status", "lastRequest", "remedy") == "" {
		t.Errorf("last request %v", o.Object["status"])
	}
	events, err := suite.Plane(t).Client().CoreV1().Events(d.space).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=r,reason=RequestRefused"})
	if err != nil || len(events.Items) != 1 || !strings.Contains(events.Items[0].Message, "resume a1 was refused") {
		t.Errorf("events %+v, %v", events, err)
	}
	d.annotate("r", "pawl.dev/resume", "a2")
	d.await("r", "waiting again", phaseIs(runtype.Waiting))
	d.annotate("r", "pawl.dev/skip", "a3,One")
	d.await("r", "the second step", func(o *unstructured.Unstructured) bool { return field(o, "status", "step") == "Two" })
	d.annotate("r", "pawl.dev/progress.Two", "3/10,three of ten")
	o = d.await("r", "progress", func(o *unstructured.Unstructured) bool {
		return field(o, "status", "lastRequest", "verb") == "progress" && len(o.GetAnnotations()) == 0 && field(o, "status", "steps", "Two", "progress", "done") == "3"
	})
	if p := field(o, "status", "steps", "Two", "progress", "total") + " " + field(o, "status", "steps", "Two", "progress", "text"); p != "10 three of ten" || field(o, "status", "lastRequest", "state") != "Accepted" {
		t.Errorf("progress %s, status %v", p, o.Object["status"])
	}
	d.annotate("r", "pawl.dev/progress.Nowhere", "1/2")
	o = d.await("r", "a refusal", func(o *unstructured.Unstructured) bool {
		return field(o, "status", "lastRequest", "state") == "Refused" && len(o.GetAnnotations()) == 0
	})
	if field(o, "status", "lastRequest", "verb") != "progress" || field(o, "status", "lastRequest", "remedy") == "" {
		t.Errorf("last request %v", o.Object["status"])
	}
	d.annotate("r", "pawl.dev/signal.go", `a4,{"lag":0}`)
	o = d.await("r", "the end", phaseIs(runtype.Succeeded))
	if out := field(o, "status", "steps", "Two", "output"); out != `{"lag":0}` {
		t.Errorf("output %s", out)
	}
	for name, mode := range map[string]string{"dropped": ",drop", "undone": ",undo"} {
		d.create(name, map[string]any{"flow": "Wait", "subject": "kind/space/" + name})
		d.await(name, "waiting", phaseIs(runtype.Waiting))
		d.annotate(name, "pawl.dev/cancel", "c1"+mode)
		o = d.await(name, "its end", phaseIs(runtype.Cancelled))
		if field(o, "status", "lastRequest", "verb") != "cancel" || field(o, "status", "lastRequest", "id") != "c1" || field(o, "status", "lastRequest", "state") != "Accepted" {
			t.Errorf("%s: last request %v", name, o.Object["status"])
		}
	}
	d.create("held", map[string]any{"flow": "Wait", "subject": "kind/space/held"})
	d.await("held", "waiting", phaseIs(runtype.Waiting))
	d.annotate("held", "pawl.dev/cancel", "true") // stops, and keeps what is done
	o = d.await("held", "paused", phaseIs(runtype.Paused))
	if field(o, "status", "fault", "code") != "CANCELLED" || field(o, "status", "fault", "remedy") == "" {
		t.Errorf("held: %v", o.Object["status"])
	}
	out, err := exec.Command(suite.Plane(t).Binaries.Kubectl, "--kubeconfig", suite.Plane(t).Kubeconfig(), "-n", d.space, "get", "pawl").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "run.pawl.dev/r") || !strings.Contains(string(out), "Succeeded") {
		t.Errorf("kubectl get pawl: %v\n%s", err, out)
	}
	t.Logf("kubectl get pawl\n%s", out)
}
