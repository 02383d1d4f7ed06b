package action

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The faults of exec.
var (
	CommandFailed = fault.Declare(fault.Kind{
		Code: "COMMAND_FAILED", Class: fault.Transient,
		Title:  "the command ended with an error",
		Remedy: "Read its last lines and its exit code, fix the cause, then resume. Map the exit code to a fault in the step's faults if it has a known remedy.",
	})
	CommandMissing = fault.Declare(fault.Kind{
		Code: "COMMAND_MISSING", Class: fault.Blocked,
		Title:  "the command cannot be started",
		Remedy: "Install the command in the PATH of exec steps or name its full path, check dir and permissions, then resume.",
	})
	CommandStillRunning = fault.Declare(fault.Kind{
		Code: "COMMAND_STILL_RUNNING", Class: fault.Transient,
		Title:  "processes of an earlier attempt cannot be ended",
		Remedy: "End the processes that the message names, then resume. A script that starts a daemon closes descriptor 3 for it: 3>&-.",
	})
	OutputUnreadable = fault.Declare(fault.Kind{
		Code: "OUTPUT_UNREADABLE", Class: fault.Blocked,
		Title:  "the command's output is not what the step expects",
		Remedy: "Make the command print one JSON value and nothing else, or choose output: text, then resume.",
	})
	StateFolderUnusable = fault.Declare(fault.Kind{
		Code: "STATE_FOLDER_UNUSABLE", Class: fault.Blocked,
		Title:  "the folder for lock files cannot be written",
		Remedy: "Make the folder writable for the server or choose another state folder, then resume.",
	})
)

// Limits and defaults of exec.
const (
	execPath          = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	execDefaultOutput = 64 << 10
	execOutputLimit   = runtype.MaxOutputRaised
	execStderr        = 16 << 10
	execKillGrace     = 5 * time.Second
	execMaxScript     = 100_000
	execMessageLines  = 5
	execMessageBytes  = 2 << 10
)

type execWith struct {
	Command   []scalar          `json:"command"`
	Shell     string            `json:"shell"`
	Dir       string            `json:"dir"`
	Env       map[string]value  `json:"env"`
	PassEnv   []string          `json:"passEnv"`
	Stdin     value             `json:"stdin"`
	OkCodes   []int             `json:"okCodes"`
	Faults    map[string]string `json:"faults"`
	Output    string            `json:"output"`
	MaxOutput size              `json:"maxOutput"`
	KillGrace *duration         `json:"killGrace"`
}

var execParams = newParams(`{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "additionalProperties": false,
	"properties": {
		"command": {"type": "array", "minItems": 1, "items": `+scalarSchema+`, "description": "program and arguments; no shell reads them"},
		"shell": {"type": "string", "minLength": 1, "maxLength": `+strconv.Itoa(execMaxScript)+`, "description": "script for /bin/sh -eu; holds no templates, values reach it by env"},
		"dir": {"type": "string", "minLength": 1, "description": "working directory; default that of the server"},
		"env": {"type": "object", "additionalProperties": false, "patternProperties": {"^[A-Za-z_][A-Za-z0-9_]*$": `+valueSchema+`}},
		"passEnv": {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, "description": "names of the server's environment variables that the command may see"},
		"stdin": `+valueSchema+`,
		"okCodes": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 255}, "default": [0]},
		"faults": {"type": "object", "additionalProperties": false, "patternProperties": {"^([1-9]?[0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$": {"type": "string"}}, "description": "exit code to fault code"},
		"output": {"enum": ["text", "lines", "json"], "default": "text"},
		"maxOutput": `+sizeSchema("of standard output; the first and the last half are kept; default 64KiB", execOutputLimit)+`,
		"killGrace": `+durationSchema+`
	}}`,
	[]string{"/shell"}, checkExec).
	publish(`"oneOf": [{"required": ["command"]}, {"required": ["shell"]}]`)

// checkExec checks the rules that the schema cannot express. Whether fault codes are declared is
// checked when one is returned, because a file can declare codes beside its flows
// (docs/adr/0020-faults-in-files.md).
func checkExec(with map[string]any, wrong report) {
	_, command := with["command"]
	_, shell := with["shell"]
	switch {
	case command && shell:
		wrong([]string{"shell"}, "command and shell exclude each other")
	case !command && !shell:
		wrong(nil, "command or shell is missing")
	}
	if list, ok := with["command"].([]any); ok && len(list) > 0 && list[0] == "" {
		wrong([]string{"command", "0"}, "the program has no name")
	}
	if env, ok := with["env"].(map[string]any); ok {
		for name := range env {
			if strings.HasPrefix(name, "PAWL_") {
				wrong([]string{"env", name}, "names that begin with PAWL_ are set by the engine")
			}
		}
	}
	if names, ok := with["passEnv"].([]any); ok {
		for i, name := range names {
			if s, ok := name.(string); ok && strings.HasPrefix(s, "PAWL_") {
				wrong([]string{"passEnv", strconv.Itoa(i)}, "names that begin with PAWL_ belong to the server and are not passed on")
			}
		}
	}
	checkSize(with, "maxOutput", execOutputLimit, wrong)
}

func execAction(stateDir string) workflow.Action {
	return workflow.Action{
		Name:        "exec",
		Description: "runs a command or a shell script in its own process group",
		With:        execParams,
		Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			return outcome.Fail(execute(ctx, t, stateDir))
		},
	}
}

