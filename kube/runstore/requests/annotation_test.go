package requests

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// ReadRequests decodes all annotations that are requests.
func TestReadRequests(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       Request
		bad        bool
	}{
		{"pause", "p1", Request{Verb: "pause", ID: "p1"}, false},
		{"pause", "true", Request{Verb: "pause"}, false},
		{"pause", "T#x9", Request{Verb: "pause", ID: "x9"}, false},
		{"pause", "p1,now", Request{Verb: "pause", ID: "p1"}, true},
		{"resume", "r1", Request{Verb: "resume", ID: "r1"}, false},
		{"resume", "1,from=first", Request{Verb: "resume", From: "first"}, false},
		{"resume", "r1,from=Loop[a]/Create", Request{Verb: "resume", ID: "r1", From: "Loop[a]/Create"}, false},
		{"resume", "r1,first", Request{Verb: "resume", ID: "r1"}, true},
		{"cancel", "c1", Request{Verb: "cancel", ID: "c1", Mode: runtype.Hold}, false},
		{"cancel", "c1,undo", Request{Verb: "cancel", ID: "c1", Mode: runtype.Undo}, false},
		{"cancel", "c1, drop", Request{Verb: "cancel", ID: "c1", Mode: runtype.Drop}, false},
		{"cancel", "c1,burn", Request{Verb: "cancel", ID: "c1", Mode: "burn"}, true},
		{"skip", "s1,Notify", Request{Verb: "skip", ID: "s1", Step: "Notify"}, false},
		{"skip", "s1", Request{Verb: "skip", ID: "s1"}, true},
		{"signal.caught-up", `ev,{"lag":[0,1]}`, Request{Verb: Signal, ID: "ev", Step: "caught-up", Payload: []byte(`{"lag":[0,1]}`)}, false},
		{"signal.go", "1", Request{Verb: Signal, Step: "go"}, false},
		{"signal.go", "ev,{", Request{Verb: Signal, ID: "ev", Step: "go", Payload: []byte("{")}, true},
		{"progress.Copy", "3/10,three", Request{Verb: "progress", ID: "-", Step: "Copy", Progress: runtype.Progress{Done: 3, Total: 10, Text: "three"}}, false},
		{"progress.Copy", "3 of 10", Request{Verb: "progress", ID: "-", Step: "Copy"}, true},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			all := ReadRequests(map[string]string{domain + c.key: c.value, domain + "queue": "x", "other.dev/pause": "1"})
			if len(all) != 1 {
				t.Fatalf("%d requests", len(all))
			}
			c.want.Key, c.want.Value = domain+c.key, c.value
			if diff := cmp.Diff(c.want, all[0], cmpopts.IgnoreFields(Request{}, "Err")); diff != "" {
				t.Error(diff)
			}
			if (all[0].Err != nil) != c.bad || c.bad && fault.Of(all[0].Err) != RequestMalformed {
				t.Errorf("error %v", all[0].Err)
			}
		})
	}
}

// No value panics, and a stamped value has the id that it was stamped with.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{"", "1", "true,from=first", "a#b#c", "id,{\"a\":1}", ",", "#", "3/4,x"} {
		f.Add("resume", seed)
		f.Add("signal.x", seed)
		f.Add("progress.x", seed)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		for _, a := range ReadRequests(map[string]string{domain + key: value}) {
			if a.ID == "" && a.Err == nil {
				stamped := readRequest(a.Key, a.Stamp("k3x4qabcdefg"))
				if stamped.ID != "k3x4qabcdefg" || stamped.From != a.From || stamped.Step != a.Step || stamped.Mode != a.Mode {
					t.Fatalf("%q stamped is %q: %+v", value, a.Stamp("k3x4qabcdefg"), stamped)
				}
			}
		}
	})
}

// annotated is an object with annotations. It is a Guard that tests values as the API
// server does.
type annotated struct {
	values map[string]string
	crash  int // calls until the process crashes
}

var errCrash = errors.New("the process is gone")

func (n *annotated) step() error {
	if n.crash--; n.crash == 0 {
		return errCrash
	}
	return nil
}

func (n *annotated) Set(_ context.Context, key, old, value string) (bool, error) {
	if err := n.step(); err != nil {
		return false, err
	}
	if n.values[key] != old {
		return false, nil
	}
	n.values[key] = value
	return true, n.step()
}

func (n *annotated) Remove(_ context.Context, key, old string) (bool, error) {
	if err := n.step(); err != nil {
		return false, err
	}
	if value, present := n.values[key]; !present || value != old {
		return false, nil
	}
	delete(n.values, key)
	return true, n.step()
}

// verbs counts the requests that an engine would accept, by id.
type verbs struct {
	Verbs
	n     *annotated
	ids   map[string]int
	error error
}

func (v *verbs) Pause(_ context.Context, _ string, by workflow.Actor) error {
	if err := v.n.step(); err != nil {
		return err
	}
	if v.error != nil {
		return v.error
	}
	v.ids[by.RequestID]++
	return v.n.step()
}

// A crash between any two of the three steps does not change the result: one request
// under one id, and no annotation.
func TestAcceptanceSurvivesACrash(t *testing.T) {
	for crash := range 12 {
		n := &annotated{values: map[string]string{domain + "pause": "true"}, crash: crash}
		v := &verbs{n: n, ids: map[string]int{}}
		serial := 0
		a := Acceptor{Engine: v, NewID: func() string { serial++; return strings.Repeat("x", serial) }}
		for range 3 {
			values := map[string]string{}
			for key, value := range n.values {
				values[key] = value
			}
			_ = a.Accept(t.Context(), "run", values, n, func(Answer) error { return n.step() })
		}
		if len(v.ids) != 1 || len(n.values) != 0 {
			t.Errorf("crash at %d: ids %v, annotations %v", crash, v.ids, n.values)
		}
	}
}

// A newer value survives the removal of the older one. A transient error is no refusal.
// A refusal is answered with its remedy.
func TestAcceptanceGuardsTheValue(t *testing.T) {
	n := &annotated{values: map[string]string{domain + "pause": "p2"}}
	v := &verbs{n: n, ids: map[string]int{}}
	a := Acceptor{Engine: v}
	old := map[string]string{domain + "pause": "p1"}
	if err := a.Accept(t.Context(), "run", old, n, func(Answer) error { return nil }); err != nil || n.values[domain+"pause"] != "p2" {
		t.Errorf("the newer request is gone: %v, %v", n.values, err)
	}
	v.error = runstore.StoreUnavailable.Errorf("down")
	answers := 0
	if err := a.Accept(t.Context(), "run", n.values, n, func(Answer) error { answers++; return nil }); err == nil || answers > 0 || len(n.values) != 1 {
		t.Errorf("trouble was taken for an answer: %v", err)
	}
	v.error = workflow.RunFinished.Errorf("it has ended")
	var got Answer
	if err := a.Accept(t.Context(), "run", n.values, n, func(a Answer) error { got = a; return nil }); err != nil || len(n.values) != 0 {
		t.Errorf("a refused request stays: %v, %v", n.values, err)
	}
	if r := got.Record(a.now()); r.State != "Refused" || r.Code != "RUN_FINISHED" || r.Remedy == "" {
		t.Errorf("answer %+v", r)
	}
}
