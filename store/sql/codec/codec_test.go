package codec

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// A field that is added to the contract must be added to the codec. This test names it.
func TestCodecKnowsEveryField(t *testing.T) {
	for _, c := range []struct {
		value any
		want  int
	}{
		{runtype.StepRecord{}, 23}, {runtype.WaitRecord{}, 8}, {runtype.Progress{}, 5}, {runtype.LoopItem{}, 2},
		{runtype.Fault{}, 8}, {runtype.Signal{}, 5}, {runtype.Event{}, 11},
	} {
		typ, exported := reflect.TypeOf(c.value), 0
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				exported++
			}
		}
		if exported != c.want {
			t.Errorf("%s has %d exported fields, the codec was written for %d", typ, exported, c.want)
		}
	}
}

func times(t *rapid.T, label string) time.Time {
	if rapid.Bool().Draw(t, label+" zero") {
		return time.Time{}
	}
	return time.Unix(rapid.Int64Range(-1<<33, 1<<38).Draw(t, label), rapid.Int64Range(0, 999_999_999).Draw(t, label+" ns")).UTC()
}

func drawFault(t *rapid.T) *runtype.Fault {
	f := &runtype.Fault{Code: fault.Code(rapid.String().Draw(t, "code")), Message: rapid.String().Draw(t, "message"),
		Step: rapid.String().Draw(t, "step"), Attempt: rapid.Int().Draw(t, "attempt"), At: times(t, "at"),
		Exhausted: rapid.Bool().Draw(t, "exhausted"), Healer: rapid.String().Draw(t, "healer")}
	if rapid.Bool().Draw(t, "details") {
		f.Details = map[string]any{"n": rapid.Int64().Draw(t, "n"), "s": rapid.String().Draw(t, "s"), "f": 1.5}
	}
	return f
}