// execute is one attempt: read the parameters, take the lock, run, check the exit.
func execute(ctx context.Context, t *workflow.Task, stateDir string) error {
	with, err := read[execWith](t, execParams)
	if err != nil {
		return err
	}
	hidden := &secrets{task: t}
	cmd, err := with.command(t, hidden)
	if err != nil {
		return err
	}
	lock, err := takeLock(ctx, stateDir, t.Key(), cmd.killGrace)
	if err != nil {
		return err
	}
	defer lock.release()
	guard, err := newExecGuard(t)
	if err != nil {
		return err
	}
	got, err := guard.around(cmd).run(ctx, lock)
	switch {
	case err != nil:
		return err
	case guard.refused(got):
		return fmt.Errorf("the command was not started: %w", workflow.ErrLeaseLost)
	}
	if err := with.checkExit(got, hidden); err != nil {
		return err
	}
	return with.report(t, got.stdout, hidden)
}

// command resolves the parameters to a process.
func (w execWith) command(t *workflow.Task, hidden *secrets) (command, error) {
	env, err := w.environment(t, hidden)
	if err != nil {
		return command{}, err
	}
	stdin, err := hidden.text(w.Stdin)
	if err != nil {
		return command{}, err
	}
	c := command{dir: w.Dir, env: env, stdin: stdin, okCodes: w.OkCodes, maxOutput: int(w.MaxOutput), killGrace: execKillGrace, log: [2]io.Writer{t.Stdout(), t.Stderr()}}
	if c.maxOutput == 0 {
		c.maxOutput = execDefaultOutput
	}
	if w.KillGrace != nil {
		c.killGrace = time.Duration(*w.KillGrace)
	}
	if w.Shell != "" {
		c.path, c.argv, c.script = binSh, []string{"sh", "-eu", "-c", w.Shell}, w.Shell
		return c, nil
	}
	for _, arg := range w.Command {
		c.argv = append(c.argv, string(arg))
	}
	c.path, err = lookPath(c.argv[0], w.Dir, env)
	return c, err
}

// environment returns a fixed PATH, variables that identify the step, passEnv and env.
func (w execWith) environment(t *workflow.Task, hidden *secrets) ([]string, error) {
	vars := map[string]string{"PATH": execPath}
	for _, name := range w.PassEnv {
		if v, ok := os.LookupEnv(name); ok {
			vars[name] = v
		}
	}
	for name, v := range w.Env {
		text, err := hidden.text(v)
		if err != nil {
			return nil, err
		}
		if strings.ContainsRune(text, 0) {
			return nil, ParametersInvalid.Errorf("with.env.%s: holds a zero byte", name)
		}
		vars[name] = text
	}
	vars["PAWL_RUN"] = t.RunID()
	vars["PAWL_STEP"] = t.Step()
	vars["PAWL_KEY"] = t.Key()
	vars["PAWL_ATTEMPT"] = strconv.Itoa(t.Attempt())
	vars["PAWL_EPOCH"] = strconv.FormatInt(t.Epoch(), 10)
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env, nil
}

// checkExit decides whether the exit of the command is a failure, and returns its fault.
func (w execWith) checkExit(got exitState, hidden *secrets) error {
	if got.ok(w.OkCodes) {
		return nil
	}
	said := got.stderr.text(hidden)
	if strings.TrimSpace(said) == "" {
		said = got.stdout.text(hidden)
	}
	said = lastLines(said, execMessageLines, execMessageBytes)
	how := fmt.Sprintf("exit code %d", got.exit)
	if got.signal != "" {
		how = "ended by signal: " + got.signal
	}
	if said != "" {
		how += ": " + said
	}
	kind := CommandFailed
	if name := w.Faults[strconv.Itoa(got.exit)]; name != "" {
		known, ok := fault.Lookup(name)
		if !ok {
			return ParametersInvalid.Errorf("with.faults.%d: fault code %q is not declared", got.exit, name)
		}
		kind = known
	}
	err := kind.Errorf("%s", how).With("exitCode", got.exit).With("stderr", said)
	if got.signal != "" {
		err = err.With("signal", got.signal)
	}
	return err
}

// report sets the output in the format that the step requests.
func (w execWith) report(t *workflow.Task, stdout *capture, hidden *secrets) error {
	if w.Output == "json" {
		return setJSON(t, stdout, hidden)
	}
	form := func(c *capture) any {
		text := strings.TrimSuffix(c.text(hidden), "\n")
		switch {
		case w.Output != "lines":
			return text
		case text == "":
			return []string{}
		}
		return strings.Split(text, "\n")
	}
	// Escapes can make the encoding larger than the limit of the output. Then less of the output is
	// kept.
	for limit := stdout.limit; ; limit = limit * 3 / 4 {
		err := t.Set(form(stdout.shrink(limit)))
		if err == nil || !errors.Is(err, runtype.OutputTooLarge) || limit < 64 {
			return err
		}
	}
}

func setJSON(t *workflow.Task, stdout *capture, hidden *secrets) error {
	if !stdout.whole() {
		return runtype.OutputTooLarge.Errorf("the command printed %d bytes of JSON, maxOutput is %d", stdout.total, stdout.limit)
	}
	text := strings.TrimSpace(stdout.text(hidden))
	if text == "" {
		return OutputUnreadable.Errorf("the command printed nothing, the step expects JSON")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return OutputUnreadable.Errorf("the output is not one JSON value: %w", err).With("stdout", lastLines(text, execMessageLines, execMessageBytes))
	}
	return t.Set(json.RawMessage(compact.Bytes()))
}
