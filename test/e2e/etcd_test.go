// Package e2e_test runs whole operations with real binaries. PAWL is the path of a built
// pawl.
package e2e_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/demo"
	"github.com/pawl-dev/pawl/test/etcdproc"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The main use case of `make demo`, on real processes. A client writes all the time; no
// acknowledged key is lost, and the quorum stays.
func TestEtcdClusterFromYAML(t *testing.T) {
	d, dir := start(t)
	for _, act := range d.Acts() {
		if !t.Run(act.Name, func(t *testing.T) {
			if err := act.Play(t.Context()); err != nil {
				t.Fatal(err)
			}
		}) {
			t.Logf("the server's log:\n%s", tail(filepath.Join(dir, "pawl.log"), 40))
			return
		}
	}
	facts := d.Facts()
	t.Run("NoAcknowledgedKeyIsLost", func(t *testing.T) {
		if facts.Acked < 1000 || facts.Lost != 0 {
			t.Errorf("%d of %d acknowledged keys are lost", facts.Lost, facts.Acked)
		}
	})
	t.Run("TheQuorumIsKept", func(t *testing.T) {
		if facts.FewestReady < 3 || facts.ReadyWhenHeld != 5 {
			t.Errorf("during the rolling restart at least %d of 5 members were ready, %d while it was paused", facts.FewestReady, facts.ReadyWhenHeld)
		}
		if facts.LongestGap > 10*time.Second { // an election takes one to two seconds, a busy machine more
			t.Errorf("for %s no write was acknowledged", facts.LongestGap)
		}
	})
	t.Run("TheKilledMemberIsReplaced", func(t *testing.T) {
		inOrder(t, facts.Histories["RepairCluster"], "StepFailed Verify/Healthy MEMBER_LOST", "RunPaused Verify/Healthy MEMBER_LOST",
			"HealingBegun Verify/Healthy MEMBER_LOST", "HealingEnded", "RunResumed", "StepDone Verify/Healthy", "RunSucceeded")
		if !facts.Replaced {
			t.Error("the member has its old id")
		}
	})
	t.Run("APauseLeavesNoMemberDown", func(t *testing.T) {
		history := facts.Histories["RestartCluster"]
		inOrder(t, history, "StepStarted Restart[demo-2]/Down/Stop", "RunPaused", "RunResumed")
		// On a busy machine the request may come after the member is up; it must be up before the
		// resume.
		inOrder(t, history, "StepStarted Restart[demo-2]/Down/Stop", "StepDone Restart[demo-2]/Down/Start",
			"RunResumed", "StepDone Restart[demo-4]/Down/Start", "RunSucceeded")
	})
	t.Run("TheLearnerIsTakenAway", func(t *testing.T) {
		inOrder(t, facts.Histories["ScaleOut"], "StepDone Add[demo-6]/Join/Add", "RunCancelling", "StepUndone Add[demo-6]/Join/Add", "RunCancelled")
		if !facts.Undone {
			t.Error("the learner is still a member")
		}
	})
	t.Run("TheRunGoesOnAfterKill9", func(t *testing.T) {
		history := facts.Histories["ScaleOut after the crash"]
		// On a busy machine the kill may come after the first new member was promoted.
		inOrder(t, history, "StepDone Add[demo-6]/Join/Add", "StepLost", "StepDone Add[demo-7]/Verify/Healthy", "RunSucceeded")
		inOrder(t, history, "StepDone Add[demo-6]/Join/Add", "StepDone Add[demo-6]/Join/Promote", "StepDone Add[demo-7]/Verify/Healthy")
		for i, e := range history {
			if e.Seq != i+1 {
				t.Fatalf("event %d has number %d", i+1, e.Seq)
			}
		}
	})
}

