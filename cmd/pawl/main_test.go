package main

import (
	"bufio"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/workflow"
)

var update = flag.Bool("update", false, "write what the scripts compare with anew")

func TestMain(m *testing.M) {
	testscript.Main(home{m}, map[string]func(){"pawl": main, "kubectl-pawl": main})
}

// home are the tests, with contexts of their own instead of those of who calls them.
type home struct{ *testing.M }

func (h home) Run() int {
	dir, err := os.MkdirTemp("", "pawl-contexts-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("PAWL_CONTEXTS", filepath.Join(dir, "contexts.yaml")); err != nil {
		panic(err)
	}
	return h.M.Run()
}

// waitTimeout is how long a script waits for what must happen.
const waitTimeout = 2 * time.Minute

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		WorkdirRoot:   t.TempDir(), // the one of testscript stays behind when a single script is run
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, "XDG_STATE_HOME="+filepath.Join(env.WorkDir, "state"), "PAWL_CONTEXTS="+filepath.Join(env.WorkDir, "contexts.yaml"), "USER=ann", "TZ=UTC", "NO_COLOR=1")
			env.Values[processes{}] = map[string]*process{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "prints": prints, "halt": halt, "waitfor": waitFor, "receiver": receiver, "exits": exits, "normal": normal, "runid": runID,
			"cut": cut, "absent": absent, "kubeapi": kubeapi,
		},
	})
}

type processes struct{}

type process struct {
	cmd   *exec.Cmd
	lines chan string // of its output; closed at its end
	err   chan error
}

// start NAME [TEXT] -- pawl ARGS…: starts pawl beside the script and waits for a
// line of its output that holds TEXT. An URL in it becomes PAWL_SERVER.
func start(ts *testscript.TestScript, neg bool, args []string) {
	at := slices.Index(args, "--")
	if neg || at != 1 && at != 2 || len(args) <= at+1 {
		ts.Fatalf("usage: start NAME [TEXT] -- pawl ARGS…")
	}
	name, text, line := args[0], "", args[at+1:]
	if at == 2 {
		text = args[1]
	}
	var path string
	err := exec.ErrNotFound
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err = exec.LookPath(filepath.Join(dir, line[0])); err == nil {
			break
		}
	}
	ts.Check(err)
	p := &process{cmd: exec.Command(path, line[1:]...), lines: make(chan string, 1000), err: make(chan error, 1)}
	p.cmd.Dir = ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "XDG_STATE_HOME", "PAWL_CONTEXTS", "USER", "TZ", "NO_COLOR", "TMPDIR", "WORK"} {
		p.cmd.Env = append(p.cmd.Env, key+"="+ts.Getenv(key))
	}
	out, err := p.cmd.StdoutPipe()
	ts.Check(err)
	p.cmd.Stderr = p.cmd.Stdout
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			select {
			case p.lines <- s.Text():
			default: // nobody reads so much
			}
		}
		p.err <- p.cmd.Wait()
	}()
	ts.Value(processes{}).(map[string]*process)[name] = p
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		for range p.lines {
		}
	})
	if text == "" {
		return
	}
	for word := range strings.FieldsSeq(p.until(ts, name, text)) {
		if strings.HasPrefix(word, "http") {
			ts.Setenv("PAWL_SERVER", word)
		}
	}
}

// until waits for a line that holds a text.
func (p *process) until(ts *testscript.TestScript, name, text string) string {
	deadline := time.After(waitTimeout)
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				ts.Fatalf("%s ended before it printed %q: %v", name, text, <-p.err)
			}
			ts.Logf("%s: %s", name, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			ts.Fatalf("%s did not print %q", name, text)
		}
	}
}

// prints NAME TEXT: waits until a process that was started has printed a line with the text.
func prints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: prints NAME TEXT")
	}
	ts.Value(processes{}).(map[string]*process)[args[0]].until(ts, args[0], args[1])
}

// halt NAME SIGNAL CODE: sends a signal and checks the exit code; -1 for a killed process.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: halt NAME SIGNAL CODE")
	}
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}
	p := ts.Value(processes{}).(map[string]*process)[args[0]]
	if args[1] != "NONE" {
		ts.Check(p.cmd.Process.Signal(signals[args[1]]))
	}
	if args[2] == "-" {
		return
	}
	ended := make(chan error, 1)
	go func() {
		for line := range p.lines {
			ts.Logf("%s: %s", args[0], line)
		}
		ended <- <-p.err
	}()
	select {
	case err := <-ended:
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if strconv.Itoa(code) != args[2] {
			ts.Fatalf("%s ended with %d, not %s", args[0], code, args[2])
		}
	case <-time.After(waitTimeout):
		ts.Fatalf("%s did not end", args[0])
	}
}

// waitfor FILE: until the file exists. waitfor TEXT -- pawl ARGS…: until the output holds the text.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(waitTimeout)
	for tries := 0; ; tries++ {
		if len(args) == 1 {
			if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
				return
			}
		} else {
			_ = ts.Exec(args[2], args[3:]...) // an error is an answer without the text
			if strings.Contains(ts.ReadFile("stdout"), args[0]) != neg {
				return
			}
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %s", strings.Join(args, " "))
		}
		<-time.After(50 * time.Millisecond)
	}
}

// exits CODE pawl ARGS…: runs a command and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE pawl ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s ended with %d, not %s\n%s%s", strings.Join(args[1:], " "), code, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// runid NAME SUBJECT FLOW REQUEST: sets a variable to the beginning of a run's id.
func runID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: runid NAME SUBJECT FLOW REQUEST")
	}
	ts.Setenv(args[0], workflow.RunID(args[1], args[2], args[3])[:6])
}

// cut FILE NEW: writes the first half of a file.
func cut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut FILE NEW")
	}
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text[:len(text)/2]), 0o600))
}

// absent PATTERN: no file has a name like that.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: absent PATTERN")
	}
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) > 0 {
		ts.Fatalf("there are %s", strings.Join(found, " "))
	}
}

var times = []struct {
	form *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b\d{4}d\b`), "9999d"}, // since 2020
	{regexp.MustCompile(`\b\d{8}-\d{6}\b`), "DATE"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d{3}Z)?`), "CLOCK"},
	{regexp.MustCompile(`\b(\d+m)?\d+(\.\d)?s\b`), "0.0s"},
}

// normal writes the output of the last command to the file out, without what
// every run has of its own: times and spans.
func normal(ts *testscript.TestScript, _ bool, _ []string) {
	text := ts.ReadFile("stdout")
	for _, t := range times {
		text = t.form.ReplaceAllString(text, t.text)
	}
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(text), 0o600))
}
