package runstore_test

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var diskFull = fault.Declare(fault.Kind{Code: "DISK_FULL", Class: fault.Blocked, Title: "the disk of the archive is full", Remedy: "Remove old archives, then resume the run."})

// `kubectl describe` of a Run says what its state is, why it waits, and what to do when it
// has stopped; afterwards, that it has continued.
func TestDescribeSaysWhatToDo(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	d := openFixture(t, workflow.Flow{Name: "Archive", Steps: []workflow.Step{
		{Name: "Wait", Skippable: true, Do: func(context.Context, *workflow.Task) outcome.Outcome {
			return outcome.Wait(time.Hour, "ReaderLags", "reader 2 is 3 MB behind")
		}},
		{Name: "Write", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			if full.Load() {
				return outcome.Fail(diskFull.Errorf("12 of 12 GB are used"))
			}
			return outcome.Done()
		}},
	}})
	plane := suite.Plane(t)
	describe := func(wanted ...string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			out, err := exec.Command(plane.Binaries.Kubectl, "--kubeconfig", plane.Kubeconfig(), "-n", d.space, "describe", "run", "archive").CombinedOutput()
			said := regexp.MustCompile(` +`).ReplaceAllString(string(out), " ")
			missing := ""
			for _, want := range wanted {
				if !strings.Contains(said, want) {
					missing = want
				}
			}
			if err == nil && missing == "" {
				t.Logf("$ kubectl describe run archive\n%s", out)
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("kubectl describe does not contain %q (%v):\n%s", missing, err, out)
			}
		}
	}
	d.create("archive", map[string]any{"flow": "Archive", "subject": "Report/default/sales"})
	d.await("archive", "waiting", phaseIs(runtype.Waiting))
	describe("Phase: Waiting", "Step: Wait", "Reason: ReaderLags", "Message: reader 2 is 3 MB behind", "Events: <none>")
	d.annotate("archive", "pawl.dev/skip", "s1,Wait")
	d.await("archive", "paused", phaseIs(runtype.Paused))
	describe("Phase: Paused", "Step: Write", "Code: DISK_FULL", "Title: the disk of the archive is full", "Message: 12 of 12 GB are used", "Remedy: Remove old archives, then resume the run.",
		" Warning DiskFull ", " pawl the run is paused at step Write: 12 of 12 GB are used. Remedy: Remove old archives, then resume the run.")
	full.Store(false)
	d.annotate("archive", "pawl.dev/resume", "r1")
	d.await("archive", "the end", phaseIs(runtype.Succeeded))
	describe("Phase: Succeeded", " Warning DiskFull ", " Normal Resumed ", "the run goes on, requested by annotation")
	if o := d.await("archive", "the end", phaseIs(runtype.Succeeded)); field(o, "status", "fault") != "" {
		t.Errorf("a run that has ended shows the fault %v", field(o, "status", "fault"))
	}
}
