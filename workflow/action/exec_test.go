package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

var diskFull = fault.Declare(fault.Kind{Code: "TEST_DISK_FULL", Class: fault.Blocked, Title: "full", Remedy: "Free space."})

func shell(script string, more ...string) string {
	text, _ := json.Marshal(script)
	return fmt.Sprintf(`{"shell": %s%s}`, text, strings.Join(append([]string{""}, more...), ", "))
}

func TestExecOutput(t *testing.T) {
	for name, c := range map[string]struct{ with, want string }{
		"text":               {`{"command": ["printf", "a\nb\n"]}`, `"a\nb"`},
		"nothing":            {`{"command": ["true"]}`, `""`},
		"lines":              {`{"command": ["printf", "a\n\nb\n"], "output": "lines"}`, `["a","","b"]`},
		"no lines":           {`{"command": ["true"], "output": "lines"}`, `[]`},
		"json":               {`{"command": ["echo", "{ \"n\": 9007199254740993 }"], "output": "json"}`, `{"n":9007199254740993}`},
		"no shell":           {`{"command": ["echo", "$HOME; *", "&&"]}`, `"$HOME; * \u0026\u0026"`},
		"numbers":            {`{"command": ["echo", 5, 1.5, true]}`, `"5 1.5 true"`},
		"shell":              {shell("x=1; echo ${x}${UNSET-}"), `"1"`},
		"stdin":              {`{"command": ["cat"], "stdin": "hello"}`, `"hello"`},
		"stdin nobody reads": {`{"command": ["true"], "stdin": "` + strings.Repeat("x", 200_000) + `"}`, `""`},
		"ok codes":           {shell("echo three; exit 3", `"okCodes": [0, 3]`), `"three"`},
		"dir":                {`{"command": ["pwd"], "dir": "/"}`, `"/"`},
		"value by env":       {shell(`printf %s "$V"`, `"env": {"V": "$(id); ${x}"}`), `"$(id); ${x}"`},
		"cut":                {`{"command": ["printf", "0123456789"], "maxOutput": 4}`, `"01\n[6 bytes left out]\n89"`},
		"cut lines":          {`{"command": ["printf", "0123456789"], "maxOutput": 4, "output": "lines"}`, `["01","[6 bytes left out]","89"]`},
		"own PATH":           {`{"command": ["printenv", "PATH", "PAWL_KEY"], "env": {"PATH": "/usr/bin:/bin"}}`, `"/usr/bin:/bin\nr1/Group/Do/2"`},
		"descriptors":        {shell("for fd in 3 4 5 6; do if [ -e /proc/$$/fd/$fd ]; then echo $fd; fi; done"), `"3"`},
	} {
		t.Run(name, func(t *testing.T) {
			o, task := newHarness(t).run(t.Context(), t, "exec", c.with)
			wantCode(t, o, "Done")
			wantOutput(t, task, c.want)
		})
	}
}

