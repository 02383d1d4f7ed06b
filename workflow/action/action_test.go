package action

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness holds the options and facts of an action under test.
type harness struct {
	facts   workflow.TaskFacts
	options Options
}

type mapSecrets map[string]string

func (s mapSecrets) Secret(_ context.Context, ref workflow.SecretRef) (string, error) {
	if v, ok := s[ref.Name]; ok {
		return v, nil
	}
	return "", ErrNoSecret
}

func newHarness(t *testing.T) *harness {
	secrets := mapSecrets{"token": "s3cr3t-value", "lines": "first\nsecond"}
	refs := map[string]workflow.SecretRef{}
	for name := range secrets {
		refs[name] = workflow.SecretRef{Name: name}
	}
	return &harness{
		facts:   workflow.TaskFacts{Run: "r1", Flow: "F", Subject: "demo/default/c1", Step: "Group/Do", Round: 2, Attempt: 3, Epoch: 7, Secrets: refs, Resolver: secrets, Lease: func() time.Duration { return time.Hour }},
		options: Options{Only: Names(), StateDir: t.TempDir()},
	}
}

func (b *harness) run(ctx context.Context, t *testing.T, name, with string) (outcome.Outcome, *workflow.Task) {
	t.Helper()
	actions, err := Standard(b.options)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range actions {
		if a.Name == name {
			facts := b.facts
			facts.With = json.RawMessage(with)
			task := workflow.NewTask(ctx, facts)
			return a.Do(ctx, task), task
		}
	}
	t.Fatalf("no action %s", name)
	return outcome.Done(), nil
}

func code(o outcome.Outcome) string {
	if o.IsFail() {
		return string(fault.Of(o.Err()).Code)
	}
	return o.Reason()
}

func wantCode(t *testing.T, o outcome.Outcome, want string) {
	t.Helper()
	if code(o) != want {
		t.Fatalf("got %v, want %s", o, want)
	}
}

func wantOutput(t *testing.T, task *workflow.Task, want string) {
	t.Helper()
	if got := string(task.Result()); got != want {
		t.Errorf("output\n got %s\nwant %s", got, want)
	}
}

func TestStandardOffersAllButExec(t *testing.T) {
	names := func(o Options) string {
		actions, err := Standard(o)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, a := range actions {
			found = append(found, a.Name)
		}
		return strings.Join(found, " ")
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "http sleep signal approval"},
		{Options{Only: []string{}}, ""},
		{Options{Only: []string{"exec", "sleep"}}, "exec sleep"},
		{Options{Status: &statusRecorder{}}, "http sleep signal approval status"},
	} {
		if got := names(c.o); got != c.want {
			t.Errorf("%v offers %q, want %q", c.o.Only, got, c.want)
		}
	}
	if _, err := Standard(Options{Only: []string{"exce"}}); err == nil || !strings.Contains(err.Error(), "choose from exec, http") {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := Standard(Options{HTTPAllow: []string{"http://"}}); err == nil {
		t.Error("a bad http-allow was taken")
	}
}

