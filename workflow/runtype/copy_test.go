package runtype

import (
	"encoding/json"
	"reflect"
	"testing"
)

// A copy shares nothing that a caller may change, and counts as unchanged.
func TestCopyTo(t *testing.T) {
	var r Run
	from := &StepRecord{
		Name: "A", Ord: 1, Row: 7, Output: json.RawMessage(`1`), Fault: &Fault{Code: "X", Details: map[string]any{"k": "v"}},
		Wait: &WaitRecord{Reason: "Timer"}, Progress: &Progress{Done: 1}, Items: []LoopItem{{Key: "a", Value: json.RawMessage(`2`)}},
	}
	r.Put(from)
	var to StepRecord
	from.CopyTo(&to)
	r.Clean()
	if !reflect.DeepEqual(*from, to) {
		t.Fatalf("the copy is %+v, want %+v", to, *from)
	}
	to.Output[0], to.Fault.Details["k"], to.Wait.Reason, to.Progress.Done, to.Items[0].Value[0] = '9', "w", "Signal", 9, '9'
	if string(from.Output) != "1" || from.Fault.Details["k"] != "v" || from.Wait.Reason != "Timer" || from.Progress.Done != 1 || string(from.Items[0].Value) != "2" {
		t.Errorf("a change of the copy has changed the record: %+v", from)
	}
	renamed := from.Renamed("B")
	r.Put(renamed)
	if renamed.Row != 0 || len(r.Changed()) != 1 || r.Step("A") != from || r.Step("B") != renamed {
		t.Errorf("after a rename: row %d, %d changed", renamed.Row, len(r.Changed()))
	}
}

// The current step is the failed one, else the open one that was opened first.
func TestCurrentOf(t *testing.T) {
	step := func(name string, phase StepPhase) *StepRecord { return &StepRecord{Name: name, Phase: phase} }
	for want, records := range map[string][]*StepRecord{
		"":  {step("A", StepDone), step("B", StepSkipped)},
		"A": {step("A", StepWaiting), step("B", StepRunning)},
		"B": {step("A", StepRunning), step("B", StepFailed), step("C", StepRetrying)},
	} {
		got := ""
		if s := CurrentOf(records); s != nil {
			got = s.Name
		}
		if got != want {
			t.Errorf("current is %q, want %q", got, want)
		}
	}
}
