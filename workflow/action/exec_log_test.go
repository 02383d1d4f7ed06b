package action

import (
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// What a command prints goes to the log of the attempt while it runs: the script waits for the test,
// which waits for its line.
func TestExecPrintsWhileItRuns(t *testing.T) {
	h := newHarness(t)
	lines := make(lineReader, 10)
	var messages strings.Builder
	h.facts.Stdout, h.facts.Stderr = lines, &messages
	gate := t.TempDir() + "/gate"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o, task := h.run(t.Context(), t, "exec", shell(`mkfifo "$GATE"; echo first; echo told >&2; cat "$GATE"; echo last`, `"env": {"GATE": "`+gate+`"}`))
		wantCode(t, o, "Done")
		wantOutput(t, task, `"first\nopen\nlast"`)
	}()
	if got := <-lines; got != "first\n" {
		t.Errorf("printed first: %q", got)
	}
	if err := os.WriteFile(gate, []byte("open\n"), 0o600); err != nil { // a pipe: it waits for cat
		t.Fatal(err)
	}
	<-ended
	close(lines)
	var rest strings.Builder
	for text := range lines {
		rest.WriteString(text)
	}
	if rest.String() != "open\nlast\n" || messages.String() != "told\n" {
		t.Errorf("then %q, and %q", rest.String(), messages.String())
	}
}

// lineReader gets what is written.
type lineReader chan string

// Write implements io.Writer.
func (c lineReader) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// Secrets of a command are redacted in the log, also in the forms in which JSON has them.
func TestExecLogIsRedacted(t *testing.T) {
	store := runstore.NewMemory()
	actions, err := Standard(Options{Only: []string{"exec"}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := workflow.New(store, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{
		Name: "Print", Uses: "exec", With: []byte(shell(`printf '%s\n' "$TOKEN"; printf '{"v":"a\\"b\\nc"}\n' >&2`, `"env": {"TOKEN": {"secret": "token"}}`)), Secrets: map[string]workflow.SecretRef{"token": {Name: "token"}},
	}}}}, workflow.Options{Actions: actions, Secrets: mapSecrets{"token": "a\"b\nc"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/c1"})
	if err != nil {
		t.Fatal(err)
	}
	engine.Advance(t.Context(), run.ID)
	page, err := store.ReadLogs(t.Context(), run.ID, runstore.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[runstore.LogStream]string{}
	for _, c := range page.Chunks {
		for _, l := range c.Lines {
			texts[l.Stream] += l.Text
		}
	}
	if texts[runstore.LogOut] != "***" || texts[runstore.LogErr] != `{"v":"***"}` {
		t.Errorf("printed %q", texts)
	}
}