func TestExecEnvironmentIsFixed(t *testing.T) {
	t.Setenv("PASSED", "yes")
	t.Setenv("HIDDEN", "no")
	o, task := newHarness(t).run(t.Context(), t, "exec", `{"command": ["env"], "output": "lines", "passEnv": ["PASSED", "NOT_SET"], "env": {"MINE": 1}}`)
	wantCode(t, o, "Done")
	var lines []string
	if err := json.Unmarshal(task.Result(), &lines); err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	got, _ := json.Marshal(lines)
	if want := `["MINE=1","PASSED=yes","PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",` +
		`"PAWL_ATTEMPT=3","PAWL_EPOCH=7","PAWL_KEY=r1/Group/Do/2","PAWL_RUN=r1","PAWL_STEP=Group/Do"]`; string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestExecFailures(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ with, code, message string }{
		"exit code":        {shell("echo out; echo first >&2; echo last >&2; exit 7"), "COMMAND_FAILED", "exit code 7: first\nlast"},
		"only stdout":      {shell("echo said; exit 1"), "COMMAND_FAILED", "exit code 1: said"},
		"last lines":       {shell("seq 1 100 >&2; exit 1"), "COMMAND_FAILED", "exit code 1: 96\n97\n98\n99\n100"},
		"-e":               {shell("false; echo on"), "COMMAND_FAILED", "exit code 1"},
		"-u":               {shell("echo $NOT_SET"), "COMMAND_FAILED", "NOT_SET"},
		"mapped":           {shell("exit 9", `"faults": {"9": "TEST_DISK_FULL"}`), "TEST_DISK_FULL", "exit code 9"},
		"not declared":     {shell("exit 9", `"faults": {"9": "NO_SUCH"}`), "PARAMETERS_INVALID", `"NO_SUCH" is not declared`},
		"mapped CamelCase": {shell("exit 9", `"faults": {"9": "TestDiskFull"}`), "TEST_DISK_FULL", "exit code 9"},
		"zero is not ok":   {shell("true", `"okCodes": [3]`), "COMMAND_FAILED", "exit code 0"},
		"signal":           {shell("kill -9 $$"), "COMMAND_FAILED", "ended by signal: killed"},
		"no program":       {`{"command": ["no-such-program"]}`, "COMMAND_MISSING", `there is no program "no-such-program" in /usr/local/sbin`},
		"no path":          {`{"command": ["/no/such/program"]}`, "COMMAND_MISSING", "/no/such/program"},
		"not executable":   {`{"command": ["` + plain + `"]}`, "COMMAND_MISSING", "permission denied"},
		"no dir":           {`{"command": ["true"], "dir": "/no/such/dir"}`, "COMMAND_MISSING", "dir: stat /no/such/dir"},
		"dir is a file":    {`{"command": ["true"], "dir": "` + plain + `"}`, "COMMAND_MISSING", "is not a directory"},
		"no JSON":          {`{"command": ["echo", "nope"], "output": "json"}`, "OUTPUT_UNREADABLE", "not one JSON value"},
		"two JSON values":  {`{"command": ["echo", "1 2"], "output": "json"}`, "OUTPUT_UNREADABLE", "not one JSON value"},
		"empty JSON":       {`{"command": ["true"], "output": "json"}`, "OUTPUT_UNREADABLE", "printed nothing"},
		"cut JSON":         {`{"command": ["echo", "\"0123456789\""], "output": "json", "maxOutput": 4}`, "OUTPUT_TOO_LARGE", "maxOutput is 4"},
		"no secret":        {`{"command": ["env"], "env": {"A": {"secret": "unknown"}}}`, "SECRET_MISSING", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			o, task := newHarness(t).run(t.Context(), t, "exec", c.with)
			wantCode(t, o, c.code)
			if !strings.Contains(o.Message(), c.message) {
				t.Errorf("message %q lacks %q", o.Message(), c.message)
			}
			if task.Result() != nil {
				t.Errorf("output of a failure: %s", task.Result())
			}
		})
	}
	o, _ := newHarness(t).run(t.Context(), t, "exec", shell("echo why >&2; exit 7"))
	if d := fault.Details(o.Err()); d["exitCode"] != 7 || d["stderr"] != "why" {
		t.Errorf("details %v", d)
	}
	if !errors.Is(diskFull.Errorf("x"), diskFull) {
		t.Error("the mapped fault is not the declared one")
	}
}

func TestExecHidesSecrets(t *testing.T) {
	b := newHarness(t)
	env := `"env": {"T": {"secret": "token", "prefix": "Bearer "}, "L": {"secret": "lines"}}`
	o, task := b.run(t.Context(), t, "exec", shell(`echo "got $T"; echo "$L"`, env))
	wantCode(t, o, "Done")
	wantOutput(t, task, `"got Bearer ***\n***"`)
	o, _ = b.run(t.Context(), t, "exec", shell(`echo "bad $T" >&2; exit 1`, env))
	if strings.Contains(o.Message(), "s3cr3t") || !strings.Contains(o.Message(), "bad Bearer ***") || strings.Contains(fmt.Sprint(fault.Details(o.Err())), "s3cr3t") {
		t.Errorf("message %q, details %v", o.Message(), fault.Details(o.Err()))
	}
	o, task = b.run(t.Context(), t, "exec", shell(`printf '{"a":"%s"}' "$T"`, env, `"output": "json"`))
	wantCode(t, o, "Done")
	wantOutput(t, task, `{"a":"Bearer ***"}`)
	o, task = b.run(t.Context(), t, "exec", `{"command": ["cat"], "stdin": {"secret": "token"}}`)
	wantCode(t, o, "Done")
	wantOutput(t, task, `"***"`)
	// Programs escape different characters in JSON.
	for _, printed := range []string{`a\"b<c`, `a\"b\u003cc`} {
		b.facts.Resolver = mapSecrets{"token": `a"b<c`}
		o, task = b.run(t.Context(), t, "exec", shell(`cat <<'END'
{"t":"`+printed+`"}
END`, `"env": {"T": {"secret": "token"}}`, `"output": "json"`))
		wantCode(t, o, "Done")
		wantOutput(t, task, `{"t":"***"}`)
	}
}

