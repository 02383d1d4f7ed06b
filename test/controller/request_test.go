package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/requests"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// requestFixture is an object whose annotations send requests to its run.
type requestFixture struct {
	*fixture
	engine   *workflow.Engine
	recorder *pauseRecorder
}

// pauseRecorder calls a function before the engine gets a pause request.
type pauseRecorder struct {
	*workflow.Engine
	pausing func(by workflow.Actor)
}

func (e *pauseRecorder) Pause(ctx context.Context, id string, by workflow.Actor) error {
	if e.pausing != nil {
		e.pausing(by)
	}
	return e.Engine.Pause(ctx, id, by)
}

func newRequestFixture(t *testing.T) *requestFixture {
	t.Helper()
	w := newFixture(t)
	opening, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := kuberuns.Open(opening, kuberuns.Options{Config: w.plane.Config(), Namespace: w.namespace, SingleNamespace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	wait := &workflow.WaitFor{Signal: "go"}
	engine, err := workflow.New(store, []workflow.Flow{{Name: "Two", Steps: []workflow.Step{{Name: "One", Wait: wait, Skippable: true}, {Name: "Two", Wait: wait}}}}, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &requestFixture{w, engine, &pauseRecorder{Engine: engine}}
}

func (w *requestFixture) begin() {
	w.t.Helper()
	runs, err := controller.RunsOf(w.engine)
	if err != nil {
		w.t.Fatal(err)
	}
	runs.Engine = w.recorder
	m := w.manager(nil)
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.Runs, c.LastRequest = runs, func(d *Demo) **v1alpha1.RunRequest { return &d.Status.LastRequest }
	})
	w.start(m)
}

// run starts a run of an object and waits until the run waits.
func (w *requestFixture) run(name, request string) string {
	w.t.Helper()
	subject := fmt.Sprintf("Demo/%s/%s/%s", w.namespace, name, w.get(name).UID)
	r, err := w.engine.Start(w.t.Context(), workflow.Request{Flow: "Two", Subject: subject, RequestID: request})
	if err != nil {
		w.t.Fatal(err)
	}
	w.phase(r.ID, runtype.Waiting)
	return r.ID
}

func (w *requestFixture) phase(id string, want runtype.Phase) (r *runtype.Run) {
	w.t.Helper()
	w.until("the run is "+string(want), func() (err error) {
		if r, err = w.engine.Get(w.t.Context(), id); err == nil && r.Phase != want {
			err = fmt.Errorf("it is %s", r.Phase)
		}
		return err
	})
	return r
}

func (w *requestFixture) annotate(name, key, value string) {
	w.t.Helper()
	w.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, "pawl.dev/"+key, value))
}

// answered waits for the answer to a request, and until its annotation is gone.
func (w *requestFixture) answered(name, verb, id string) *v1alpha1.RunRequest {
	w.t.Helper()
	var last *v1alpha1.RunRequest
	w.until("an answer to "+verb+" "+id, func() error {
		d := w.get(name)
		if last = d.Status.LastRequest; last == nil || last.Verb != verb || id != "" && last.ID != id {
			return fmt.Errorf("the last answer is %+v", last)
		}
		for key := range d.Annotations {
			if strings.HasPrefix(key, "pawl.dev/"+verb) {
				return fmt.Errorf("the annotations are %v", d.Annotations)
			}
		}
		return nil
	})
	return last
}

// An annotation of an object is a request to its active run: a value without an id gets
// one first, each request is accepted once, answered in status, and its annotation
// removed.
func TestAnnotationsOfTheSubjectAskItsRun(t *testing.T) {
	w := newRequestFixture(t)
	w.create("a", 1)
	id := w.run("a", "first")
	stamps := make(chan string, 100)
	w.recorder.pausing = func(by workflow.Actor) { stamps <- by.RequestID + " " + w.get("a").Annotations["pawl.dev/pause"] }
	w.begin()

	w.annotate("a", "pause", "true")
	last := w.answered("a", "pause", "")
	if last.State != "Accepted" || last.ID == "" {
		t.Errorf("the answer is %+v", last)
	}
	if want := fmt.Sprintf("pause/%s true#%s", last.ID, last.ID); <-stamps != want {
		t.Errorf("not stamped as %s when it was accepted", want)
	}
	w.phase(id, runtype.Paused)

	w.annotate("a", "resume", "r1,from=failed")
	w.answered("a", "resume", "r1")
	w.phase(id, runtype.Waiting)

	w.annotate("a", "progress.One", "3/10,three of ten")
	w.answered("a", "progress", "-")
	w.until("the progress", func() error {
		r, err := w.engine.Get(t.Context(), id)
		if err != nil {
			return err
		}
		if p := r.Step("One").Progress; p == nil || p.Done != 3 || p.Total != 10 {
			return fmt.Errorf("it is %+v", p)
		}
		return nil
	})

	w.annotate("a", "skip", "s1,One")
	w.answered("a", "skip", "s1")
	w.annotate("a", "signal.go", `g1,{"lag":0}`)
	w.answered("a", "signal", "g1")
	if r := w.phase(id, runtype.Succeeded); string(r.Step("Two").Output) != `{"lag":0}` || r.Step("One").Phase != runtype.StepSkipped {
		t.Errorf("the steps are %+v and %+v", r.Step("One"), r.Step("Two"))
	}
}

