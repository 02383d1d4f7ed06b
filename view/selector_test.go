package view

import (
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestSelectorOfRuns(t *testing.T) {
	labels := map[string]string{"team": "x y", "pawl.dev/file": "/etc/flow.yaml"}
	for text, want := range map[string]bool{
		"": true, "team=x y": true, "team == x y": true, "team": true, "!tier": true, "team!=z": true, "tier!=gold": true,
		"pawl.dev/file=/etc/flow.yaml,team": true, "team=z": false, "tier": false, "!team": false, "team!=x y": false, "team,tier": false,
	} {
		terms, err := Labels(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if again, err := Labels(Selector(terms)); err != nil || Selector(again) != Selector(terms) {
			t.Errorf("%q is written as %q, and read as %v, %v", text, Selector(terms), again, err)
		}
		if q := (runstore.Query{Labels: terms}); q.Matches(&runtype.Run{Labels: labels}) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
	for _, text := range []string{"=b", "!", ",", "!=x"} {
		if _, err := Labels(text); fault.Of(err) != runtype.InputInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
