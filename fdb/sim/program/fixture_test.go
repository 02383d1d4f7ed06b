package program_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/program"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain is also the programs: the tests install themselves.
func TestMain(m *testing.M) {
	if program.Is(os.Args[0]) {
		exit := program.Main(context.Background(), program.This())
		if exit < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		os.Exit(exit)
	}
	exit := m.Run()
	installed.Lock()
	for _, folder := range installed.folders {
		os.RemoveAll(folder)
	}
	os.Exit(exit)
}

// installed are the folders of programs, one a version, for all tests.
var installed struct {
	sync.Mutex
	folders map[string]string
}

// image returns a folder with the programs of a version.
func image(t testing.TB, v string) string {
	t.Helper()
	installed.Lock()
	defer installed.Unlock()
	if folder := installed.folders[v]; folder != "" {
		return folder
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "fdbsim-"+v+"-")
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Install(self, version(v), folder); err != nil {
		t.Fatal(err)
	}
	if installed.folders == nil {
		installed.folders = map[string]string{}
	}
	installed.folders[v] = folder
	return folder
}

func version(text string) fdb.Version {
	v, err := fdb.ParseVersion(text)
	if err != nil {
		panic(err)
	}
	return v
}

// call is one run of a program in this process.
type call struct {
	version string
	args    []string
	env     []string
	stdin   string
	world   *world.World
}

// run runs it to its end.
func (c call) run(t testing.TB) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program.Process{
		Args: c.args, Environ: c.env, Stdin: strings.NewReader(c.stdin), Stdout: &out, Stderr: &errs, Version: version(c.version),
		Folder: t.TempDir(), Signals: make(chan os.Signal),
	}
	if c.world != nil {
		p.World = func() (*world.Peer, error) { return c.world.Pipe(), nil }
	}
	exit = program.Main(t.Context(), p)
	return exit, out.String(), errs.String()
}

// shape are the options of models in tests: small, and with short times.
var shape = sim.Options{
	Shards: 12, ShardBytes: 4 << 20,
	Times: sim.Times{
		Join: 20 * time.Millisecond, Restart: 50 * time.Millisecond, Detect: 50 * time.Millisecond, Recovery: 50 * time.Millisecond,
		Drain: 200 * time.Millisecond, Reaction: 40 * time.Second, Better: 50 * time.Millisecond, Status: 20 * time.Millisecond, Command: 10 * time.Millisecond,
	},
}

// served is a world behind a Unix socket, for processes.
type served struct {
	*world.World
	t       testing.TB
	address string
	first   fdb.Connection
}

func serve(t testing.TB, o world.Options, first string) *served {
	t.Helper()
	c, err := fdb.ParseConnection(first)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{World: world.New(o), t: t, first: c}
	t.Cleanup(s.Close)
	s.listen()
	return s
}

// listen serves the world.
func (s *served) listen() {
	s.t.Helper()
	folder, err := os.MkdirTemp("", "w") // a short path: that of a socket has some 100 bytes
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = filepath.Join(folder, "s")
	l, err := world.Listen(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	var gone sync.WaitGroup
	gone.Go(func() {
		if err := s.Serve(l); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() {
		l.Close()
		gone.Wait()
		os.RemoveAll(folder)
	})
}

// patience is how long a test waits for something that takes a second or so.
const patience = 20 * time.Second

// reach waits until a condition of the database holds.
func (s *served) reach(what string, holds func(*sim.Cluster) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.Wait(ctx, s.first, holds); err != nil {
		s.Do(s.first, func(c *sim.Cluster) { s.t.Log(strings.Join(c.Transcript(), "\n")) })
		s.t.Fatalf("%s: %v", what, err)
	}
}

// environ is what programs of the world get.
func (s *served) environ(more ...string) []string {
	// The race detector waits a second at the end of each program.
	return append([]string{world.AddressVariable + "=" + s.address, "HOME=" + s.t.TempDir(), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}, more...)
}

// start starts a process that is ended with the test.
func (s *served) start(cmd *exec.Cmd) *running {
	s.t.Helper()
	r := &running{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its state says how it ended
		close(r.exited)
	}()
	s.t.Cleanup(func() {
		if !r.ended() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-r.exited:
			case <-time.After(patience):
				_ = cmd.Process.Kill()
				<-r.exited
				s.t.Errorf("%s did not end by SIGTERM", cmd.Path)
			}
		}
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", cmd.Path, r.log.String())
		}
	})
	return r
}

// running is a process with its output.
type running struct {
	cmd    *exec.Cmd
	log    buffer
	exited chan struct{}
}

func (r *running) ended() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// buffer may be written and read by several.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// cli runs commands with the fdbcli of a version, as a process.
func (s *served) cli(v, file, commands string) (exit int, stdout, stderr string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(image(s.t, v), "fdbcli"), "--exec", commands, "-C", file, "--timeout", "30")
	cmd.Env = s.environ()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code is looked at
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// do runs commands that must succeed.
func (s *served) do(v, file, commands string) string {
	s.t.Helper()
	exit, stdout, stderr := s.cli(v, file, commands)
	if exit != 0 || strings.Contains(stderr, "ERROR") {
		s.t.Fatalf("%s: exit %d\n%s%s", commands, exit, stdout, stderr)
	}
	return stdout
}

func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) string {
	content, err := os.ReadFile(path)
	if err != nil && t != nil {
		t.Fatal(err)
	}
	return string(content)
}
