package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// inNetwork says that this test process has a network namespace of its own.
const inNetwork = "PAWL_TEST_IN_NETWORK"

const (
	databaseAddress = "10.0.0.1"
	hostAddress     = "10.0.1.1"
)

// goneWithin is when both ends must have given up a connection: the settings are 11 s of silence and 10 s without
// an acknowledgement, one after the other at worst. The defaults of Linux are two hours and a quarter of an hour.
const goneWithin = 40 * time.Second

// TestFinding2VanishedHost: the machine of a server is gone from one moment to the next, without a packet more in either
// direction, while it holds a lock. The others are answered, and both ends of each connection notice that there is no other one.
func TestFinding2VanishedHost(t *testing.T) {
	if os.Getenv(inNetwork) != "" {
		vanish(t)
		return
	}
	t.Parallel()
	for _, tool := range []string{"ip", "unshare", "nsenter", "sleep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("networks are made by the command %s (iproute2, util-linux): %v", tool, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFinding2VanishedHost$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), inNetwork+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	switch {
	case cmd.Process == nil:
		t.Skipf("this machine makes no network namespaces: %v", err)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("this machine has no networks of one's own:\n%s", out)
	case err != nil || !bytes.Contains(out, []byte("--- PASS: TestFinding2VanishedHost")):
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// namespace is a network of its own; it ends with the process that holds it.
type namespace struct {
	t   *testing.T
	pid int
}

func newNamespace(t *testing.T) namespace {
	cmd := exec.Command("unshare", "--net", "sleep", "1h")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	n := namespace{t, cmd.Process.Pid}
	for own := network(t, os.Getpid()); network(t, n.pid) == own; { // it is about to have one
		time.Sleep(time.Millisecond)
	}
	return n
}

func network(t *testing.T, pid int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// enter is the beginning of a command in the namespace.
func (n namespace) enter() []string {
	return []string{"nsenter", "--net", "--target", fmt.Sprint(n.pid)}
}

func (n namespace) run(args ...string) {
	n.t.Helper()
	command(n.t, append(n.enter(), args...)...)
}

// dial connects to what listens in the namespace.
func (n namespace) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	runtime.LockOSThread() // a socket belongs to the network of the thread that made it
	defer runtime.UnlockOSThread()
	own, err := os.Open(fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid()))
	if err != nil {
		return nil, err
	}
	defer own.Close()
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.pid))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, kind, address)
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back)
	}
	return conn, err
}

// forward lets the machine between the two pass packets on, or drop all of them.
func (n namespace) forward(yes bool) {
	n.t.Helper()
	n.run("sh", "-c", fmt.Sprintf("echo %d > /proc/sys/net/ipv4/ip_forward", map[bool]int{true: 1}[yes]))
}

// established counts the connections of the namespace to the database, of those given, or all.
func (n namespace) established(of map[string]bool) map[string]bool {
	n.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", n.pid))
	if err != nil {
		n.t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line) // number, local, remote, state
		if len(f) > 3 && f[3] == "01" && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", pgtest.Port)) && (of == nil || of[f[1]]) {
			found[f[1]] = true
		}
	}
	return found
}

