package runs

import (
	"testing"

	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestUnawaitedSignal(t *testing.T) {
	waits := view.Step{Name: "Caught", Phase: runtype.StepWaiting, Wait: &view.Wait{Signal: "caught-up"}}
	ended := view.Step{Name: "Gate", Phase: runtype.StepDone, Wait: &view.Wait{Signal: "go"}}
	for _, c := range []struct {
		signal string
		steps  []view.Step
		want   string
	}{
		{"caught-up", []view.Step{ended, waits}, ""},
		{"caught_up", []view.Step{ended, waits}, "no step of gk3v waits for signal caught_up now; the run keeps it until one does (Caught waits for caught-up)"},
		{"approval", []view.Step{{Name: "GoAhead", Phase: runtype.StepWaiting, Wait: &view.Wait{Reason: "AwaitingApproval"}}}, ""},
		{"go", []view.Step{ended}, "no step of gk3v waits for signal go now; the run keeps it until one does"},
	} {
		if got := unawaited(view.Run{ID: "gk3vaaaaaaaaaaaaaaaaaaaaaa", Steps: c.steps}, c.signal); got != c.want {
			t.Errorf("%s: got %q, want %q", c.signal, got, c.want)
		}
	}
}
