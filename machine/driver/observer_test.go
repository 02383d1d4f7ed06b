package driver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

func observing(o ...machine.Observation) machine.Standalone {
	m := demo()
	m.Observe = o
	return m
}

func TestObservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observing(machine.Observation{Name: "health", Every: 10 * time.Second, Timeout: time.Second, In: []machine.State{"Running"}, Uses: "look"})
		w := start(t, m)
		defer w.stop()
		ok, failing := true, false
		w.answer = func() (any, error) {
			if failing {
				return nil, fault.APIUnavailable.Errorf("no route")
			}
			return map[string]any{"ok": ok, "n": int64(1) << 60}, nil
		}
		w.apply(`{"size": 1}`)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s := w.status()
		if health := s.Observed["health"].(map[string]any); health["ok"] != true {
			t.Fatalf("observed %v", s.Observed)
		}
		o, _ := w.objects.Get(t.Context(), ref)
		if !strings.Contains(string(o.Status), `"n":1152921504606846976`) {
			t.Fatalf("status %s", o.Status)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		w.set(func() {
			if w.looks < 6 || w.looks > 9 {
				t.Errorf("%d looks in a minute", w.looks)
			}
		})
		if again, _ := w.objects.Get(t.Context(), ref); again.Revision != o.Revision {
			t.Error("what did not change was written")
		}
		w.set(func() { failing = true })
		time.Sleep(11 * time.Second)
		s = w.expect("Running Ready=True/Rests Progressing=False/Rests")
		if fact := fmt.Sprint(s.Observed["health"]); fact != "map[code:API_UNAVAILABLE error:no route]" {
			t.Errorf("observed %s", fact)
		}
		w.set(func() { failing, ok = false, false })
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s := w.status(); s.State != "Interrupted" || s.Machine.Event != "sick" {
			t.Fatalf("a changed fact was not looked at: %s", s)
		}
		var looks int
		w.set(func() { looks = w.looks })
		time.Sleep(time.Minute)
		w.set(func() {
			if w.looks > looks {
				t.Error("it is observed in a state that does not ask for it")
			}
		})
	})
}

func TestObservationsThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, observing(
			machine.Observation{Name: "wait", Every: 10 * time.Second, Timeout: time.Second, Uses: "wait"},
			machine.Observation{Name: "hang", Every: 10 * time.Second, Timeout: time.Second, Uses: "hang"},
			machine.Observation{Name: "crash", Every: 10 * time.Second, Timeout: time.Second, Uses: "crash"},
			machine.Observation{Name: "fill", Every: 10 * time.Second, Timeout: time.Second, Uses: "look",
				Resolve: func(workflow.View) (json.RawMessage, error) {
					return nil, workflow.ExpressionFailed.Errorf("no such key")
				}}))
		defer w.stop()
		w.apply(`{"size": 1}`)
		time.Sleep(8 * time.Second)
		s := w.expect("Running Ready=True/Rests Progressing=False/Rests")
		for name, want := range map[string]string{
			"wait": "map[code:OBSERVATION_WAITS error:Someday: ]", "hang": "map[code:TIMEOUT error:it took longer than 1s]",
			"crash": "map[code:PANIC error:boom]", "fill": "map[code:EXPRESSION_FAILED error:no such key]",
		} {
			if got := fmt.Sprint(s.Observed[name]); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	})
}

// TestAnObservationThatDoesNotFit: the fact of before is not kept in its place.
func TestAnObservationThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, observing(machine.Observation{Name: "health", Every: 10 * time.Second, Timeout: time.Second, Uses: "look"}))
		defer w.stop()
		answer := "small"
		w.answer = func() (any, error) { return answer, nil }
		w.apply(fmt.Sprintf(`{"size": 1, "pad": %q}`, strings.Repeat("x", control.MaxObject-20_000)))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s := w.status(); s.Observed["health"] != "small" {
			t.Fatalf("observed %v", s.Observed)
		}
		w.set(func() { answer = strings.Repeat("y", 30_000) })
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if fact, _ := w.status().Observed["health"].(map[string]any); fact["code"] != "OBJECT_INVALID" {
			t.Errorf("observed %.100v", fact)
		}
	})
}
