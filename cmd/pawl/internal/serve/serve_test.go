package serve

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) {
	if !asPawl() {
		goleak.VerifyTestMain(pgtest.Main(m))
	}
}

const gateFlow = `flowName: Gated
steps:
- {stepName: Gate, wait: {signal: go, deadline: 10m}}
`

// running serves the options until the test ends, and returns a remote.
func running(t *testing.T, o Options) (remote *backend.Remote, url string, stop func() error) {
	t.Helper()
	ready := make(chan net.Addr, 1)
	o.Listen = "127.0.0.1:0"
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	o.Ready = func(addr net.Addr, _, _ int) { ready <- addr }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	var addr net.Addr
	select {
	case addr = <-ready:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	url = "http://" + addr.String()
	remote, err := backend.OpenRemote(client.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		_ = remote.Close()
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return remote, url, stop
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// A server answers health, readiness and metrics, works on runs, and drains.
func TestServe(t *testing.T) {
	defs := folder(t, map[string]string{"gate.yaml": gateFlow})
	remote, url, stop := running(t, Options{Store: backend.StoreOptions{Kind: "memory"}, Flows: []string{defs}, Version: "test"})
	ctx := t.Context()
	r, err := remote.Start(ctx, workflow.Request{Flow: "Gated", Subject: "demo/default/a", RequestID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	changes := remote.Changes(ctx, r.ID)
	if err := remote.Send(ctx, r.ID, runtype.Signal{ID: "1", Name: "go"}); err != nil {
		t.Fatal(err)
	}
	for !r.Phase.Final() {
		<-changes
		if r, err = remote.Run(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"/healthz": `"ok"`, "/readyz": `"ok"`, "/metrics": "pawl_"} {
		if code, text := get(t, url+path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// A changed folder is loaded once it is whole; a broken one changes nothing.
func TestReload(t *testing.T) {
	defs := folder(t, map[string]string{"gate.yaml": gateFlow})
	reload := make(chan os.Signal)
	remote, _, _ := running(t, Options{Store: backend.StoreOptions{Kind: "memory"}, Flows: []string{defs}, Reload: reload})
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(defs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func() string {
		flows, err := remote.Flows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range flows {
			all = append(all, f.Name)
		}
		return strings.Join(all, " ")
	}
	write("other.yaml", strings.Replace(gateFlow, "Gated", "Other", 1))
	reload <- os.Interrupt // any signal reloads
	reload <- os.Interrupt // taken when the first was carried out
	if got := names(); got != "Gated Other" {
		t.Errorf("after the change: %s", got)
	}
	write("other.yaml", "flowName: Other\nsteps: [{stepName: A, uses: nothing}]\n")
	reload <- os.Interrupt
	reload <- os.Interrupt
	if got := names(); got != "Gated Other" {
		t.Errorf("after the mistake: %s", got)
	}
}

// Healers in files count from their next reading on, as flows do.
func TestReloadBringsHealers(t *testing.T) {
	const faults = "faults:\n- {code: RELOAD_LACKS, class: blocked, title: it lacks, remedy: Bring it.HEALER}\n"
	defs := folder(t, map[string]string{"gate.yaml": gateFlow, "lack_faults.yaml": strings.Replace(faults, "HEALER", "", 1)})
	reload := make(chan os.Signal)
	remote, _, _ := running(t, Options{Store: backend.StoreOptions{Kind: "memory"}, Flows: []string{defs}, Reload: reload})
	healer := func() *view.Healer {
		kind, err := remote.Fault(t.Context(), "RELOAD_LACKS")
		if err != nil {
			t.Fatal(err)
		}
		return kind.Healer
	}
	if h := healer(); h != nil {
		t.Errorf("before: %v", h)
	}
	if err := os.WriteFile(filepath.Join(defs, "lack_faults.yaml"), []byte(strings.Replace(faults, "HEALER", ", healer: {flow: Gated}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	reload <- os.Interrupt
	reload <- os.Interrupt // taken when the first was carried out
	if healer() == nil {
		t.Error("the healer is not told of after the files were read again")
	}
}

// Only one server works on a file, and a short command is waited for.
func TestOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	store := backend.StoreOptions{DSN: path}
	first, err := backend.OpenStore(t.Context(), store, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := own(ctx, store); err == nil {
		t.Error("two own one file")
	}
	freed := make(chan struct{})
	go func() {
		defer close(freed)
		first.Close()
	}()
	second, err := own(t.Context(), store)
	<-freed
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// Options that cannot be served with are refused before anything is opened for requests.
func TestRefusals(t *testing.T) {
	defs := folder(t, map[string]string{"gate.yaml": gateFlow})
	exec := folder(t, map[string]string{"exec.yaml": "flowName: F\nsteps:\n- {stepName: A, uses: exec, with: {shell: 'true'}}\n"})
	for name, o := range map[string]Options{
		"LISTEN_UNSAFE": {Listen: "0.0.0.0:0", Flows: []string{defs}},
		"TOKEN_INVALID": {Listen: "127.0.0.1:0", TokenFile: "nowhere"},
		"FILE_WRONG":    {Listen: "127.0.0.1:0", Flows: []string{"nowhere"}},
		"UNKNOWN":       {Listen: "127.0.0.1:0", Flows: []string{exec}}, // Problems: file:line:column
		"INPUT_INVALID": {Listen: "127.0.0.1:0", Actions: []string{"dig"}},
	} {
		o.Store.Kind = "memory"
		o.Logger = slog.New(slog.DiscardHandler)
		if err := Run(t.Context(), o); err == nil || string(fault.Of(err).Code) != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Finished runs are written to the archive before they are removed.
func TestArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &parts{archive: file}
	run := &runtype.Run{ID: "gk3v", Flow: "F", Phase: runtype.Succeeded}
	if err := p.archiveRun(run, []runtype.Event{{Run: "gk3v", Seq: 1, Kind: runtype.RunCreated}}); err != nil {
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"id":"gk3v"`) || !strings.Contains(string(text), "RunCreated") || !strings.HasSuffix(string(text), "\n") {
		t.Errorf("the archive holds %s, %v", text, err)
	}
}

// Objects of a machine from YAML are driven, and planned.
func TestMachine(t *testing.T) {
	defs := folder(t, map[string]string{"thing.yaml": `machine: thing
kind: thing
initial: Init
states:
  Init: {on: [{event: create, to: Creating}]}
  Creating: {flow: Create, then: Running, else: Running}
  Running: {rests: true}
`, "create.yaml": "flowName: Create\nsteps:\n- {stepName: A, wait: {for: 20ms}}\n"})
	remote, url, _ := running(t, Options{Store: backend.StoreOptions{Kind: "memory"}, Flows: []string{defs}})
	objects, err := remote.Objects()
	if err != nil {
		t.Fatal(err)
	}
	want := control.Object{Ref: control.Ref{Kind: "thing", Namespace: "default", Name: "a"}, Spec: []byte(`{"size":1}`)}
	plan, err := remote.PlanObject(t.Context(), want.Ref, &want)
	if err != nil || plan.Event != "create" || plan.Flow == nil {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // well below the engine's safety look
	defer cancel()
	changes := remote.Changes(ctx, "")
	o, err := objects.Apply(ctx, want)
	for err == nil && view.StateOf(o).State != "Running" {
		<-changes
		o, err = objects.Get(ctx, want.Ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, text := get(t, url+"/metrics"); !strings.Contains(text, `pawl_control_work_seconds_count{queue="thing"}`) || !strings.Contains(text, "pawl_control_queue_depth") {
		t.Errorf("the queue of the machine is not measured:\n%s", text)
	}
	other := want
	other.Kind = "other"
	if _, err := remote.PlanObject(t.Context(), other.Ref, &other); err == nil {
		t.Error("an object without a machine was planned")
	}
}

// Files cannot define a machine for a kind that an operator of the program serves.
func TestAKindIsServedOnce(t *testing.T) {
	defs := folder(t, map[string]string{"thing.yaml": "machine: thing\nkind: thing\ninitial: A\nstates:\n  A: {rests: true}\n"})
	err := Run(t.Context(), Options{Store: backend.StoreOptions{Kind: "memory"}, Flows: []string{defs}, Listen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Kinds: []driver.ServedKind{{Kind: "thing"}}})
	if fault.Of(err) != machine.Invalid {
		t.Errorf("the server says %v", err)
	}
}