func TestExecKeepsWhatFitsTheOutput(t *testing.T) {
	b := newHarness(t)
	b.facts.MaxOutput = 1000
	o, task := b.run(t.Context(), t, "exec", shell(`for i in $(seq 1 500); do printf '\001\002'; done; printf END`))
	wantCode(t, o, "Done")
	if text := string(task.Result()); len(text) > 1000 || !strings.Contains(text, "bytes left out") || !strings.Contains(text, "END") {
		t.Errorf("output %s", text)
	}
}

// pidOf waits until a process has written its id and returns it.
func pidOf(t *testing.T, file string) int {
	t.Helper()
	var pid int
	if !gone(5*time.Second, func() bool {
		data, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return pid > 0
	}) {
		t.Fatalf("no process wrote %s", file)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

func lives(pid int) bool {
	state, _, ok := processState(pid)
	return ok && state != 'Z' && state != 'X'
}

func wantDead(t *testing.T, pid int) {
	t.Helper()
	if !gone(2*time.Second, func() bool { return !lives(pid) }) {
		t.Errorf("process %d still lives", pid)
	}
}

// begin runs a step in a goroutine.
func (b *harness) begin(ctx context.Context, t *testing.T, with string) <-chan error {
	done := make(chan error, 1)
	go func() {
		o, _ := b.run(ctx, t, "exec", with)
		done <- o.Err()
	}()
	return done
}

func TestExecEndsTheWholeGroup(t *testing.T) {
	for name, c := range map[string]struct {
		script  string
		atLeast time.Duration // shortest time to its end
	}{
		"obedient":                         {`echo $$ >"$D/a"; sleep 60 & echo $! >"$D/b"; wait`, 0},
		"grandchild holds the pipes":       {`echo $$ >"$D/a"; sh -c 'trap "" TERM; echo $$ >"$D/b"; while :; do sleep 1; done' & wait`, 300 * time.Millisecond},
		"all ignore TERM":                  {`trap "" TERM; echo $$ >"$D/a"; sh -c 'echo $$ >"$D/b"; while :; do sleep 1; done' & while :; do sleep 1; done`, 300 * time.Millisecond},
		"child without pipes ignores TERM": {`echo $$ >"$D/a"; sh -c 'trap "" TERM; echo $$ >"$D/b"; while :; do sleep 1; done' >/dev/null 2>&1 3>&- & wait`, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			dir := t.TempDir()
			ctx, cancel := context.WithCancelCause(t.Context())
			done := b.begin(ctx, t, shell(c.script, `"killGrace": "300ms", "env": {"D": "`+dir+`"}`))
			first, second := pidOf(t, filepath.Join(dir, "a")), pidOf(t, filepath.Join(dir, "b"))
			start := time.Now()
			draining := errors.New("the worker drains")
			cancel(draining)
			if err := <-done; !errors.Is(err, draining) {
				t.Errorf("outcome %v", err)
			}
			if took := time.Since(start); took < c.atLeast || took > 4*time.Second {
				t.Errorf("took %v", took)
			}
			wantDead(t, first)
			wantDead(t, second)
		})
	}
}

func TestExecThatCleansUpOnTERMIsStillStopped(t *testing.T) {
	b := newHarness(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := b.begin(ctx, t, shell(`trap 'echo bye >"$D/bye"; exit 0' TERM; echo $$ >"$D/a"; while :; do sleep 0.05; done`, `"env": {"D": "`+dir+`"}`))
	pidOf(t, filepath.Join(dir, "a"))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("outcome %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "bye")); err != nil || string(data) != "bye\n" {
		t.Errorf("it was not allowed to clean up: %q, %v", data, err)
	}
}

func TestExecEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "started")
	o, _ := newHarness(t).run(ctx, t, "exec", `{"command": ["touch", "`+file+`"]}`)
	if !errors.Is(o.Err(), context.Canceled) {
		t.Errorf("outcome %v", o)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}

func TestExecFailureEndsWhatItLeftBehind(t *testing.T) {
	b := newHarness(t)
	dir := t.TempDir()
	o, _ := b.run(t.Context(), t, "exec", shell(`sleep 60 & echo $! >"$D/a"; exit 1`, `"env": {"D": "`+dir+`"}`))
	wantCode(t, o, "COMMAND_FAILED")
	wantDead(t, pidOf(t, filepath.Join(dir, "a")))
}

func TestExecDaemonOutlivesTheStep(t *testing.T) {
	b := newHarness(t)
	dir := t.TempDir()
	with := shell(`setsid sh -c 'echo $$ >"$D/a"; exec sleep 60' >/dev/null 2>&1 </dev/null 3>&- &
while [ ! -s "$D/a" ]; do sleep 0.01; done; echo started`, `"env": {"D": "`+dir+`"}`)
	start := time.Now()
	o, task := b.run(t.Context(), t, "exec", with)
	wantCode(t, o, "Done")
	wantOutput(t, task, `"started"`)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("the daemon held the step up for %v", took)
	}
	pid := pidOf(t, filepath.Join(dir, "a"))
	if locks, _ := filepath.Glob(filepath.Join(b.options.StateDir, "exec", "*")); len(locks) != 0 {
		t.Errorf("the lock file stayed: %v", locks)
	}
	o, _ = b.run(t.Context(), t, "exec", `{"command": ["true"]}`) // the same key again
	wantCode(t, o, "Done")
	if !lives(pid) {
		t.Error("the next attempt ended the daemon")
	}
}

