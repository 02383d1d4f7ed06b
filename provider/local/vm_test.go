package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/local/internal/disk"
	"github.com/pawl-dev/pawl/provider/local/internal/host"
	"github.com/pawl-dev/pawl/provider/local/node"
)

func want(key string) cluster.DesiredResource {
	return cluster.DesiredResource{
		Kind: cluster.VM, Name: "vm-" + key, Key: key, CallID: "call-" + key,
		Tags: map[string]string{cluster.TagInstallation: installation, cluster.TagCluster: "blue", cluster.TagKey: key},
		Spec: cluster.Spec{Role: cluster.Worker, UserData: []byte("#!/bin/sh\n")},
	}
}

// createVM creates a VM, waits until it is up and returns its record.
func createVM(t *testing.T, p *Provider, w cluster.DesiredResource) *record {
	t.Helper()
	call, err := p.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if err := finish(t, p, call); err != nil {
		t.Fatal(err)
	}
	r, err := p.recordOf(call.Ref)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func finish(t *testing.T, p *Provider, call cluster.Call) error {
	t.Helper()
	for !call.Done {
		progress, err := p.Poll(t.Context(), call)
		if err != nil || progress.Err != nil {
			return errors.Join(err, progress.Err)
		}
		call.Done = progress.Done
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func act(t *testing.T, p *Provider, r *record, a cluster.Action) error {
	t.Helper()
	call, err := p.Act(t.Context(), r.ref(), a)
	if err != nil {
		return err
	}
	return finish(t, p, call)
}

// awaitPower polls until a VM has the power.
func awaitPower(t *testing.T, p *Provider, r *record, power cluster.Power) cluster.Resource {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got, err := p.Get(t.Context(), r.ref())
		if err != nil {
			t.Fatal(err)
		}
		if got.Power == power {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is %s (%s), want %s", got.Power, got.State, power)
		}
	}
}

func processOf(t *testing.T, p *Provider, r *record) host.Process {
	t.Helper()
	process, alive := p.findProcess(r)
	if !alive {
		t.Fatal("it has no process")
	}
	return process
}

func kill(t *testing.T, process host.Process, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(process.PID, s); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); s == syscall.SIGSTOP && !isStopped(t, process.PID); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop", process.PID)
		}
	}
}

// isStopped reports whether every thread of a process has stopped: a signal reaches a
// thread that runs only some time after it was sent.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of %d: %v, %v", pid, threads, err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if _, rest, ok := strings.Cut(string(text), ") "); err == nil && (!ok || !strings.HasPrefix(rest, "T")) {
			return false
		}
	}
	return true
}

// The process is detached: it has its own session, and a killed server leaves it for the
// next one.
func TestVMOutlivesTheServer(t *testing.T) {
	dir := folder(t)
	server := exec.Command(os.Args[0], "server", dir)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it was killed

	p := open(t, Options{Dir: dir})
	r, err := p.recordOf(cluster.Ref{ID: strings.TrimSpace(line)})
	if err != nil {
		t.Fatal(err)
	}
	awaitPower(t, p, r, cluster.PoweredOn)
	process := processOf(t, p, r)
	if pgid, err := syscall.Getpgid(process.PID); err != nil || pgid != process.PID {
		t.Errorf("its group is %d, %v", pgid, err)
	}
	if err := act(t, p, r, cluster.Stop); err != nil {
		t.Errorf("stop by the second server: %v", err)
	}
	if err := act(t, p, r, cluster.Start); err != nil {
		t.Errorf("start by the second server: %v", err)
	}
}

// Killing the process by hand is an external change: the VM is down, and starts again as
// the same resource.
func TestVMKilledByHand(t *testing.T) {
	p := open(t, Options{})
	r := createVM(t, p, want("a"))
	first := processOf(t, p, r)
	kill(t, first, syscall.SIGKILL)
	if got := awaitPower(t, p, r, cluster.PoweredOff); got.State != stopped || got.Identity != r.Identity {
		t.Errorf("%+v", got)
	}
	if again, err := p.Create(t.Context(), want("a")); err != nil || !again.Done || again.Ref.ID != r.ID {
		t.Errorf("the same want again: %+v, %v", again, err)
	}
	awaitPower(t, p, r, cluster.PoweredOff) // Create does not start a VM that somebody has stopped
	if err := act(t, p, r, cluster.Start); err != nil {
		t.Fatal(err)
	}
	awaitPower(t, p, r, cluster.PoweredOn)
	if second := processOf(t, p, r); second.Same(first) {
		t.Error("it is the same process")
	}
	p.reapChildren()
	if _, err := os.Stat(filepath.Join("/proc", itoa(first.PID))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first process is left as a zombie: %v", err)
	}
}