// A port in use pauses the run with a fault; when the port is free, resume continues the
// run.
func TestEtcdPortTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	d, _ := start(t)
	listener, err := net.Listen("tcp", strings.TrimPrefix(d.Client(2), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	run, err := d.Apply(t.Context(), "Interrupted")
	if err != nil {
		t.Fatal(err)
	}
	if run.Fault == nil || run.Fault.Code != "PORT_TAKEN" || !strings.Contains(run.Fault.Message, "address already in use") {
		t.Fatalf("the fault is %+v", run.Fault)
	}
	listener.Close()
	if err := d.Resume(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A typo in the number of members can be corrected without a command: whether it is
// refused at once, or its run stops half-way. Members that die meanwhile are replaced.
func TestFinding14AnImpossibleSpec(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	d, _ := startWith(t, withoutSchema)
	if _, err := d.Apply(t.Context(), "Running"); err != nil {
		t.Fatal(err)
	}
	set := func(members int) {
		t.Helper()
		if err := d.Set("members", members); err != nil {
			t.Fatal(err)
		}
	}
	set(99)
	if err := d.Faulty(t.Context(), "Running", "INPUT_INVALID"); err != nil {
		t.Fatal(err)
	}
	if err := d.Kill("demo-2"); err != nil { // healing continues
		t.Fatal(err)
	}
	history, err := d.Ended(t.Context(), "RepairCluster")
	if err != nil {
		t.Fatal(err)
	}
	inOrder(t, history, "RunSucceeded")
	if n := d.Ready(t.Context(), 3); n != 3 {
		t.Errorf("%d of 3 members are ready", n)
	}
	listener, err := net.Listen("tcp", strings.TrimPrefix(d.Client(4), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	set(4)
	run, err := d.Apply(t.Context(), "Interrupted")
	if err != nil {
		t.Fatal(err)
	}
	if run.Fault == nil || run.Fault.Code != "PORT_TAKEN" {
		t.Fatalf("the fault is %+v", run.Fault)
	}
	set(3)
	if err := d.ApplyAndWait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Await(t.Context(), "Running", 3); err != nil {
		t.Fatal(err)
	}
	if history, err = d.History(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	inOrder(t, history, "RunPaused", "RunCancelling", "StepUndone Add[demo-4]/Join/Add", "RunCancelled")
	listener.Close()
	set(4)
	if _, err := d.Apply(t.Context(), "ScalingOut"); err != nil {
		t.Fatal(err)
	}
	if err := d.Await(t.Context(), "Running", 4); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// withoutSchema is a machine file without a schema of the spec: apply accepts any spec.
func withoutSchema(machine string) string {
	return regexp.MustCompile(`(?m)^spec:\n(?:  .*\n|\n)+`).ReplaceAllString(machine, "")
}

// Without a quorum no member can be replaced: the members restart on their data.
func TestEtcdQuorumLost(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	d, _ := start(t)
	if _, err := d.Apply(t.Context(), "Running"); err != nil {
		t.Fatal(err)
	}
	writer := etcdproc.StartWriter(t, d.Client(1), d.Client(2), d.Client(3))
	writer.WaitAcked(t, 50)
	for _, who := range []string{"demo-1", "demo-3"} {
		if err := d.Kill(who); err != nil {
			t.Fatal(err)
		}
	}
	history, err := d.Ended(t.Context(), "RepairCluster")
	if err != nil {
		t.Fatal(err)
	}
	inOrder(t, history, "StepFailed Verify/Healthy QUORUM_LOST", "HealingBegun Verify/Healthy QUORUM_LOST", "HealingEnded", "RunSucceeded")
	if n := d.Ready(t.Context(), 3); n != 3 {
		t.Errorf("%d of 3 members are ready", n)
	}
	writer.WaitAcked(t, 50)
	writer.Stop().NoneLost(t, d.Client(1), d.Client(2), d.Client(3))
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The server is killed with -9 at each step of a growing cluster.
func TestKillServerAtEachStepOfScaleOut(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	d, _ := start(t)
	if _, err := d.Apply(t.Context(), "Running"); err != nil {
		t.Fatal(err)
	}
	endpoints := []string{d.Client(1), d.Client(2), d.Client(3)}
	writer := etcdproc.StartWriter(t, endpoints...)
	if err := d.Set("members", 4); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Apply(t.Context(), "ScalingOut"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"Join/Add", "Join/InstallMember/Install", "Join/Start", "Join/Promote", "Verify/Healthy"} {
		if err := d.CrashAt(t.Context(), "ScaleOut", "Add[demo-4]/"+step); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Await(t.Context(), "Running", 4); err != nil {
		t.Fatal(err)
	}
	history, err := d.Ended(t.Context(), "ScaleOut")
	if err != nil {
		t.Fatal(err)
	}
	inOrder(t, history, "StepLost")
	inOrder(t, history, "StepDone Add[demo-4]/Join/Add", "StepDone Add[demo-4]/Join/Promote", "StepDone Add[demo-4]/Verify/Healthy", "RunSucceeded")
	writer.Stop().NoneLost(t, endpoints...)
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A fault is healed in any flow: here in the middle of a rolling restart.
func TestEtcdMemberDiesDuringRollingRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	d, _ := start(t)
	if _, err := d.Apply(t.Context(), "Running"); err != nil {
		t.Fatal(err)
	}
	endpoints := []string{d.Client(1), d.Client(2), d.Client(3)}
	writer := etcdproc.StartWriter(t, endpoints...)
	writer.WaitAcked(t, 50)
	if err := d.Set("revision", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Apply(t.Context(), "Restarting"); err != nil {
		t.Fatal(err)
	}
	if err := d.Kill("demo-3"); err != nil {
		t.Fatal(err)
	}
	history, err := d.Ended(t.Context(), "RestartCluster")
	if err != nil {
		t.Fatal(err)
	}
	inOrder(t, history, "HealingBegun", "HealingEnded", "RunResumed", "StepDone Restart[demo-2]/Verify/Healthy", "StepDone Note", "RunSucceeded")
	if n := d.Ready(t.Context(), 3); n != 3 {
		t.Errorf("%d of 3 members are ready", n)
	}
	writer.Stop().NoneLost(t, endpoints...)
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// start starts a demo, and removes everything at the end of the test.
func start(t *testing.T) (*demo.Demo, string) {
	t.Helper()
	return startWith(t, nil)
}

// startWith is start with another machine file.
func startWith(t *testing.T, other func(machine string) string) (*demo.Demo, string) {
	t.Helper()
	binaries, err := etcdproc.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root, err := etcdproc.Root()
	if err != nil {
		t.Fatal(err)
	}
	pawl := os.Getenv("PAWL")
	if pawl == "" {
		pawl = filepath.Join(t.TempDir(), "pawl")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", pawl, "./cmd/pawl")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building pawl: %v\n%s", err, out)
		}
	}
	dir, of := t.TempDir(), root
	if other != nil {
		of = t.TempDir()
		from, to := filepath.Join(root, "examples", "etcd"), filepath.Join(of, "examples", "etcd")
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(to, "machine.yaml")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(other(string(text))), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := demo.New(t.Context(), demo.Options{Root: of, Pawl: pawl, Etcd: binaries.Etcd, Etcdctl: binaries.Etcdctl, Dir: dir, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		// Members that were deleted with the cluster, or ended by Close.
		if pids, _ := filepath.Glob(filepath.Join(dir, "etcd", "*", "*", "data")); len(pids) > 0 && !t.Failed() {
			t.Errorf("data is left: %v", pids)
		}
	})
	return d, dir
}

// inOrder expects these events in this order; others may be between them.
func inOrder(t *testing.T, history []demo.Event, want ...string) {
	t.Helper()
	rest := slices.Clone(want)
	var lines []string
	for _, e := range history {
		line := strings.TrimSpace(strings.Join([]string{e.Kind, e.Step, e.Code}, " "))
		lines = append(lines, line)
		if len(rest) > 0 && (line == rest[0] || e.Kind == rest[0] || e.Kind+" "+e.Step == rest[0]) {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		t.Errorf("the history has no %q there:\n%s", rest[0], strings.Join(lines, "\n"))
	}
}

func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "there is none"
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
