package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/program"
)

// The test binary is also the tools: a link to it named fdbcli performs a play, or else is that of fdbsim.
func TestMain(m *testing.M) {
	if file, ok := os.LookupEnv("PAWL_PLAY"); ok {
		var p play
		must(load(file, &p))
		p.perform()
		return
	}
	if program.Is(os.Args[0]) {
		exit := program.Main(context.Background(), program.This())
		if exit < 0 {
			must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
		os.Exit(exit)
	}
	goleak.VerifyTestMain(m)
}

// play is what a fake tool does, in this order.
type play struct {
	Record string // the file to which it adds a record of itself

	Operate, Tools string // is an operator that runs a tool of this folder, which performs the play in a file
	IgnoreSignals  bool
	Grandchild     bool           // starts another process of its group, which hangs and keeps the output open
	Rewrite        string         // the new content of its cluster file
	Stdout         string         //
	StdoutFile     string         // a file with more of it
	Stderr         string         //
	Endless        string         // "stdout" or "stderr": prints there without end
	Session        *session       // is an interactive fdbcli
	Signal         syscall.Signal // ends itself with it
	Hang           bool           // until it is ended
	Await          string         // a file that must be there before it ends
	Exit           int            //
}

// record is what a fake tool was given.
type record struct {
	Pid         int
	Argv        []string
	Env         []string
	Dir         string
	ClusterFile string            // its content
	Files       map[string]string // of its folder: modes and contents
}

func (p play) perform() {
	if p.IgnoreSignals {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	p.note()
	if p.Grandchild {
		hang := play{Hang: true, IgnoreSignals: true, Record: p.Record}
		file := filepath.Join(os.Getenv("HOME"), "grandchild")
		must(store(file, hang))
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"PAWL_PLAY=" + file}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		must(cmd.Start())
	}
	if p.Operate != "" {
		d, err := New(Options{Folder: p.Operate, TempDir: os.Getenv("HOME"), Environment: []string{"PAWL_PLAY=" + p.Tools}})
		must(err)
		d.Run(context.Background(), endpoint(), fdb.MaintenanceOff())
	}
	if p.Rewrite != "" {
		must(os.WriteFile(argument("-C"), []byte("# DO NOT EDIT!\n"+p.Rewrite+"\n"), 0o600))
	}
	os.Stdout.WriteString(p.Stdout)
	if p.StdoutFile != "" {
		text, err := os.ReadFile(p.StdoutFile)
		must(err)
		os.Stdout.Write(text)
	}
	os.Stderr.WriteString(p.Stderr)
	for p.Endless != "" {
		to := map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr}[p.Endless]
		to.WriteString(strings.Repeat("y\n", 4096))
	}
	if p.Session != nil {
		p.Session.perform()
	}
	if p.Signal != 0 {
		must(syscall.Kill(os.Getpid(), p.Signal))
		time.Sleep(time.Minute) // another thread may be the one that gets it
	}
	if p.Hang {
		select {}
	}
	if p.Await != "" {
		f, err := os.Open(p.Await) // a named pipe: opening it waits for its writer
		must(err)
		f.Close()
	}
	os.Exit(p.Exit)
}

func (p play) note() {
	if p.Record == "" {
		return
	}
	dir, err := os.Getwd()
	must(err)
	r := record{Pid: os.Getpid(), Argv: os.Args, Env: os.Environ(), Dir: dir, Files: map[string]string{}}
	entries, err := os.ReadDir(".")
	must(err)
	for _, entry := range entries {
		info, err := entry.Info()
		must(err)
		text, err := os.ReadFile(entry.Name())
		must(err)
		r.Files[entry.Name()] = fmt.Sprintf("%s %s", info.Mode(), text)
	}
	if file := argument("-C"); file != "" {
		text, err := os.ReadFile(file)
		must(err)
		r.ClusterFile = string(text)
	}
	text, err := json.Marshal(r)
	must(err)
	f, err := os.OpenFile(p.Record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.Write(append(text, '\n'))
	must(err)
	f.Close()
}

func argument(name string) string {
	for i, word := range os.Args {
		if word == name && i+1 < len(os.Args) {
			return os.Args[i+1]
		}
	}
	return ""
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake tool:", err)
		os.Exit(70)
	}
}

// session is an interactive fdbcli over a model of its own, which misbehaves at one of its lines.
type session struct {
	Keys  map[string]string // what is there at the beginning
	After string            // the file to which it writes the keys at the end, as JSON

	Before string // the line before whose execution one of these happens, once or Always
	Always bool
	Put    map[string]string // somebody else writes these keys
	Unfold *sim.Fault        // a fault of the model begins
	Lines  string            // this is its answer, and the line is not executed
	Half   string            // this is printed, and then nothing more
	Ends   bool              // the process ends
	Warns  string            // on stderr, before the answer
	Drops  bool              // the line is executed, and then the process hangs before it answers
}