func drawRecord(t *rapid.T) *runtype.StepRecord {
	number := rapid.OneOf(rapid.Just(0), rapid.Just(1), rapid.Int())
	s := &runtype.StepRecord{Name: rapid.String().Draw(t, "name"),
		Phase: rapid.SampledFrom(append([]runtype.StepPhase{"New"}, recordPhases...)).Draw(t, "phase"),
		Ord:   rapid.Int64().Draw(t, "ord"), Round: number.Draw(t, "round"), Attempt: number.Draw(t, "attempt"),
		Failures: number.Draw(t, "failures"), Uncharged: number.Draw(t, "uncharged"), UnchargedSince: times(t, "unchargedSince"),
		Lost: number.Draw(t, "lost"), Isolated: rapid.Bool().Draw(t, "isolated"), Undoing: rapid.Bool().Draw(t, "undoing"),
		StartedAt: times(t, "started"), AttemptAt: times(t, "attemptAt"), EndedAt: times(t, "ended"), NextAt: times(t, "next"),
		Note: rapid.String().Draw(t, "note"), Actor: rapid.String().Draw(t, "actor")}
	if rapid.Bool().Draw(t, "output") {
		s.Output = json.RawMessage(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	}
	if rapid.Bool().Draw(t, "fault") {
		s.Fault = drawFault(t)
	}
	if rapid.Bool().Draw(t, "wait") {
		s.Wait = &runtype.WaitRecord{Reason: "R", Message: rapid.String().Draw(t, "m"), Since: times(t, "since"), Deadline: times(t, "deadline"),
			Every: time.Duration(rapid.Int64().Draw(t, "every")), Signal: rapid.String().Draw(t, "signal"), Child: "c", Until: times(t, "until")}
	}
	if rapid.Bool().Draw(t, "progress") {
		s.Progress = &runtype.Progress{Done: rapid.Int64().Draw(t, "done"), Total: 9, Text: "x", At: times(t, "progressAt"), High: 3}
	}
	if rapid.Bool().Draw(t, "items") {
		s.Items = []runtype.LoopItem{{Key: "a", Value: json.RawMessage("1")}, {Key: rapid.String().Draw(t, "key"), Value: json.RawMessage("{}")}}
	}
	return s
}

func TestCodecGivesBackWhatItWasGiven(t *testing.T) {
	quiet := cmp.Options{cmpopts.IgnoreUnexported(runtype.StepRecord{}, runtype.Run{}), cmpopts.EquateEmpty()}
	rapid.Check(t, func(t *rapid.T) {
		var records []*runtype.StepRecord
		for range rapid.IntRange(0, 3).Draw(t, "records") {
			records = append(records, drawRecord(t))
		}
		r := &runtype.Run{Seq: rapid.Int64().Draw(t, "seq"), StartedAt: times(t, "runStarted"), NextAt: times(t, "runNext")}
		r.State.Ord = rapid.Int64().Draw(t, "runOrd")
		if rapid.Bool().Draw(t, "runFault") {
			r.Fault = drawFault(t)
		}
		if rapid.Bool().Draw(t, "state") {
			r.State.Finally, r.State.Warning = true, rapid.StringMatching(`[a-z]*`).Draw(t, "warning")
			r.State.Healing = []runtype.Healing{{Code: "X", Attempts: 2, Since: time.Unix(7, 0).UTC()}}
		}
		var got runtype.Run
		var first, second int64
		open, err := ReadBody(AppendBody(nil, r, records, 7, -9), &got, &first, &second)
		if err != nil || first != 7 || second != -9 {
			t.Fatal(err, first, second)
		}
		if diff := cmp.Diff(r, &got, quiet); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(records, open, quiet); diff != "" {
			t.Fatal(diff)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		var events []runtype.Event
		for range rapid.IntRange(0, 3).Draw(t, "events") {
			e := runtype.Event{Run: "r", Seq: rapid.Int64().Draw(t, "seq"), At: times(t, "at"),
				Kind: rapid.SampledFrom(append([]runtype.EventKind{"New"}, runtype.EventKinds...)).Draw(t, "kind"),
				Step: rapid.String().Draw(t, "step"), Attempt: rapid.Int().Draw(t, "attempt"), Actor: rapid.String().Draw(t, "actor"),
				Reason: rapid.String().Draw(t, "reason"), Message: rapid.String().Draw(t, "message"), Code: "X"}
			if rapid.Bool().Draw(t, "data") {
				e.Data = json.RawMessage(`{"a":1}`)
			}
			events = append(events, e)
		}
		got, err := ReadEvents("r", AppendEvents(nil, events))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(events, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestBirthAndSignalComeBack(t *testing.T) {
	r := &runtype.Run{Labels: map[string]string{"a": "b"}, RequestID: "q", Actor: "ann", Reason: "why", ParentRef: "S/1", Depth: 2}
	var got runtype.Run
	if err := ReadBirth(AppendBirth(nil, r), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &got, cmpopts.IgnoreUnexported(runtype.Run{})); diff != "" {
		t.Fatal(diff)
	}
	s := runtype.Signal{ID: "1", Name: "n", Payload: json.RawMessage(`{}`), Actor: "ann", At: time.Unix(1, 2).UTC()}
	back, err := ReadSignal("1", AppendSignal(nil, &s))
	if diff := cmp.Diff(s, back); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
}

func FuzzDamagedBlobsDoNotPanic(f *testing.F) {
	r := &runtype.Run{Seq: 4, Fault: &runtype.Fault{Code: "X", Details: map[string]any{"a": int64(1)}}}
	f.Add(AppendBody(nil, r, []*runtype.StepRecord{{Name: "A", Items: []runtype.LoopItem{{Key: "k"}}}}))
	f.Add(AppendEvents(nil, []runtype.Event{{Seq: 1, Kind: runtype.RunCreated}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var run runtype.Run
		_, _ = ReadBody(data, &run)
		_, _ = ReadRecords(data)
		_, _ = ReadEvents("r", data)
		_ = ReadBirth(data, &run)
		_, _ = ReadSignal("s", data)
	})
}