func TestParametersAreStrict(t *testing.T) {
	schemas := map[string]*Params{"exec": execParams, "http": httpParams, "sleep": sleepParams, "signal": signalParams, "approval": approvalParams, "status": statusParams}
	for _, c := range []struct{ action, with, want string }{
		{"exec", `{"command": ["true"]}`, ""},
		{"exec", `{"shell": "echo ${HOME}"}`, ""},
		{"exec", `{"command": ["sleep", 5, true], "okCodes": [0, 3], "faults": {"9": "UNKNOWN"}, "maxOutput": "64KiB", "killGrace": "1.5s"}`, ""},
		{"exec", ``, "command or shell is missing"},
		{"exec", `{"command": ["true"], "shell": "true"}`, "shell: command and shell exclude each other"},
		{"exec", `{"command": ["true"], "comand": 1}`, `comand: unknown key "comand": known are command, dir, env`},
		{"exec", `{"command": "true"}`, "command: must be array, not string"},
		{"exec", `{"command": []}`, "command: minItems"},
		{"exec", `{"command": [""]}`, "command.0: the program has no name"},
		{"exec", `{"command": ["x"], "faults": {"9": "NO_SUCH"}}`, ""}, // a file may declare the code
		{"exec", `{"command": ["x"], "faults": {"300": "UNKNOWN"}}`, `faults.300: "300" is not a valid name`},
		{"exec", `{"command": ["x"], "env": {"A": {"secret": "a", "x": 1}}}`, `env.A.x: unknown key "x": known are prefix, secret`},
		{"exec", `{"command": ["x"], "env": {"A": {}}}`, "env.A: secret is missing"},
		{"exec", `{"command": ["x"], "env": {"A=B": "1"}}`, `env.A=B: "A=B" is not a valid name`},
		{"exec", `{"command": ["x"], "env": {"PAWL_RUN": "1"}}`, "env.PAWL_RUN: names that begin"},
		{"exec", `{"command": ["x"], "passEnv": ["PAWL_TOKEN"]}`, "passEnv.0: names that begin"},
		{"exec", `{"command": ["x"], "maxOutput": "1MiB"}`, "maxOutput: 1MiB is more"},
		{"exec", `{"command": ["x"], "killGrace": "5"}`, "killGrace"},
		{"exec", `{"command": ["x"], "output": "yaml"}`, "output: value must be one of 'text', 'lines', 'json'"},
		{"http", `{"url": "https://example.org/x", "expect": [200, "3xx"], "retryOn": "connection", "json": null}`, ""},
		{"http", `{}`, "url is missing"},
		{"http", `{"url": "ftp://example.org"}`, "url: must begin with http"},
		{"http", `{"url": "https://a:b@example.org"}`, "url: holds a user"},
		{"http", `{"url": "https://example.org", "insecure": true}`, "insecure: unknown key"},
		{"http", `{"url": "https://example.org", "json": 1, "body": "x"}`, "body: json and body exclude"},
		{"http", `{"url": "https://example.org", "headers": {"idempotency-key": "x"}}`, "headers.idempotency-key: the header is set"},
		{"http", `{"url": "https://example.org", "ca": "x"}`, "ca: holds no certificate"},
		{"http", `{"url": "https://example.org", "expect": ["connection"]}`, "expect: connection is for retryOn"},
		{"http", `{"url": "https://example.org", "expect": [99]}`, "expect.0"},
		{"http", `{"url": "https://example.org", "poll": {"every": "1s", "until": "response.status =="}}`, "poll.until: ERROR"},
		{"http", `{"url": "https://example.org", "poll": {"every": "1s", "until": "1 + 1"}}`, "poll.until: the expression yields int"},
		{"http", `{"url": "https://example.org", "poll": {"until": "true"}}`, "poll: every is missing"},
		{"sleep", `{"for": "1h"}`, ""},
		{"sleep", `{"until": "2026-03-01T02:00:00Z"}`, ""},
		{"sleep", `{"until": "tomorrow"}`, `until: "tomorrow" is not a time`},
		{"sleep", `{}`, "give for or until"},
		{"sleep", `{"for": "1h", "until": "2026-03-01T02:00:00Z"}`, "give for or until"},
		{"signal", `{"name": "caught-up", "schema": {"type": "object"}, "deadline": "10m", "onTimeout": "undo"}`, ""},
		{"signal", `{"deadline": "10m"}`, "name is missing"},
		{"signal", `{"name": "pawl/x"}`, "name"},
		{"signal", `{"name": "x", "onTimeout": "fail"}`, "onTimeout: onTimeout without deadline"},
		{"signal", `{"name": "x", "schema": {"type": "objekt"}}`, "schema: "},
		{"signal", `{"name": "x", "schema": {"$ref": "file:///etc/passwd"}}`, "write it in place"},
		{"approval", `{}`, ""},
		{"approval", `{"message": "go?", "by": ["ann", "group:dba"], "count": 2, "onReject": "continue"}`, ""},
		{"approval", `{"count": 0}`, "count"},
		{"status", `{"ready": true, "old": null}`, ""},
		{"status", `{}`, "minProperties"},
		{"status", `[]`, "must be object, not array"},
	} {
		err := schemas[c.action].Check(json.RawMessage(c.with))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.action, c.with, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s:\n got %v\nwant %s", c.action, c.with, err, c.want)
		}
	}
	for name, p := range schemas {
		if data, err := json.Marshal(p); err != nil || !json.Valid(data) {
			t.Errorf("%s has no schema: %v", name, err)
		}
	}
}

