package tool

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/port/porttest"
)

// sharedWorld is a model that tools ask from their own processes, over a socket.
type sharedWorld struct {
	*world
	mu     sync.Mutex
	socket string
}

// question is how a connection begins: a run of a tool, or an interactive fdbcli.
type question struct {
	Run     sim.Run
	Session bool
}

// said is what an interactive fdbcli has printed.
type said struct {
	Stdout, Stderr string
	Prompt         bool
}

func newSharedWorld(t testing.TB) *sharedWorld {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &sharedWorld{world: newWorld(), socket: filepath.Join(dir, "s")}
	listener, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() {
				defer conn.Close()
				w.serve(gob.NewDecoder(conn), gob.NewEncoder(conn))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		served.Wait()
	})
	return w
}

// serve answers one tool. Errors say that its process has ended.
func (w *sharedWorld) serve(in *gob.Decoder, out *gob.Encoder) {
	var q question
	if in.Decode(&q) != nil {
		return
	}
	if !q.Session {
		w.mu.Lock()
		a := w.Run(q.Run)
		w.mu.Unlock()
		_ = out.Encode(a)
		return
	}
	w.mu.Lock()
	s := w.Session(q.Run.Version, q.Run.Connection)
	w.mu.Unlock()
	for {
		var now said
		for !now.Prompt && !s.Ended() {
			w.mu.Lock()
			w.Advance(10 * ms)
			stdout, stderr, prompt := s.Read()
			w.mu.Unlock()
			now = said{now.Stdout + stdout, now.Stderr + stderr, prompt}
		}
		var line string
		if out.Encode(now) != nil || !now.Prompt || in.Decode(&line) != nil {
			s.Kill()
			return
		}
		w.mu.Lock()
		s.Send(line)
		w.mu.Unlock()
	}
}

// askWorld is a tool of a shared world.
func askWorld(socket string) {
	conn, err := net.Dial("unix", socket)
	must(err)
	in, out := gob.NewDecoder(conn), gob.NewEncoder(conn)
	q := question{Run: sim.Run{Tool: fdb.Tool(filepath.Base(os.Args[0])), Argv: os.Args[1:], Version: endpoint().Version}}
	if file := argument("-C"); file != "" {
		q.Run.Connection, err = fdb.ParseConnection(string(must2(os.ReadFile(file))))
		must(err)
	}
	q.Session = q.Run.Tool == fdb.ToolCLI && argument("--exec") == "" && !slices.Contains(os.Args, "--version")
	must(out.Encode(q))
	if q.Session {
		askSession(in, out)
		return
	}
	var a sim.Answer
	must(in.Decode(&a))
	os.Stdout.WriteString(a.Stdout)
	os.Stderr.WriteString(a.Stderr)
	if file := argument("-C"); file != "" && a.Connection.String() != q.Run.Connection.String() {
		must(os.WriteFile(file, []byte(a.Connection.String()), 0o600))
	}
	os.Exit(a.Exit)
}

func askSession(in *gob.Decoder, out *gob.Encoder) {
	mustPrompt()
	buf := make([]byte, 4096) // as long as the lines of fdbcli
	for {
		var now said
		must(in.Decode(&now))
		os.Stderr.WriteString(now.Stderr)
		os.Stdout.WriteString(now.Stdout)
		if !now.Prompt {
			return
		}
		os.Stdout.WriteString(fdb.Prompt)
		n, err := os.Stdin.Read(buf) // a terminal gives one line at a time
		if err != nil || n == 0 {
			return
		}
		must(out.Encode(string(buf[:n-1])))
	}
}

// The exam of the port, by processes over one database.
func TestDatabase(t *testing.T) {
	w := newSharedWorld(t)
	s := newStage(t, play{World: w.socket}, Options{})
	porttest.Database(t, porttest.DatabaseHarness{
		Open: func(testing.TB) porttest.DatabaseFixture {
			return porttest.DatabaseFixture{Database: s, At: endpoint()}
		},
		Wait: func(testing.TB) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.Advance(time.Second)
		},
	})
}

