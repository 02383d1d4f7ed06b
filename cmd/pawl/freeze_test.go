package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// freezeFor is how long the long test freezes servers; without it a sample is taken.
const freezeFor = "PAWL_TEST_FREEZE"

// answerWithin is when a request counts as one that hangs. It is no measure of
// speed: what waits for a frozen process waits until that goes on.
const answerWithin = 30 * time.Second

// gate stands between a server and its database. It can stop in the middle of
// what is sent, in both directions and without closing anything, as when the
// machine of one of them has gone.
type gate struct {
	ln     net.Listener
	target string

	mu   sync.Mutex
	left int           // things sent until it shuts by itself; 0: it does not
	shut chan struct{} // closed when it shuts; nil: it is not armed
	ice  chan struct{} // closed when it opens; nil: it is open
	all  sync.WaitGroup
}

func newGate(t *testing.T, target string) *gate {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{ln: ln, target: target}
	g.all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			g.all.Go(func() { g.serve(in) })
		}
	})
	t.Cleanup(func() {
		g.open()
		ln.Close()
		g.all.Wait()
	})
	return g
}

func (g *gate) serve(in net.Conn) {
	defer in.Close()
	g.pass(0)
	out, err := net.Dial("unix", g.target)
	if err != nil {
		return
	}
	defer out.Close()
	var both sync.WaitGroup
	both.Go(func() { g.copy(out, in, 1) })
	both.Go(func() { g.copy(in, out, 0) })
	both.Wait()
}

func (g *gate) copy(to, from net.Conn, counts int) {
	data := make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		first := n
		if g.pass(counts) { // the first half has gone
			first = n / 2
		}
		if _, bad := to.Write(data[:first]); bad != nil {
			err = bad
		}
		g.pass(0)
		if _, bad := to.Write(data[first:n]); bad != nil {
			err = bad
		}
		if err != nil {
			to.Close()
			from.Close()
			return
		}
	}
}

// pass waits while the gate is shut. It reports that this very thing shuts it.
func (g *gate) pass(counts int) bool {
	g.mu.Lock()
	if g.ice == nil && g.left > 0 && counts > 0 {
		if g.left--; g.left == 0 {
			g.ice = make(chan struct{})
			close(g.shut)
			g.mu.Unlock()
			return true
		}
	}
	ice := g.ice
	g.mu.Unlock()
	if ice != nil {
		<-ice
	}
	return false
}

// arm lets the gate shut with the nth thing that is sent from now on.
func (g *gate) arm(n int) (shut <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.shut = n, make(chan struct{})
	return g.shut
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = 0
	if g.ice != nil {
		close(g.ice)
		g.ice = nil
	}
}

// pawlServer is a real process.
type pawlServer struct {
	name, url string
	cmd       *exec.Cmd
	gate      *gate // to its database; nil: none
	client    *http.Client
	asked     atomic.Int64
	last      atomic.Value // id of the run it started last
}

// startServer starts one, as the last arguments of a command if one is given.
func startServer(t *testing.T, name, dsn, dir string, g *gate, by ...string) *pawlServer {
	by = append(by, "pawl", "server", "--store", "postgres", "--dsn", dsn, "--listen", "127.0.0.1:0", "--flows", dir, "--machines", dir)
	s := &pawlServer{name: name, gate: g, client: http.DefaultClient, cmd: exec.Command(by[0], by[1:]...)}
	s.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(t.TempDir(), "state"))
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = prefixed{t, name}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, after, found := strings.Cut(line, " listens on ")
	if err != nil || !found {
		t.Fatalf("%s: %q, %v", name, line, err)
	}
	s.url, _, _ = strings.Cut(after, " ")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s
}

type prefixed struct {
	t    *testing.T
	name string
}

func (p prefixed) Write(data []byte) (int, error) {
	if text := string(data); !strings.Contains(text, "level=INFO") && !strings.Contains(text, "WRITE_CONFLICT") {
		p.t.Logf("%s: %s", p.name, bytes.TrimSpace(data))
	}
	return len(data), nil
}