// A request that a run accepted before it ended is not sent to the next run, even if the
// program died before it removed the annotation.
func TestARequestIsNotHandedToTheNextRun(t *testing.T) {
	w := newRequestFixture(t)
	w.create("a", 1)
	first := w.run("a", "first")
	err := requests.Acceptor{Engine: w.engine}.Accept(t.Context(), first, map[string]string{"pawl.dev/cancel": "c1,drop"}, forgetfulGuard{}, func(requests.Answer) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	w.phase(first, runtype.Cancelled)
	second := w.run("a", "second")
	w.annotate("a", "cancel", "c1,drop")
	w.begin()
	if last := w.answered("a", "cancel", "c1"); last.State != "Accepted" {
		t.Errorf("the answer is %+v", last)
	}
	w.annotate("a", "pause", "p1") // a later request, to wait for
	w.answered("a", "pause", "p1")
	if r := w.phase(second, runtype.Paused); r.State.Last == nil || !strings.HasSuffix(r.State.Last.ID, "pause/p1") {
		t.Errorf("the next run was asked, too: %+v", r.State)
	}
}

// forgetfulGuard is the guard of a program that dies before it removes the annotation.
type forgetfulGuard struct{}

func (forgetfulGuard) Set(context.Context, string, string, string) (bool, error) { return true, nil }
func (forgetfulGuard) Remove(context.Context, string, string) (bool, error)      { return false, nil }

// A request that is set while the one before it is accepted survives its removal.
func TestANewerRequestSurvives(t *testing.T) {
	w := newRequestFixture(t)
	w.create("a", 1)
	id := w.run("a", "first")
	asked := make(chan string, 100)
	w.recorder.pausing = func(by workflow.Actor) {
		if by.RequestID == "pause/p1" {
			w.annotate("a", "pause", "p2")
		}
		asked <- by.RequestID
	}
	w.begin()
	w.annotate("a", "pause", "p1")
	w.answered("a", "pause", "p2")
	w.phase(id, runtype.Paused)
	seen := map[string]bool{}
	for len(asked) > 0 {
		seen[<-asked] = true
	}
	if !seen["pause/p1"] || !seen["pause/p2"] {
		t.Errorf("asked for %v", seen)
	}
}

// A refused request becomes an Event and the answer in status, with code and
// remedy; without a run every request is refused, and none stays behind.
func TestARefusedRequestIsReported(t *testing.T) {
	w := newRequestFixture(t)
	w.create("a", 1)
	w.create("b", 1)
	id := w.run("a", "first")
	w.begin()
	for _, c := range []struct {
		name, key, value, verb, id, code, event string
	}{
		{"a", "resume", "r1,from=Nowhere", "resume", "r1", "REQUEST_REFUSED", "RequestRefused"},
		{"a", "cancel", "c1,burn", "cancel", "c1", "ANNOTATION_MALFORMED", "AnnotationMalformed"},
		{"b", "pause", "p1", "pause", "p1", "RUN_NOT_FOUND", "RunNotFound"},
	} {
		w.annotate(c.name, c.key, c.value)
		last := w.answered(c.name, c.verb, c.id)
		if last.State != "Refused" || last.Code != c.code || last.Remedy == "" || last.Message == "" {
			t.Errorf("%s=%s: the answer is %+v", c.key, c.value, last)
		}
		w.until("the Event", func() error {
			e := w.events(c.name)[c.event]
			if !strings.HasPrefix(e, "Warning: "+c.verb+" "+c.id+" was refused") || !strings.Contains(e, last.Remedy) {
				return errors.New(fmt.Sprint(w.events(c.name)))
			}
			return nil
		})
	}
	w.phase(id, runtype.Waiting)
}
