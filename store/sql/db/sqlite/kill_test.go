package sqlite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
)

// Environment of a child process on the file. A child starts the runs, continues those
// that it finds, and is killed before or after a write, or at any moment by its parent.
const (
	childFile   = "PAWL_LIFE_FILE"
	childAt     = "PAWL_LIFE_AT" // number of the write to die at; 0: the parent kills it, or nobody does
	childAfter  = "PAWL_LIFE_AFTER"
	childRuns   = 20
	childFlow   = "Life"
	killerFlow  = "Killer"
	childKiller = "PAWL_LIFE_KILLER"
)

var childSteps = []string{"a", "b", "par/x", "par/y", "each[0]", "each[1]", "c", "d", "e"}

// A test binary with these variables is a child instead of running its tests.
func init() {
	path := os.Getenv(childFile)
	if path == "" {
		return
	}
	if err := runChild(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	at, err := strconv.Atoi(os.Getenv(childAt))
	if err != nil {
		return err
	}
	store, err := sql.OpenSQLite(ctx, sql.Options{Path: path})
	if err != nil {
		return err
	}
	if err := sqlite.LengthenBy(store.DB, 16<<10); err != nil { // small, so that children die during the lengthening too
		return err
	}
	keys, err := os.OpenFile(path+".keys", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	doomed := &dyingStore{SQLite: store, at: int64(at), after: os.Getenv(childAfter) != "", left: make(chan struct{}, 1)}
	engine, err := workflow.New(doomed, childFlows(keys), workflow.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- engine.Serve(ctx) }()
	for i := range childRuns {
		if _, err := engine.Start(ctx, workflow.Request{Flow: childFlow, Subject: fmt.Sprintf("life/default/%d", i), RequestID: "1"}); err != nil {
			return err
		}
	}
	if os.Getenv(childKiller) != "" {
		if _, err := engine.Start(ctx, workflow.Request{Flow: killerFlow, Subject: "killer/default/k", RequestID: "1"}); err != nil {
			return err
		}
	}
	for {
		resumed, err := resumeInnocent(ctx, engine, store)
		if err != nil {
			return err
		}
		left, _, err := store.List(ctx, runstore.Query{Phases: []runtype.Phase{runtype.Queued, runtype.Running, runtype.Waiting, runtype.Cancelling}, Limit: 1})
		if err != nil {
			return err
		}
		if len(left) == 0 && !resumed { // unless a run paused between the two reads
			if resumed, err = resumeInnocent(ctx, engine, store); err != nil {
				return err
			}
			if !resumed {
				break
			}
		}
		select {
		case <-doomed.left:
		case <-time.After(20 * time.Millisecond):
		}
	}
	cancel()
	if err := <-served; err != nil {
		return err
	}
	return store.Close()
}

// resumeInnocent follows the remedy of CRASHED for an operator who knows that the
// processes were killed from outside: twice in a row during one step.
func resumeInnocent(ctx context.Context, engine *workflow.Engine, store *sql.SQLite) (resumed bool, err error) {
	paused, _, err := store.List(ctx, runstore.Query{Phases: []runtype.Phase{runtype.Paused}, Flow: childFlow, Limit: childRuns})
	if err != nil {
		return false, err
	}
	for _, r := range paused {
		if r.Fault == nil || r.Fault.Code != workflow.Crashed.Code {
			continue
		}
		err := engine.Resume(ctx, r.ID, "", "", workflow.Actor{Name: "eve"})
		if errors.Is(err, workflow.RunFinished) { // an earlier resume was carried out after the list was read
			continue
		}
		if err != nil {
			return false, err
		}
		resumed = true
	}
	return resumed, nil
}

func childFlows(keys io.Writer) []workflow.Flow {
	step := func(name string) workflow.Step {
		return workflow.Step{Name: name, Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			_, err := fmt.Fprintln(keys, t.Key())
			return outcome.Fail(err)
		}}
	}
	each := step("each")
	each.ForEach = &workflow.Loop{List: func(workflow.View) ([]json.RawMessage, error) {
		return []json.RawMessage{json.RawMessage("1"), json.RawMessage("2")}, nil
	}}
	die := workflow.Step{Name: "die", Do: func(context.Context, *workflow.Task) outcome.Outcome {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}}
	return []workflow.Flow{
		{Name: childFlow, Steps: []workflow.Step{step("a"), step("b"), {Name: "par", Parallel: 2, Steps: []workflow.Step{step("x"), step("y")}}, each, step("c"), step("d"), step("e")}},
		{Name: killerFlow, Steps: []workflow.Step{die}},
	}
}

// dyingStore kills its process before or after its n-th write.
type dyingStore struct {
	*sql.SQLite
	at     int64
	after  bool
	writes atomic.Int64
	left   chan struct{}
}

func (d *dyingStore) write(do func() error) error {
	n := d.writes.Add(1)
	if d.at > 0 && n == d.at && !d.after {
		d.die()
	}
	err := do()
	if d.at > 0 && n == d.at {
		d.die()
	}
	return err
}

func (d *dyingStore) die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (d *dyingStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (out *runtype.Run, err error) {
	err = d.write(func() error { out, err = d.SQLite.Create(ctx, r, events); return err })
	return out, err
}

func (d *dyingStore) Save(ctx context.Context, s *runstore.Save) error {
	err := d.write(func() error { return d.SQLite.Save(ctx, s) })
	if s.Run.Phase.Final() || s.Run.Phase == runtype.Paused {
		select {
		case d.left <- struct{}{}:
		default:
		}
	}
	return err
}

// killRepeatedly runs children on a file until the runs have ended, and counts the
// deaths. The parent kills a child that env gives no environment.
func killRepeatedly(t *testing.T, path string, most int, env func(life int) []string) (deaths int) {
	t.Helper()
	for life := 0; ; life++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childFile+"="+path, childAt+"=0")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		byHand := false
		if life < most {
			extra := env(life)
			cmd.Env, byHand = append(cmd.Env, extra...), extra == nil
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if byHand { // at any moment
			time.AfterFunc(time.Duration(rand.IntN(40_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
		err := cmd.Wait()
		if err == nil {
			return deaths
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Fatalf("life %d ended by itself: %v\n%s", life, err, stderr.String())
		}
		deaths++
	}
}

// TestKillNineLosesNothing: processes are killed before and after writes and at any
// moment (PAWL_TEST_KILLS times). Every run ends, no step is executed more often than
// its attempts were saved before the action, and the history has no gap.
//
// It covers promises 1, 2, 3 and 6.
func TestKillNineLosesNothing(t *testing.T) {
	kills := 25
	if text := os.Getenv("PAWL_TEST_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	deaths := 0
	for file := 0; deaths < kills; file++ {
		path := filepath.Join(t.TempDir(), "life.db")
		deaths += killRepeatedly(t, path, kills-deaths, func(life int) []string {
			if life%4 == 3 {
				return nil
			}
			env := []string{fmt.Sprintf("%s=%d", childAt, 1+rand.IntN(40))}
			if life%2 == 1 {
				env = append(env, childAfter+"=1")
			}
			return env
		})
		inspect(t, path)
		if file > kills {
			t.Fatal("no process dies")
		}
	}
	t.Logf("%d processes were killed", deaths)
}

// TestFinding9KillNineByAStep: a step kills its process twice, the second time while no
// other suspect runs. Then its run is Paused with CRASHED, and the other runs succeed.
func TestFinding9KillNineByAStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "life.db")
	deaths := killRepeatedly(t, path, 100, func(int) []string { return []string{childKiller + "=1"} })
	if deaths != 2 {
		t.Fatalf("%d deaths", deaths)
	}
	store := reopened(t, path)
	k, _, err := store.Load(t.Context(), workflow.RunID("killer/default/k", killerFlow, "1"))
	if err != nil {
		t.Fatal(err)
	}
	if k.Phase != runtype.Paused || k.Fault.Code != workflow.Crashed.Code {
		t.Fatalf("%s %+v", k.Phase, k.Fault)
	}
}

func reopened(t *testing.T, path string) *sql.SQLite {
	t.Helper()
	store, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func inspect(t *testing.T, path string) {
	t.Helper()
	executed := map[string]int{}
	file, err := os.Open(path + ".keys")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		executed[lines.Text()]++
	}
	store, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	report, err := store.Check(t.Context())
	if err != nil || !report.Healthy {
		t.Fatalf("%+v %v", report, err)
	}
	for i := range childRuns {
		id := workflow.RunID(fmt.Sprintf("life/default/%d", i), childFlow, "1")
		run, _, err := store.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if run.Phase != runtype.Succeeded {
			t.Fatalf("run %d is %s", i, run.Phase)
		}
		events, err := store.History(t.Context(), id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		begun, ended := map[string]int{}, map[string]int{}
		for n, e := range events {
			if e.Seq != int64(n)+1 {
				t.Fatalf("run %d: event %d has number %d", i, n, e.Seq)
			}
			switch e.Kind {
			case runtype.StepStarted:
				begun[e.Step]++
			case runtype.StepDoneEvent:
				ended[e.Step]++
			}
		}
		for _, step := range childSteps {
			n := executed[id+"/"+step+"/0"]
			if n < 1 || n > begun[step] || ended[step] != 1 {
				t.Fatalf("run %d step %s: executed %d times, started %d, done %d", i, step, n, begun[step], ended[step])
			}
		}
	}
}
