package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/help"
)

// called carries out one command line in this process.
func called(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &cli.App{In: strings.NewReader(in), Out: &stdout, Err: &stderr}
	code = run(t.Context(), a, args)
	return code, stdout.String(), stderr.String()
}

// Every wrong command line has its exit code, names what is wrong, and says how to mend it.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("flow.yaml", "flowName: F\ninput: {type: object, properties: {n: {type: integer}, s: {type: string}, o: {type: object}}, additionalProperties: false}\nsteps:\n- {stepName: A, wait: {for: 1ms}}\n")
	write("group_step_group.yaml", "groupName: G\nsteps:\n- {stepName: A, wait: {for: 1ms}}\n")
	write("machine.yaml", "machine: m\nkind: m\ninitial: A\nstates:\n  A: {rests: true}\n")
	write("empty.yaml", "")
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	write("list.json", "[1]")

	tests := []struct {
		args string
		code int
		says string
	}{
		{"nonsense", 2, "unknown command"},
		{"gett", 2, "did you mean get"},
		{"gett --active", 2, "unknown command \"gett\" for pawl (did you mean get?)"},
		{"cluster lst", 2, "did you mean list"},
		{"fdb nope", 2, "unknown command \"nope\" for pawl fdb"},
		{"cluster forget blue", 2, "usage: pawl cluster forget NAME --confirm NAME"},
		{"help nope", 2, "no command or topic nope"},
		{"help exit-code", 2, "did you mean exit-codes"},
		{"get --nonsense", 2, "unknown flag: --nonsense"},
		{"get --namespce x", 2, "did you mean namespace"},
		{"get -o xml", 2, "-o xml: it is text, wide, json, yaml, name"},
		{"get -o jsonpath={.x", 2, "JSONPath {.x: unclosed action"},
		{"get -o custom-columns=ID", 2, "is no HEAD:PATH"},
		{"get flows --sort-by {.x", 2, "JSONPath {.x"},
		{"get --limit many", 2, "invalid argument"},
		{"get --phase Failed", 2, "Queued, Running, Waiting"},
		{"get a b c", 1, "OBJECT_NOT_FOUND"},
		{"get thing -l =x", 2, "OBJECT_INVALID"},
		{"get Thing_ x", 1, "OBJECT_NOT_FOUND"},
		{"get flows Nope", 1, "FLOW_UNKNOWN"},
		{"get faults NOPE", 1, "FAULT_NOT_FOUND"},
		{"explain NOPE", 1, "pawl get faults"},
		{"server --listen 127.0.0.1:99999", 1, "LISTEN_FAILED"},
		{"server --listen nonsense", 1, "LISTEN_FAILED"},
		{"server --otlp-logs", 2, "--otlp-logs needs --otlp-endpoint"},
		{"lint folder", 2, "FOLDER_EMPTY"},
		{"run folder", 2, "folder is a folder: name a file of it, or load it by --flows folder"},
		{"get --log-level loud", 2, "--log-level loud"},
		{"get --timeout soon", 2, "invalid argument"},
		{"describe", 2, "pawl describe: name RUN, or KIND NAME..."},
		{"describe nope", 1, "RUN_NOT_FOUND"},
		{"history nope", 1, "RUN_NOT_FOUND"},
		{"watch nope", 1, "RUN_NOT_FOUND"},
		{"explain", 2, "pawl explain: CODE is missing"},
		{"explain A B", 2, `pawl explain: "B" is one too many: it takes CODE`},
		{"explain STORE_FUL", 1, "did you mean STORE_FULL"},
		{"run", 2, "is missing"},
		{"run nowhere.yaml", 2, "nowhere.yaml"},
		{"run Nope", 1, "FLOW_UNKNOWN"},
		{"run group_step_group.yaml", 2, "step group"},
		{"run machine.yaml", 2, "holds a machine"},
		{"run empty.yaml", 2, ""},
		{"run flow.yaml --input n", 2, "it is key=value"},
		{"run flow.yaml --input n=one", 2, "is no integer"},
		{"run flow.yaml --input n=1.5", 2, "is no integer"},
		{"run flow.yaml --input o=1", 2, "is no object"},
		{"run flow.yaml --input n=2 --input n.m=1", 2, "has no keys"},
		{"run flow.yaml --input x=1", 2, "INPUT_INVALID"},
		{"run flow.yaml --input-file nowhere.json", 2, "nowhere.json"},
		{"run flow.yaml --input-file list.json --input n=1", 2, "holds no object"},
		{"run flow.yaml --wait long", 2, ""},
		{"run nowhere.yaml --wait forever", 2, "nowhere.yaml"},
		{"run flow.yaml --store tape", 2, "memory, sqlite or postgres"},
		{"run flow.yaml --store postgres", 2, "needs --dsn postgres://"},
		{"run flow.yaml --actions dig", 2, "there is no ready-made action"},
		{"pause", 2, "pawl pause: RUN is missing"},
		{"pause nope", 1, "RUN_NOT_FOUND"},
		{"resume nope", 1, "RUN_NOT_FOUND"},
		{"cancel nope --undo --drop", 2, "undo"},
		{"cancel nope --give-up", 2, "--give-up"},
		{"skip nope", 2, "pawl skip: STEP is missing"},
		{"skip nope A --output-data {", 2, "is no JSON"},
		{"signal nope", 2, "pawl signal: NAME is missing"},
		{"signal nope go", 1, "RUN_NOT_FOUND"},
		{"progress nope A many", 2, "DONE/TOTAL"},
		{"progress nope A -1", 2, ""},
		{"progress nope A 3/2", 2, "DONE/TOTAL"},
		{"apply", 2, "needs -f"},
		{"apply -f nowhere.yaml", 2, "nowhere.yaml"},
		{"apply -f empty.yaml", 2, "there is no object"},
		{"apply -f flow.yaml", 2, "--flows"},
		{"apply -f machine.yaml", 2, "--machines"},
		{"delete", 2, "KIND NAME"},
		{"delete thing", 2, "KIND NAME"},
		{"delete thing x", 1, "OBJECT_NOT_FOUND"},
		{"edit thing x", 1, "OBJECT_NOT_FOUND"},
		{"annotate thing x", 2, "KEY=VALUE"},
		{"annotate thing x a=b", 1, "OBJECT_NOT_FOUND"},
		{"lint", 2, "pawl lint: PATH is missing"},
		{"lint nowhere", 2, "nowhere"},
		{"graph nowhere.yaml", 2, "nowhere.yaml"},
		{"diff flow.yaml", 2, "pawl diff: NEW is missing"},
		{"diff flow.yaml nowhere.yaml", 2, "nowhere.yaml"},
		{"plan", 2, "give a flow"},
		{"plan thing x", 1, "NOT_FOUND"},
		{"plan flow.yaml -f flow.yaml", 2, "give a flow"},
		{"schema table", 2, `"table" is not known: it is flow, machine, object or test`},
		{"import", 2, "pawl import: FILE is missing"},
		{"import nowhere.yaml --subject a/b/c", 2, "nowhere.yaml"},
		{"store chek", 2, "did you mean check"},
		{"store restore nowhere.db", 2, "nowhere.db"},
		{"store check --dsn nowhere.db", 2, "nowhere.db"},
		{"store backup x --store memory", 2, "SQLite"},
		{"server --log-format xml", 2, "--log-format xml"},
		{"server --flows nowhere", 2, "nowhere"},
		{"server x", 2, `unknown command "x" for pawl server`},
		{"dev --listen 0.0.0.0:0", 2, "loopback"},
		{"dev --listen nonsense", 2, "loopback"},
		{"get --server ftp://x", 2, "is no URL"},
		{"get --server http://127.0.0.1:1", 1, "SERVER_UNREACHABLE"},
		{"get --config nowhere.yaml", 2, "nowhere.yaml"},
		{"version x", 2, `"x" is one too many: it takes no argument`},
		{"docs nothing", 2, "it is faults, openapi, man or schemas"},
		{"fdb plan --objects empty.yaml a b", 2, `"b" is one too many`},
		{"fdb explain --objects empty.yaml", 2, "missing"},
		{"fdb plan x --objects empty.yaml", 1, "OBJECT_NOT_FOUND"},
		{"fdb cordon --objects empty.yaml", 2, "name nodes"},
		{"fdb approve orders", 2, "missing"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			code, _, said := called(t, "", strings.Fields(test.args)...)
			if code != test.code || !strings.Contains(said, test.says) {
				t.Errorf("exit code %d, want %d; it says:\n%s\nwant: %s", code, test.code, said, test.says)
			}
			if !strings.Contains(said, "remedy: ") && !regexp.MustCompile(`(?m)^\S+:\d+:\d+: `).MatchString(said) {
				t.Errorf("it says no remedy and no place:\n%s", said)
			}
			if usage := regexp.MustCompile(`(?m)^  usage: pawl\b`).MatchString(said); usage != strings.Contains(said, "USAGE_WRONG") {
				t.Errorf("a usage error, and only that, has a usage line:\n%s", said)
			}
			if strings.Contains(said, "UNKNOWN ") && !strings.Contains(said, "_UNKNOWN ") {
				t.Errorf("the error has no fault:\n%s", said)
			}
		})
	}
}