// Many count at the same time: nothing is counted twice, and nothing is lost.
func TestTransactionsAtTheSameTime(t *testing.T) {
	w := newSharedWorld(t)
	s := newStage(t, play{World: w.socket}, Options{Processes: 5})
	counter := fdb.LockPrefix + "/counter"
	results := make(chan fdb.Result, 20)
	var calls sync.WaitGroup
	for range cap(results) {
		calls.Go(func() {
			results <- s.Transact(t.Context(), endpoint(), []fdb.Range{fdb.SingleKey(counter)}, func(v fdb.Values) ([]fdb.Write, error) {
				value, _ := v.Get(counter)
				n, _ := strconv.Atoi(string(value))
				return []fdb.Write{fdb.Set(counter, []byte(strconv.Itoa(n+1)))}, nil
			})
		})
	}
	calls.Wait()
	close(results)
	counted := 0
	for r := range results {
		switch {
		case r.Outcome == fdb.Ok:
			counted++
		case r.Reason != fdb.TransactionConflict:
			t.Errorf("a transaction is %s", r)
		}
	}
	if got := w.all()[counter]; got != strconv.Itoa(counted) || counted < 5 {
		t.Errorf("%d have counted up to %s", counted, got)
	}
}

// With FDB_BIN=<folder>, where <folder>/7.3.69 holds fdbserver, fdbcli, fdbbackup and fdbrestore, the exam
// runs against them.
func TestRealDatabase(t *testing.T) {
	folder := os.Getenv("FDB_BIN")
	if folder == "" {
		t.Skip("FDB_BIN is not set: it names a folder with a folder of real executables for each version, such as 7.3.69/fdbserver and 7.3.69/fdbcli")
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, entry := range entries {
		v, err := fdb.ParseVersion(entry.Name())
		if err != nil || v.String() != entry.Name() {
			continue
		}
		found = true
		t.Run(v.String(), func(t *testing.T) { examineReal(t, filepath.Join(folder, entry.Name()), v) })
	}
	if !found {
		t.Errorf("%s holds no folder that is named as a version", folder)
	}
}

func examineReal(t *testing.T, bin string, v fdb.Version) {
	tools, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(bin, filepath.Join(tools, v.Short())); err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Folder: tools, TempDir: t.TempDir(), LogDir: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	at := port.Endpoint{Connection: connection("real:first@" + freeAddress(t)), Version: v}
	startServer(t, filepath.Join(bin, "fdbserver"), dir, at)
	if r := d.Run(t.Context(), at, fdb.Call{Command: fdb.CommandConfigure, Create: true, Configuration: "single memory"}); r.Outcome == fdb.Refused {
		t.Fatalf("configure new is %s", r.Result)
	}
	eventually(t, "the database is available", func() bool {
		s, err := d.Status(t.Context(), at, port.Short)
		return err == nil && s.Client.DatabaseStatus.Available != nil && *s.Client.DatabaseStatus.Available
	})
	porttest.Database(t, porttest.DatabaseHarness{Open: func(testing.TB) porttest.DatabaseFixture {
		return porttest.DatabaseFixture{Database: d, At: at}
	}})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startServer starts an fdbserver that ends with the test.
func startServer(t *testing.T, program, dir string, at port.Endpoint) {
	t.Helper()
	file := filepath.Join(dir, "fdb.cluster")
	if err := os.WriteFile(file, []byte(at.Connection.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := at.Connection.Coordinators[0].String()
	cmd := commandIn(dir, program, "-p", address, "-C", file, "-d", filepath.Join(dir, "data"), "-L", dir)
	p, err := start(t.Context(), cmd, 1<<20)
	if err != nil {
		t.Fatal(errors.Join(fmt.Errorf("%s does not start", program), err))
	}
	t.Cleanup(func() { p.endWithin(0) })
}