func (s *session) perform() {
	mustPrompt()
	w := newModel()
	for key, value := range s.Keys {
		w.set(key, value)
	}
	given, err := fdb.ParseConnection(string(must2(os.ReadFile(argument("-C")))))
	must(err)
	cli := w.Session(w.version, given)
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		prompt := s.answer(w, cli, out)
		if !prompt {
			break
		}
		out.WriteString(fdb.Prompt)
		out.Flush()
		line, err := in.ReadString('\n')
		if err != nil {
			break // the terminal is gone
		}
		line = strings.TrimSuffix(line, "\n")
		drops := s.Drops && line == s.Before
		if s.happens(w, line, out) {
			continue
		}
		cli.Send(line)
		if drops {
			s.answer(w, cli, out)
			s.save(w)
			select {}
		}
	}
	out.Flush()
	s.save(w)
}

// mustPrompt fails where a real fdbcli would not print fdb.Prompt and nothing else.
func mustPrompt() {
	stdin, err := os.Readlink("/proc/self/fd/0")
	must(err)
	if !strings.HasPrefix(stdin, "/dev/pts/") || os.Getenv("TERM") != "dumb" || os.Getenv("HOME") == "" {
		must(fmt.Errorf("it would print no prompt, with standard input from %s", stdin))
	}
}

// answer lets time pass until the session waits for a line or has ended.
func (s *session) answer(w *model, cli *sim.Session, out *bufio.Writer) (prompt bool) {
	for {
		stdout, stderr, prompt := cli.Read()
		out.WriteString(stdout)
		os.Stderr.WriteString(stderr)
		if prompt || cli.Ended() {
			return prompt
		}
		w.Advance(10 * ms)
	}
}

// happens does what is to happen before a line. It reports whether the line is answered already.
func (s *session) happens(w *model, line string, out *bufio.Writer) bool {
	if s.Before == "" || line != s.Before {
		return false
	}
	if !s.Always {
		s.Before = ""
	}
	for key, value := range s.Put {
		w.set(key, value)
	}
	if s.Unfold != nil {
		w.Inject(*s.Unfold)
	}
	os.Stderr.WriteString(s.Warns)
	switch {
	case s.Ends:
		s.save(w)
		os.Exit(1)
	case s.Half != "":
		out.WriteString(s.Half)
		out.Flush()
		s.save(w)
		select {}
	case s.Lines != "":
		out.WriteString(s.Lines)
		return true
	}
	return false
}

func (s *session) save(w *model) {
	if s.After == "" {
		return
	}
	must(store(s.After, keysOf(w.Cluster)))
}

// store and load keep a value in a file, with all of its bytes.
func store(file string, value any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(value); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o600)
}

func load(file string, value any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return gob.NewDecoder(bytes.NewReader(b)).Decode(value)
}

func must2(text []byte, err error) []byte {
	must(err)
	return text
}

// stage is a Database whose tools perform a play.
type stage struct {
	*Database
	t      *testing.T
	record string
	folder string
}

// newStage makes fdbcli, fdbbackup and fdbrestore of 7.3 that perform the play.
func newStage(t *testing.T, p play, o Options) *stage {
	t.Helper()
	s := &stage{t: t, record: filepath.Join(t.TempDir(), "record"), folder: t.TempDir()}
	for _, name := range []fdb.Tool{fdb.ToolCLI, fdb.ToolBackup, fdb.ToolRestore} {
		s.install("7.3", name)
	}
	p.Record = s.record
	file := filepath.Join(t.TempDir(), "play")
	err := store(file, p)
	if err != nil {
		t.Fatal(err)
	}
	o.Folder, o.TempDir = s.folder, t.TempDir()
	o.Environment = append(o.Environment, "PAWL_PLAY="+file, "GORACE=atexit_sleep_ms=0")
	if s.Database, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, r := range s.records() {
			if left := group(r.Pid); len(left) > 0 {
				t.Errorf("processes are left of the group %d: %v", r.Pid, left)
			}
		}
	})
	return s
}

func (s *stage) install(line string, name fdb.Tool) {
	s.t.Helper()
	program, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(filepath.Join(s.folder, line), 0o755)
	}
	if err == nil {
		err = os.Symlink(program, filepath.Join(s.folder, line, string(name)))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// records are what the tools were given, in the order of their starts.
func (s *stage) records() (list []record) {
	s.t.Helper()
	text, err := os.ReadFile(s.record)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			s.t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// last is the record of the tool that was started last.
func (s *stage) last() record {
	s.t.Helper()
	list := s.records()
	if len(list) == 0 {
		s.t.Fatal("no tool was started")
	}
	return list[len(list)-1]
}