func TestExecIsNotHeldUpByAGrandchildWithThePipes(t *testing.T) {
	b := newHarness(t)
	dir := t.TempDir()
	start := time.Now()
	o, task := b.run(t.Context(), t, "exec", shell(`sleep 60 & echo $! >"$D/a"; echo out`, `"env": {"D": "`+dir+`"}`))
	wantCode(t, o, "Done")
	wantOutput(t, task, `"out"`)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if !lives(pidOf(t, filepath.Join(dir, "a"))) {
		t.Error("a process that a successful command left behind was ended")
	}
}

func TestExecRefusesAStateFolderItCannotWrite(t *testing.T) {
	b := newHarness(t)
	b.options.StateDir = "/proc/none"
	o, _ := b.run(t.Context(), t, "exec", `{"command": ["true"]}`)
	wantCode(t, o, "STATE_FOLDER_UNUSABLE")
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o700, "data": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/no/where::" + dir}
	if got, err := lookPath("tool", "", env); err != nil || got != filepath.Join(dir, "tool") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := lookPath("data", "", env); !errors.Is(err, CommandMissing) || !strings.Contains(err.Error(), "not executable") {
		t.Errorf("%v", err)
	}
	if got, _ := lookPath("./tool", dir, env); got != "./tool" {
		t.Errorf("%q", got)
	}
}

// An exit code of a command can stand for a fault with a remedy.
func ExampleStandard_exec() {
	dir, _ := os.MkdirTemp("", "pawl")
	defer os.RemoveAll(dir)
	actions, _ := Standard(Options{Only: []string{"exec"}, StateDir: dir})
	task := workflow.NewTask(context.Background(), workflow.TaskFacts{
		Run: "r1", Step: "Dump",
		With: json.RawMessage(`{"shell": "echo no space left >&2; exit 9", "faults": {"9": "TEST_DISK_FULL"}}`),
	})
	fmt.Println(actions[0].Do(context.Background(), task))
	// Output:
	// fail TEST_DISK_FULL: exit code 9: no space left
}