// request sends a changing request and returns the time to its answer.
func (s *pawlServer) request(ctx context.Context, method, path, body string) (map[string]any, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPost {
		req.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", s.name, s.asked.Add(1)))
	}
	began := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, time.Since(began), err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	took := time.Since(began)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	var answer map[string]any
	_ = json.Unmarshal(data, &answer)
	return answer, took, err
}

// requests are the kinds of changes: each writes into other tables, and each into the audit trail.
var requests = map[string]func(ctx context.Context, s *pawlServer) (time.Duration, error){
	"start a run": func(ctx context.Context, s *pawlServer) (time.Duration, error) {
		return s.start(ctx, fmt.Sprintf("demo/default/%s%d", s.name, s.asked.Add(1)))
	},
	"start a run behind another": func(ctx context.Context, s *pawlServer) (time.Duration, error) {
		return s.start(ctx, fmt.Sprintf("demo/default/queue-%s-%d", s.name, s.asked.Load()/20))
	},
	"signal": func(ctx context.Context, s *pawlServer) (time.Duration, error) {
		id, _ := s.last.Load().(string)
		if id == "" {
			return 0, nil
		}
		_, took, err := s.request(ctx, "POST", "/v1/runs/"+id+"/signal", `{"name":"go"}`)
		if err != nil && strings.Contains(err.Error(), "RUN_FINISHED") {
			err = nil
		}
		return took, err
	},
	"apply an object": func(ctx context.Context, s *pawlServer) (time.Duration, error) {
		_, took, err := s.request(ctx, "PUT", "/v1/objects/note/default/"+s.name, fmt.Sprintf(`{"spec":{"n":%d}}`, s.asked.Add(1)))
		return took, err
	},
	"make a domain": func(ctx context.Context, s *pawlServer) (time.Duration, error) {
		_, took, err := s.request(ctx, "POST", "/v1/domains", fmt.Sprintf(`{"name":"%s%d"}`, s.name, s.asked.Add(1))) // two clients ask one server
		return took, err
	},
}

func (s *pawlServer) start(ctx context.Context, subject string) (time.Duration, error) {
	run, took, err := s.request(ctx, "POST", "/v1/runs", fmt.Sprintf(`{"flow":"Gated","subject":%q}`, subject))
	if id, ok := run["id"].(string); ok && err == nil {
		s.last.Store(id)
	}
	return took, err
}

// fleet is three servers on one database; the first reaches it through a gate.
func fleet(t *testing.T) []*pawlServer {
	dsn := pgtest.New(t, pgtest.Options{NoSync: true}).Database(t)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	_, socket := pgconn.NetworkAddress(config.Host, config.Port)
	g := newGate(t, socket)
	through := fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable", g.ln.Addr().(*net.TCPAddr).Port, config.User, config.Database)
	dir := flowFiles(t)
	return []*pawlServer{startServer(t, "a", through, dir, g), startServer(t, "b", dsn, dir, nil), startServer(t, "c", dsn, dir, nil)}
}

