package format

import (
	"encoding/json"
	"testing"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// An event with only time, kind and step is a line, any other is JSON. Both are decoded
// to the same event.
func TestEventsOfAConfigMap(t *testing.T) {
	second := 2
	const at = "2026-11-21T02:47:15.201000001Z"
	for _, c := range []struct {
		event api.RunEvent
		want  string
	}{
		{api.RunEvent{At: at, Kind: "RunStarted"}, at + " RunStarted"},
		{api.RunEvent{At: at, Kind: "StepDone", Step: "Init"}, at + " StepDone Init"},
		{api.RunEvent{At: at, Kind: "StepDone", Step: "Replace[a b]/Create"}, at + " StepDone Replace[a b]/Create"},
		{api.RunEvent{Kind: "RunStarted"}, `{"kind":"RunStarted"}`},
		{api.RunEvent{At: at, Kind: "Odd kind"}, `{"at":"` + at + `","kind":"Odd kind"}`},
		{api.RunEvent{At: at, Kind: "StepStarted", Step: "Init", Attempt: &second}, `{"at":"` + at + `","kind":"StepStarted","step":"Init","attempt":2}`},
		{api.RunEvent{At: at, Kind: "RunPaused", Actor: "ann"}, `{"at":"` + at + `","kind":"RunPaused","actor":"ann"}`},
	} {
		got := eventText(&c.event)
		if got != c.want {
			t.Errorf("%+v is %s, want %s", c.event, got, c.want)
		}
		back, ok := eventLine(got)
		if !ok {
			if err := json.Unmarshal([]byte(got), &back); err != nil {
				t.Fatal(err)
			}
		}
		if text(back) != text(c.event) {
			t.Errorf("%s is read as %+v", got, back)
		}
	}
}
