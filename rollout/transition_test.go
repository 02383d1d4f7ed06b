package rollout_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/rollout"
)

// TestTransition walks every state with every event and compares the table with testdata. UPDATE=1
// writes it.
func TestTransition(t *testing.T) {
	states := []rollout.State{
		rollout.Locating, rollout.Verifying, rollout.Initializing, rollout.InBatch, rollout.Finalising, rollout.Failing,
		rollout.Abandoning, rollout.Deleting, rollout.RollingBack, rollout.Succeeded, rollout.Failed, "unheardOf",
	}
	batchStates := []rollout.BatchState{
		rollout.BatchInitializing, rollout.BatchInRolling, rollout.BatchVerifying, rollout.BatchFinalizing, rollout.BatchReady, rollout.BatchVerifyFailed,
	}
	events := []rollout.Event{
		rollout.AppLocated, rollout.RollingSpecVerified, rollout.RollingInitialized, rollout.InitializedOneBatch, rollout.RolloutOneBatch,
		rollout.OneBatchAvailable, rollout.FinishedOneBatch, rollout.AllBatchFinished, rollout.BatchRolloutApproved, rollout.WorkloadResized,
		rollout.BatchRolloutFailed, rollout.RollbackRequested, rollout.RollingFinalized, rollout.RolloutStopped, rollout.RollingModified, rollout.RollingDeleted,
	}
	var b strings.Builder
	for _, s := range states {
		in := batchStates
		if s != rollout.InBatch && s != rollout.RollingBack {
			in = batchStates[:1]
		}
		for _, bs := range in {
			b.WriteString(string(s))
			if len(in) > 1 {
				b.WriteString("/" + string(bs))
			}
			b.WriteString("\n")
			for _, e := range events {
				at := rollout.Position{State: s, BatchState: bs, CurrentBatch: 2, Number: 7, Sequence: 9, TargetRevision: "r2"}
				if s == rollout.RollingBack {
					at.Rollback = &rollout.RollbackPosition{FromBatch: 3}
				}
				next, legal := rollout.Transition(at, e)
				line := "\t" + string(e) + ": "
				switch {
				case !legal && next.State == s:
					line += "ignored"
				case !legal:
					line += "ILLEGAL_EVENT, " + string(next.State)
				case next.State == s && next.BatchState == bs && next.CurrentBatch == 2:
					line += "unchanged"
				default:
					line += string(next.State) + "/" + string(next.BatchState) + " " + string(rune('0'+next.CurrentBatch))
					if next.TargetRevision == "" {
						line += " reset"
						if next.Number != 7 || next.Sequence != 9 {
							t.Errorf("a reset loses the numbers: %+v", next)
						}
					}
				}
				b.WriteString(line + "\n")
			}
		}
	}
	golden(t, "testdata/transitions.txt", b.String())
	page, err := os.ReadFile("../docs/reference/rollouts.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```mermaid\n"+rollout.Mermaid()+"```") {
		t.Errorf("the drawing of docs/reference/rollouts.md is not that of the table:\n%s", rollout.Mermaid())
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs; UPDATE=1 writes it:\n%s", file, got)
	}
}

func TestAFinishedRollbackHasNoNextBatch(t *testing.T) {
	at := rollout.Position{State: rollout.RollingBack, BatchState: rollout.BatchReady, CurrentBatch: 1, Rollback: &rollout.RollbackPosition{FromBatch: 1}}
	if next, legal := rollout.Transition(at, rollout.BatchRolloutApproved); legal || next.State != rollout.Failed {
		t.Errorf("%+v", next)
	}
}
