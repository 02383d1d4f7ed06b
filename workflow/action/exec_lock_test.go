package action

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// killedWorker runs an attempt in another process, kills that process after the command has
// started, and returns the children of the command.
func killedWorker(t *testing.T, state, dir, script string, files ...string) []int {
	t.Helper()
	worker := exec.Command(os.Args[0], "-test.run=^TestWorkerProcess$")
	// A killed process does not clean up: the test removes its temporary files.
	worker.Env = append(os.Environ(), "ACTION_WORKER="+script, "ACTION_STATE="+state, "D="+dir, "TMPDIR="+t.TempDir())
	worker.Stderr = os.Stderr
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // keep the pipe empty
		for scan := bufio.NewScanner(out); scan.Scan(); {
			continue
		}
	}()
	var pids []int
	for _, file := range files {
		pids = append(pids, pidOf(t, filepath.Join(dir, file)))
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	return pids
}

// TestWorkerProcess is the worker that killedWorker kills.
func TestWorkerProcess(t *testing.T) {
	script := os.Getenv("ACTION_WORKER")
	if script == "" {
		t.Skip("runs as a child only")
	}
	b := newHarness(t)
	b.options.StateDir = os.Getenv("ACTION_STATE")
	b.run(context.Background(), t, "exec", shell(script, `"passEnv": ["D"]`))
}

func TestNewAttemptEndsTheOldCopy(t *testing.T) {
	for name, script := range map[string]string{
		"obedient":        `echo $$ >"$D/a"; sh -c 'echo $$ >"$D/b"; exec sleep 60' & wait`,
		"ignores TERM":    `trap "" TERM; echo $$ >"$D/a"; sh -c 'echo $$ >"$D/b"; while :; do sleep 1; done' & while :; do sleep 1; done`,
		"leader has gone": `echo $$ >"$D/a"; sh -c 'echo $$ >"$D/b"; exec sleep 60' & while kill -0 $PPID; do sleep 0.01; done`,
		"left the group":  `echo $$ >"$D/a"; setsid sh -c 'echo $$ >"$D/b"; exec sleep 60' & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			dir := t.TempDir()
			old := killedWorker(t, b.options.StateDir, dir, script, "a", "b")
			if name == "leader has gone" {
				wantDead(t, old[0])
			} else if !lives(old[0]) {
				t.Fatal("the old copy did not outlive its worker")
			}
			if !lives(old[1]) {
				t.Fatal("the old copy did not outlive its worker")
			}
			// The new attempt checks itself that no other process is left.
			o, task := b.run(t.Context(), t, "exec", shell(`for f in a b; do read pid <"$D/$f"
if [ -d "/proc/$pid" ] && ! grep -q '^State:.*Z' "/proc/$pid/status"; then echo "$f lives"; fi; done`,
				`"env": {"D": "`+dir+`"}`, `"killGrace": "300ms"`))
			wantCode(t, o, "Done")
			wantOutput(t, task, `""`)
			wantDead(t, old[0])
			wantDead(t, old[1])
		})
	}
}

func TestOtherKeysAreLeftAlone(t *testing.T) {
	b := newHarness(t)
	dir := t.TempDir()
	old := killedWorker(t, b.options.StateDir, dir, `echo $$ >"$D/a"; exec sleep 60`, "a")
	b.facts.Round++ // another key
	o, _ := b.run(t.Context(), t, "exec", `{"command": ["true"]}`)
	wantCode(t, o, "Done")
	if !lives(old[0]) {
		t.Error("an attempt of another key ended it")
	}
}

func TestAwaitingTheLockObeysTheContext(t *testing.T) {
	state := t.TempDir()
	held, err := takeLock(t.Context(), state, "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.release()
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(50*time.Millisecond, cancel)
	defer timer.Stop()
	start := time.Now()
	if _, err := takeLock(ctx, state, "k", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestALockThatIsNotGivenUpIsAFault(t *testing.T) {
	state := t.TempDir()
	held, err := takeLock(t.Context(), state, "k", 0) // held by this process, which must not end itself
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeLock(t.Context(), state, "k", 10*time.Millisecond); !errors.Is(err, CommandStillRunning) {
		t.Errorf("got %v", err)
	}
	held.release()
	again, err := takeLock(t.Context(), state, "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
	if _, err := os.Stat(again.path); !os.IsNotExist(err) {
		t.Errorf("the lock file stayed: %v", err)
	}
}

func TestLockFileTellsTheGroup(t *testing.T) {
	b := newHarness(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := b.begin(ctx, t, shell(`echo $$ >"$D/a"; exec sleep 60`, `"env": {"D": "`+dir+`"}`))
	pid := pidOf(t, filepath.Join(dir, "a"))
	path, err := lockPath(b.options.StateDir, "r1/Group/Do/2")
	if err != nil {
		t.Fatal(err)
	}
	if got := oldGroups(path); !slices.Equal(got, []int{pid}) {
		t.Errorf("groups %v, want %d", got, pid)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("lock file: %v, %v", info, err)
	}
	cancel()
	<-done
}

func TestGroupsToEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		noted   int
		holders []holder
		want    []int
	}{
		{"nothing known", 0, nil, nil},
		{"only the note", 50, nil, []int{50}},
		{"holders count more than a note that may be another's by now", 50, []holder{{pid: 61, group: 60}}, []int{60}},
		{"each group once", 50, []holder{{pid: 51, group: 50}, {pid: 52, group: 50}, {pid: 70, group: 70}}, []int{50, 70}},
		{"never our own, never init, never all", 9, []holder{{pid: 9, group: 9}, {pid: 1, group: 1}, {pid: 2, group: 0}}, nil},
		{"a torn note", -5, nil, nil},
	} {
		if got := groupsToEnd(c.noted, c.holders, 9); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestGroupLives(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if !groupLives(pid) {
		t.Error("a living group is called dead")
	}
	_ = cmd.Process.Kill()
	if !gone(2*time.Second, func() bool { return !groupLives(pid) }) { // not yet awaited: a zombie
		t.Error("a zombie is called alive")
	}
	_ = cmd.Wait()
	if groupLives(pid) {
		t.Error("a group that is gone is called alive")
	}
}