func vanish(t *testing.T) {
	limit := 5 * time.Second // less than what any time-out of TCP gives
	if os.Getenv(freezeFor) != "" {
		limit = time.Second
	}
	if out, err := exec.Command("ip", "link", "add", "d0", "type", "veth", "peer", "name", "r0").CombinedOutput(); err != nil {
		t.Skipf("the kernel has no veth: %v: %s", err, out)
	}
	router, host := newNamespace(t), newNamespace(t)
	command(t, "ip", "link", "set", "lo", "up")
	host.run("ip", "link", "set", "lo", "up")
	command(t, "ip", "link", "add", "h0", "type", "veth", "peer", "name", "r1")
	for link, of := range map[string]namespace{"r0": router, "r1": router, "h0": host} {
		command(t, "ip", "link", "set", link, "netns", fmt.Sprint(of.pid))
	}
	command(t, "ip", "addr", "add", databaseAddress+"/24", "dev", "d0")
	command(t, "ip", "link", "set", "d0", "up")
	command(t, "ip", "route", "add", "10.0.1.0/24", "via", "10.0.0.2")
	for link, address := range map[string]string{"r0": "10.0.0.2", "r1": "10.0.1.2"} {
		router.run("ip", "addr", "add", address+"/24", "dev", link)
		router.run("ip", "link", "set", link, "up")
	}
	host.run("ip", "addr", "add", hostAddress+"/24", "dev", "h0")
	host.run("ip", "link", "set", "h0", "up")
	host.run("ip", "route", "add", "10.0.0.0/24", "via", "10.0.1.2")
	router.forward(true)

	dsn := pgtest.New(t, pgtest.Options{NoSync: true, Listen: databaseAddress}).Database(t)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	through := fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable", databaseAddress, pgtest.Port, config.User, config.Database)
	dir := flowFiles(t)
	b, c := startServer(t, "b", dsn, dir, nil), startServer(t, "c", dsn, dir, nil)
	a := startServer(t, "a", through, dir, nil, host.enter()...)
	a.client = &http.Client{Transport: &http.Transport{DialContext: host.dial}}
	if err := a.waitReady(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range 4 { // of the machine that will be gone: it is in the middle of something
		clients.Go(func() {
			for ctx.Err() == nil {
				for _, request := range requests {
					_, _ = request(ctx, a)
				}
			}
		})
	}
	half, err := pgx.ParseConfig(through + " application_name=pawl")
	if err != nil {
		t.Fatal(err)
	}
	half.DialFunc = host.dial
	holder, err := pgx.ConnectConfig(t.Context(), half)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = holder.Close(ended)
	}()
	for round := 0; round < 20; round++ {
		for _, request := range requests {
			if _, err := request(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	message := holder.PgConn().StartPipeline(t.Context())
	message.SendQueryParams("UPDATE feed SET newest = newest + 1", nil, nil, nil, nil)
	message.SendFlushRequest()
	if err := message.Flush(); err != nil { // no Sync: the transaction is open, and holds what every object needs
		t.Fatal(err)
	}
	if _, err := message.GetResults(); err != nil {
		t.Fatal(err)
	}

	router.forward(false)
	began := time.Now()
	before := host.established(nil)
	maps.DeleteFunc(before, func(local string, _ bool) bool { // the one of this test is no connection of a server
		return strings.HasSuffix(local, fmt.Sprintf(":%04X", holder.PgConn().Conn().LocalAddr().(*net.TCPAddr).Port))
	})
	watch, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close(context.Background())
	sessions := func() (n int) {
		t.Helper()
		if err := watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE client_addr = $1", hostAddress).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := sessions()
	if len(before) < 3 || first < 3 {
		t.Fatalf("the server that is gone had %d connections, its database sees %d: the test shows nothing", len(before), first)
	}
	slowest, answered := time.Duration(0), 0
	var atDatabase, atHost time.Duration
	for atDatabase == 0 || atHost == 0 {
		for _, s := range []*pawlServer{b, c} {
			for what, request := range requests {
				one, cancel := context.WithTimeout(t.Context(), answerWithin)
				took, err := request(one, s)
				cancel()
				if err != nil {
					t.Fatalf("%s after a machine had gone: server %s was asked to %s: after %s: %v", time.Since(began), s.name, what, took, err)
				}
				answered, slowest = answered+1, max(slowest, took)
				if took > limit {
					t.Errorf("%s after a machine had gone: server %s was asked to %s: it took %s", time.Since(began), s.name, what, took)
				}
			}
		}
		if atDatabase == 0 && sessions() == 0 {
			atDatabase = time.Since(began)
		}
		if atHost == 0 && len(host.established(before)) == 0 {
			atHost = time.Since(began)
		}
		if since := time.Since(began); since > goneWithin {
			t.Fatalf("%s after a machine had gone the database has %d sessions of %d with it, and the machine %d connections of %d", since, sessions(), first, len(host.established(before)), len(before))
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("%d sessions had ended at the database after %s, %d connections at the machine after %s; %d answers of the others meanwhile, the slowest after %s",
		first, atDatabase.Round(100*time.Millisecond), len(before), atHost.Round(100*time.Millisecond), answered, slowest.Round(time.Millisecond))
	stop()
	router.forward(true)
	if err := a.waitReady(t.Context()); err != nil {
		t.Error(err)
	}
}