// Every verb has a text and an example, and its flags have one.
func TestHelp(t *testing.T) {
	a := &cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short text or no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if !strings.Contains(line, "pawl") {
				t.Errorf("%s: the example %q calls no pawl", c.CommandPath(), line)
			}
		}
		for _, child := range c.Commands() {
			if child.Name() != "help" && child.Name() != "completion" {
				visit(child)
			}
		}
	}
	visit(root(a))
	for _, verb := range []string{"run", "apply", "get", "describe", "edit", "annotate", "delete", "watch", "pause", "resume", "cancel", "skip", "signal", "progress", "history",
		"explain", "lint", "schema", "graph", "diff", "plan", "import", "store", "bench", "server", "dev", "version", "completion"} {
		code, out, said := called(t, "", verb, "--help")
		if code != 0 || !strings.Contains(out, "Usage:") {
			t.Errorf("%s --help ends with %d: %s%s", verb, code, out, said)
		}
		if wait := strings.Contains(out, "--wait "); wait != strings.Contains(out, "--wait duration[=forever]") {
			t.Errorf("%s --help tells of --wait in nanoseconds:\n%s", verb, out)
		}
	}
}

// The commands in the topics of help exist, with their flags; no topic has the name of a command.
func TestTopics(t *testing.T) {
	r := root(&cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	example := regexp.MustCompile(`(?m)^    (?:[A-Z_]+=\S+ )?(pawl .*?)(?:   .*)?$`)
	for _, topic := range help.Topics() {
		if topic.Title == "" || topic.Text == "" {
			t.Errorf("topic %s has no title or no text", topic.Name)
		}
		for _, c := range r.Commands() {
			if c.Name() == topic.Name {
				t.Errorf("%s is a topic and a command", topic.Name)
			}
		}
		for _, m := range example.FindAllStringSubmatch(topic.Text, -1) {
			cmd, rest, err := r.Find(cli.JoinWaits(strings.Fields(m[1])[1:]))
			if err == nil && cmd == r {
				err = errors.New("there is no such command")
			}
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("topic %s: %s: %v", topic.Name, m[1], err)
			}
		}
	}
}

// The generated list of faults is the one in docs/.
func TestFaultsDocument(t *testing.T) {
	data, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != faultsDocument() {
		t.Error("docs/faults.md is stale: go generate ./cmd/pawl")
	}
}