// files are the flow and the machine of the requests.
func flowFiles(t *testing.T) (dir string) {
	dir = t.TempDir()
	for name, text := range map[string]string{
		"gated.yaml": "flowName: Gated\nsteps:\n- {stepName: Gate, wait: {signal: go, deadline: 10m}}\n",
		"note.yaml":  "machine: note\nkind: note\ninitial: Init\nstates:\n  Init: {on: [{event: create, to: Held}]}\n  Held: {rests: true}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A server is stopped at each of the things it sends while it carries out a
// request, in the middle of it: everything that the others are asked meanwhile is answered.
func TestFinding2StoppedServerHoldsUpNobody(t *testing.T) {
	servers := fleet(t)
	a, others := servers[0], servers[1:]
	for _, s := range servers { // something to signal
		if _, err := s.start(t.Context(), "demo/default/first-"+s.name); err != nil {
			t.Fatal(err)
		}
	}
	stops, slowest := 0, time.Duration(0)
	for name, request := range requests {
		for n, over := 1, false; !over; n++ {
			shut := a.gate.arm(n)
			ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
			done := make(chan error, 1)
			go func() {
				_, err := request(ctx, a)
				done <- err
			}()
			select {
			case <-shut:
				stops++
				for _, s := range others {
					for _, what := range []string{name, "make a domain"} {
						took, err := requests[what](ctx, s)
						if err != nil {
							t.Fatalf("a has stopped with the %d. thing it sent for %q. Server %s was asked to %s: after %s: %v", n, name, s.name, what, took, err)
						}
						slowest = max(slowest, took)
					}
				}
				a.gate.open()
				<-done // it may have failed
			case <-done:
				a.gate.open()
				over = true
			}
			cancel()
		}
	}
	if stops < 2*len(requests) {
		t.Fatalf("the server was stopped %d times only: the test shows nothing", stops)
	}
	t.Logf("%d stops; the slowest answer of another server took %s", stops, slowest)
}

// Servers are frozen at random, or lose their database, for longer than their
// lease, and go on. The others answer as before.
func TestFinding2FrozenServersHoldUpNobody(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGSTOP")
	}
	total, frozenFor, limit := 4*time.Second, time.Second, answerWithin
	if text := os.Getenv(freezeFor); text != "" {
		var err error
		if total, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		frozenFor, limit = 20*time.Second, time.Second // the lease is 15 s
	}
	servers := fleet(t)
	var frozen [3]atomic.Int64 // 1: frozen; else when it went on, in ns
	var mu sync.Mutex
	var slowest, calm time.Duration
	var slow []string
	answered, failed := 0, map[string]int{}
	anyFrozen := func() bool { return frozen[0].Load() == 1 || frozen[1].Load() == 1 || frozen[2].Load() == 1 }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for i, s := range servers {
		for range 2 {
			clients.Go(func() {
				for ctx.Err() == nil {
					for what, request := range requests {
						before, during := frozen[i].Load(), anyFrozen()
						one, cancel := context.WithTimeout(ctx, answerWithin)
						took, err := request(one, s)
						cancel()
						during = during || anyFrozen()
						own := before == 1 || frozen[i].Load() != before || before > time.Now().Add(-5*time.Second).UnixNano()
						mu.Lock()
						switch {
						case own || ctx.Err() != nil: // it was frozen itself, or has just gone on
						case err != nil:
							failed[fmt.Sprintf("%s: %v", what, err)]++
						default:
							answered++
							if !during {
								calm = max(calm, took)
								break
							}
							if slowest = max(slowest, took); took > limit {
								slow = append(slow, fmt.Sprintf("%s at %s took %s", what, s.name, took))
							}
						}
						mu.Unlock()
					}
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				}
			})
		}
	}
	freezes := map[string]int{}
	for end := time.Now().Add(total); time.Now().Before(end); {
		i := rand.IntN(len(servers))
		s := servers[i]
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		frozen[i].Store(1)
		if vanish := s.gate != nil && rand.IntN(2) == 0; vanish {
			freezes["its database was gone"]++
			select {
			case <-s.gate.arm(1 + rand.IntN(20)):
				time.Sleep(frozenFor)
			case <-time.After(frozenFor):
			}
			s.gate.open()
		} else {
			freezes["frozen"]++
			if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(frozenFor)
			if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		frozen[i].Store(time.Now().UnixNano())
	}
	stop()
	clients.Wait()
	t.Logf("%v, %s each; %d answers of others; the slowest took %s while one was frozen and %s while none was", freezes, frozenFor, answered, slowest, calm)
	for what, n := range failed {
		t.Errorf("%d times: %s", n, what)
	}
	if answered == 0 {
		t.Error("nothing was answered: the test shows nothing")
	}
	for _, text := range slow {
		t.Error(text)
	}
	for _, s := range servers { // all of them work again
		if err := s.waitReady(t.Context()); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// waitReady waits until a server says that it is ready.
func (s *pawlServer) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*answerWithin)
	defer cancel()
	for last := errors.New("nothing was asked"); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := s.client.Do(req)
		if err == nil {
			data, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s: %s", resp.Status, data)
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), last)
		}
		last = err
		time.Sleep(50 * time.Millisecond)
	}
}