// Removing the directory removes the VM: it is gone, and its process ends.
func TestVMDirectoryRemovedByHand(t *testing.T) {
	p := open(t, Options{})
	r := createVM(t, p, want("a"))
	process := processOf(t, p, r)
	if err := os.RemoveAll(p.data.filePath(r.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), r.ref()); !isGone(err) {
		t.Errorf("get: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); process.IsRunning(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its process still runs")
		}
	}
}

// No process is killed because a file names its id.
func TestOthersAreNotKilled(t *testing.T) {
	p := open(t, Options{})
	innocent := exec.Command("sleep", "60")
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = innocent.Process.Kill()
		_ = innocent.Wait() // it was killed
	}()
	for name, forge := range map[string]func(own host.Process) host.Process{
		"its id":                          func(own host.Process) host.Process { own.PID = innocent.Process.Pid; return own },
		"its id and start time":           func(own host.Process) host.Process { return host.Of(own.Identity, innocent.Process.Pid) },
		"its id, and no start time":       func(own host.Process) host.Process { own.PID, own.Start = innocent.Process.Pid, ""; return own },
		"its id and time of another boot": func(host.Process) host.Process { o := host.Of("", innocent.Process.Pid); o.Boot = "x"; return o },
	} {
		r := createVM(t, p, want(name))
		own := processOf(t, p, r)
		kill(t, own, syscall.SIGKILL)
		awaitPower(t, p, r, cluster.PoweredOff)
		forged := forge(own)
		for file, value := range map[string]any{node.ProcessFile: forged, launchFile: mark{Process: forged}} {
			if err := disk.WriteJSON(p.data.filePath(r.ID, file), value); err != nil {
				t.Fatal(err)
			}
		}
		if got := awaitPower(t, p, r, cluster.PoweredOff); got.State != stopped {
			t.Errorf("%s: %s", name, got.State)
		}
		for _, a := range []cluster.Action{cluster.Stop, cluster.ForceStop, cluster.Destroy} {
			if err := act(t, p, r, a); err != nil {
				t.Errorf("%s: %s: %v", name, a, err)
			}
		}
		if !host.Of("", innocent.Process.Pid).IsRunning() {
			t.Fatalf("%s: the innocent was killed", name)
		}
	}
}

// Only an answer with the identity makes a VM up.
func TestSomebodyElseAnswers(t *testing.T) {
	p := open(t, Options{})
	r := createVM(t, p, want("a"))
	kill(t, processOf(t, p, r), syscall.SIGKILL)
	awaitPower(t, p, r, cluster.PoweredOff)
	listener, err := net.Listen("tcp", r.Node.Health)
	if err != nil {
		t.Fatal(err)
	}
	text := `{"identity":"another","ready":true}`
	stranger := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })}
	served := make(chan error, 1)
	go func() { served <- stranger.Serve(listener) }()
	defer func() {
		stranger.Close()
		<-served
	}()
	if got, err := p.Get(t.Context(), r.ref()); err != nil || got.Power != cluster.PoweredOff {
		t.Errorf("a stranger answers: %s, %v", got.Power, err)
	}
	// A process that knows the identity but is not found among the processes of the VM:
	// nothing is killed.
	text = `{"identity":"` + r.Identity + `","pid":` + itoa(os.Getpid()) + `}`
	if err := act(t, p, r, cluster.Destroy); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("destroy: %v", err)
	}
}