func TestDraftsMayHoldTemplates(t *testing.T) {
	for _, c := range []struct {
		p          *Params
		with, want string
	}{
		{execParams, `{"command": "${input.command}", "okCodes": ["${input.ok}"], "maxOutput": "${input.max}", "killGrace": "${input.grace}", "faults": {"3": "${input.code}"}}`, ""},
		{execParams, `{"command": ["x", "${input.a}"], "env": "${input.env}"}`, ""},
		{execParams, `{"shell": "echo ${HOME}", "okCodes": ["x"]}`, "okCodes.0: must be integer, not string"},
		{execParams, `{"${input.key}": 1, "shell": "x"}`, "unknown key"},
		{httpParams, `{"url": "${input.url}", "expect": "${input.expect}", "poll": {"every": "${input.every}", "until": "response.status == ${200}"}}`, "poll.until: ERROR"},
		{httpParams, `{"url": "https://${input.host}/x", "json": {"a": "${input.a}"}, "ca": "${input.ca}"}`, ""},
		{sleepParams, `{"until": "${input.at}"}`, ""},
		{signalParams, `{"name": "${input.name}", "deadline": "${input.d}"}`, ""},
		{signalParams, `{"name": "x", "schema": "${input.schema}"}`, "schema: must be boolean or object, not string"},
	} {
		err := c.p.CheckDraft(json.RawMessage(c.with))
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.with, err, c.want)
		}
	}
}

func TestEveryProblemHasAPath(t *testing.T) {
	err := execParams.Check(json.RawMessage(`{"command": ["x"], "comand": 1, "env": {"A": []}}`))
	var paths []string
	for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
		paths = append(paths, strings.Join(one.(interface{ Path() []string }).Path(), "/"))
	}
	if got := strings.Join(paths, " "); got != "comand env/A" && got != "env/A comand" {
		t.Errorf("paths %s", got)
	}
}

func TestBadParametersFailAsInvalid(t *testing.T) {
	b := newHarness(t)
	for _, name := range []string{"exec", "http", "sleep", "signal", "approval"} {
		o, _ := b.run(t.Context(), t, name, `{"nonsense": 1}`)
		wantCode(t, o, "PARAMETERS_INVALID")
		if !strings.Contains(o.Message(), `nonsense: unknown key "nonsense"`) {
			t.Errorf("%s: %s", name, o.Message())
		}
	}
}

type statusRecorder struct {
	subject, patch, key string
	err                 error
}

func (s *statusRecorder) PatchStatus(_ context.Context, subject string, patch json.RawMessage, key string) error {
	s.subject, s.patch, s.key = subject, string(patch), key
	return s.err
}

func TestStatusMergesItsParameters(t *testing.T) {
	b := newHarness(t)
	w := &statusRecorder{}
	b.options.Status = w
	o, _ := b.run(t.Context(), t, "status", `{"endpoint": "10.0.0.1:2379", "members": 3, "old": null}`)
	wantCode(t, o, "Done")
	if w.subject != "demo/default/c1" || w.key != "r1/Group/Do/2" || w.patch != `{"endpoint": "10.0.0.1:2379", "members": 3, "old": null}` {
		t.Errorf("wrote %+v", w)
	}
	w.err = fault.WriteConflict.Errorf("newer")
	o, _ = b.run(t.Context(), t, "status", `{"a": 1}`)
	wantCode(t, o, "WRITE_CONFLICT")
}

// Actions can be tested without an engine, like steps.
func ExampleStandard() {
	actions, err := Standard(Options{Only: []string{"sleep"}})
	if err != nil {
		panic(err)
	}
	task := workflow.NewTask(context.Background(), workflow.TaskFacts{Run: "r1", Step: "Rest", With: json.RawMessage(`{"for": "90s"}`)})
	fmt.Println(actions[0].Do(context.Background(), task))

	task = workflow.NewTask(context.Background(), workflow.TaskFacts{
		Run: "r1", Step: "Rest", With: json.RawMessage(`{"for": "90s"}`),
		Wait: &runtype.WaitRecord{Since: time.Now().Add(-2 * time.Minute)},
	})
	fmt.Println(actions[0].Do(context.Background(), task))
	// Output:
	// wait 1m30s Sleeping: for 1m30s
	// done
}
