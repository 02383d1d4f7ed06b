package fdb

import (
	"encoding/json"
	"testing"
)

func TestResultIsUnknownUnlessSaidOtherwise(t *testing.T) {
	if (Result{}).Outcome != Unknown {
		t.Fatal("the zero result says that something is known")
	}
	for text, want := range map[string]ResultOutcome{`"ok"`: Ok, `"refused"`: Refused, `"unknown"`: Unknown, `"OK"`: Unknown, `""`: Unknown} {
		o := Ok
		if err := json.Unmarshal([]byte(text), &o); err != nil || o != want {
			t.Errorf("%s: %s, %v", text, o, err)
		}
	}
	for _, o := range []ResultOutcome{Unknown, Ok, Refused} {
		text, err := json.Marshal(o)
		var back ResultOutcome
		if err != nil || json.Unmarshal(text, &back) != nil || back != o {
			t.Errorf("%s becomes %s, %s, %v", o, text, back, err)
		}
	}
}

func TestResultText(t *testing.T) {
	for want, r := range map[string]Result{
		"ok":                        {Outcome: Ok},
		"refused: Locked":           {Outcome: Refused, Reason: "Locked"},
		"unknown: TimedOut: 1 of 3": {Outcome: Unknown, Reason: "TimedOut", Text: "1 of 3"},
	} {
		if r.String() != want {
			t.Errorf("%q instead of %q", r, want)
		}
	}
}