// A lost process file changes nothing: the health answer names the process, and it is
// proven.
func TestVMWithoutItsFiles(t *testing.T) {
	p := open(t, Options{})
	r := createVM(t, p, want("a"))
	process := processOf(t, p, r)
	os.Remove(p.data.filePath(r.ID, node.ProcessFile))
	os.Remove(p.data.filePath(r.ID, launchFile))
	awaitPower(t, p, r, cluster.PoweredOn)
	if err := act(t, p, r, cluster.Stop); err != nil || process.IsRunning() {
		t.Errorf("stop: %v; it runs: %t", err, process.IsRunning())
	}

	// If the process also hangs, there is no proof: the VM is not down, and the process is not
	// killed. Without its directory it ends once it continues.
	r = createVM(t, p, want("b"))
	process = processOf(t, p, r)
	p.probeTimeout, p.options.Patience, p.options.StopWithin = 50*time.Millisecond, time.Nanosecond, time.Hour
	kill(t, process, syscall.SIGSTOP)
	os.Remove(p.data.filePath(r.ID, node.ProcessFile))
	os.Remove(p.data.filePath(r.ID, launchFile))
	for _, a := range []cluster.Action{cluster.Stop, cluster.ForceStop, cluster.Destroy} {
		if call, err := p.Act(t.Context(), r.ref(), a); err != nil || call.Done {
			t.Errorf("%s without proof: %+v, %v", a, call, err)
		}
	}
	awaitPower(t, p, r, cluster.UnknownPower)
	p.options.StopWithin = time.Nanosecond
	if err := act(t, p, r, cluster.Destroy); err != nil || !process.IsRunning() {
		t.Errorf("destroy in the end: %v; it runs: %t", err, process.IsRunning())
	}
	kill(t, process, syscall.SIGCONT) // the cleanup of folder waits for its end
}

// A VM whose process hangs is neither up nor down, and destroy ends the process all the
// same.
func TestVMHangs(t *testing.T) {
	p := open(t, Options{StopWithin: 100 * time.Millisecond, Patience: 5 * time.Second})
	r := createVM(t, p, want("a"))
	p.options.StartWithin, p.probeTimeout = time.Millisecond, 100*time.Millisecond
	process := processOf(t, p, r)
	kill(t, process, syscall.SIGSTOP)
	if got := awaitPower(t, p, r, cluster.UnknownPower); got.State != silent {
		t.Errorf("%+v", got)
	}
	if err := act(t, p, r, cluster.Start); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("start of what hangs: %v", err)
	}
	if err := act(t, p, r, cluster.Destroy); err != nil || process.IsRunning() {
		t.Errorf("destroy: %v; it runs: %t", err, process.IsRunning())
	}
}

// Stop only sends SIGTERM; a forced stop and destroy also kill.
func TestVMIgnoresSIGTERM(t *testing.T) {
	p := open(t, Options{Env: []string{"STUBBORN=1"}, StopWithin: 200 * time.Millisecond, Patience: 50 * time.Millisecond})
	r := createVM(t, p, want("a"))
	process := processOf(t, p, r)
	call, err := p.Act(t.Context(), r.ref(), cluster.Stop)
	if err != nil || call.Done || call.Job == "" {
		t.Fatalf("stop: %+v, %v", call, err)
	}
	if progress, err := p.Poll(t.Context(), call); err != nil || progress.Done || progress.PollAfter == 0 {
		t.Errorf("poll: %+v, %v", progress, err)
	}
	if got := awaitPower(t, p, r, cluster.PoweringOff); got.State != stopping || !process.IsRunning() {
		t.Errorf("%+v", got)
	}
	if err := act(t, p, r, cluster.ForceStop); err != nil || process.IsRunning() {
		t.Errorf("forced stop: %v; it runs: %t", err, process.IsRunning())
	}
	if progress, err := p.Poll(t.Context(), call); err != nil || !progress.Done || progress.Err != nil {
		t.Errorf("the stop after it: %+v, %v", progress, err)
	}

	second := createVM(t, p, want("b"))
	process = processOf(t, p, second)
	if err := act(t, p, second, cluster.Destroy); err != nil || process.IsRunning() {
		t.Errorf("destroy: %v; it runs: %t", err, process.IsRunning())
	}
	if _, err := p.Get(t.Context(), second.ref()); !isGone(err) {
		t.Errorf("get: %v", err)
	}
}

// A crash between the creation of the directory and the start of the process: Find returns
// the VM, and the same Create continues.
func TestCrashBeforeTheStart(t *testing.T) {
	dir := folder(t)
	p := open(t, Options{Dir: dir})
	intent, err := p.record(want("a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{".new-1234", ".gone-vm-1234"} {
		if err := os.Mkdir(filepath.Join(p.data.folder(cluster.VM), half), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p = open(t, Options{Dir: dir})
	found, err := p.Find(t.Context(), want("a"))
	if err != nil || found.ID != intent.ID || found.Power != cluster.PoweredOff || found.Identity != intent.Identity {
		t.Fatalf("find: %+v, %v", found, err)
	}
	if r := createVM(t, p, want("a")); r.Identity != intent.Identity {
		t.Errorf("another resource was created: %s, not %s", r.Identity, intent.Identity)
	}
	awaitPower(t, p, intent, cluster.PoweredOn)
	if entries, err := os.ReadDir(p.data.folder(cluster.VM)); err != nil || len(entries) != 1 {
		t.Errorf("incomplete resources are left: %v, %v", entries, err)
	}
}

// A program that ends at once: the call reports it with the program's last output.
func TestVMDoesNotStart(t *testing.T) {
	p := open(t, Options{Command: []string{"sh", "-c", "echo no such luck; echo '  remedy: none'; exit 1"}})
	call, err := p.Create(t.Context(), want("a"))
	if err == nil {
		err = finish(t, p, call)
	}
	if fault.Of(err) != cluster.ProviderRefused || !strings.HasSuffix(err.Error(), "no such luck") {
		t.Errorf("create: %v", err)
	}
	got, err := p.Find(t.Context(), want("a"))
	if err != nil || got.Power != cluster.PoweredOff {
		t.Errorf("find: %+v, %v", got, err)
	}
	if text, err := p.Logs(t.Context(), got.Ref(), 5); err != nil || text != "no such luck\n  remedy: none\n" {
		t.Errorf("log: %q, %v", text, err)
	}

	missing := open(t, Options{Command: []string{"/no/such/program"}})
	if _, err := missing.Create(t.Context(), want("a")); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("create without a program: %v", err)
	}
}

// The files of a VM are readable by their owner only.
func TestModes(t *testing.T) {
	dir := folder(t)
	p := open(t, Options{Dir: dir})
	createVM(t, p, want("a"))
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// An unreadable record is an error, never ErrGone; destroy removes it and leaves the
// process to end by itself.
func TestBrokenRecord(t *testing.T) {
	p := open(t, Options{})
	r := createVM(t, p, want("a"))
	if err := os.WriteFile(p.data.filePath(r.ID, node.File), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(t.Context(), r.ref()); err != nil || got.Power != cluster.PowerBroken {
		t.Errorf("get: %+v, %v", got, err)
	}
	if err := act(t, p, r, cluster.Start); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("start: %v", err)
	}
	if err := act(t, p, r, cluster.Destroy); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if _, err := p.Get(t.Context(), r.ref()); !isGone(err) {
		t.Errorf("get after it: %v", err)
	}
}

// A resource of another installation is never destroyed.
func TestForeignIsNotDestroyed(t *testing.T) {
	p := open(t, Options{})
	w := want("theirs")
	w.Tags = map[string]string{cluster.TagInstallation: "another"}
	r := createVM(t, p, w)
	if err := act(t, p, r, cluster.Destroy); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("destroy: %v", err)
	}
	awaitPower(t, p, r, cluster.PoweredOn)
}

// A job's text holds its whole state: any server may poll it.
func TestJobsAreTheirText(t *testing.T) {
	dir := folder(t)
	p := open(t, Options{Dir: dir, Patience: time.Nanosecond})
	call, err := p.Create(t.Context(), want("a"))
	if err != nil || call.Done {
		t.Fatalf("create: %+v, %v", call, err)
	}
	again := open(t, Options{Dir: dir})
	if err := finish(t, again, cluster.Call{Job: call.Job}); err != nil {
		t.Errorf("the job, polled by another server: %v", err)
	}
	for _, text := range []string{"nonsense", "start/a/b", "start/a/b/soon", "dance/" + call.Ref.ID + "/" + call.Ref.Identity + "/1"} {
		if _, err := p.Poll(t.Context(), cluster.Call{Job: text}); fault.Of(err) != cluster.ProviderRefused {
			t.Errorf("job %q: %v", text, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Poll(ctx, call); !errors.Is(err, context.Canceled) {
		t.Errorf("poll under an ended context: %v", err)
	}
}

// A VM is a process: the root disk size is only a remark and prevents nothing.
func TestSizeOfRootDisksIsARemark(t *testing.T) {
	p := open(t, Options{})
	need := cluster.Need{Zone: ZoneID, Offering: p.options.Offerings[0].ID, Template: p.options.Templates[0].ID, Nodes: 1, DiskGB: 40}
	found, err := p.Check(t.Context(), need)
	if err != nil || len(found) != 1 || found[0].Code != "" || found[0].Alarm || found[0].Evidence == "" || p.Capabilities().DiskSize {
		t.Errorf("%+v, %v", found, err)
	}
	need.DiskGB = 0
	if found, err := p.Check(t.Context(), need); err != nil || len(found) != 0 {
		t.Errorf("without a size: %+v, %v", found, err)
	}
}
