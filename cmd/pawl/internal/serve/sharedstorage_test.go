package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// asPawl makes the test binary a server, an agent or a cluster manager, as pawl is.
func asPawl() (mine bool) {
	if len(os.Args) < 4 || os.Args[1] != "instance" && os.Args[1] != "cluster-manager" && os.Args[1] != "serve-test" {
		return false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var err error
	switch os.Args[1] {
	case "instance":
		err = postgres.InstanceCommand{Dir: os.Args[3], Guard: len(os.Args) > 4 && os.Args[4] == "--guard", Log: log}.Run(ctx)
	case "cluster-manager":
		err = postgres.WatchCommand{Dir: os.Args[3], Log: log}.Run(ctx)
	default:
		err = Run(ctx, Options{
			Store: backend.StoreOptions{DSN: filepath.Join(os.Args[3], "pawl.db")}, Listen: "127.0.0.1:0", Logger: log,
			SharedStorage: &SharedStorage{Dir: filepath.Join(os.Args[3], "shared")},
			Ready:         func(addr net.Addr, _, _ int) { fmt.Printf("http://%s\n", addr) },
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// fixture is a server as a process, and its clusters.
type fixture struct {
	t       *testing.T
	dir     string
	server  *exec.Cmd
	objects control.Objects
}

var orders = control.Ref{Kind: sharedstorage.Kind, Namespace: "default", Name: "orders"}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if versions, err := local.Installed(); err != nil || len(versions) == 0 {
		t.Skip("PostgreSQL's server programs are missing: apt-get install postgresql")
	}
	shm := "/dev/shm" // what is tested is processes that end, not machines
	if _, err := os.Stat(shm); err != nil {
		shm = ""
	}
	dir, err := os.MkdirTemp(shm, "pawl-ss-serve-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // the user of PostgreSQL enters it
	}
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{t: t, dir: dir}
	t.Cleanup(func() {
		_ = h.server.Process.Kill() // it may have ended
		for pid, line := range h.processes() {
			t.Errorf("process %d is left: %s", pid, line)
			_ = syscall.Kill(pid, syscall.SIGKILL) // it is the test's own
		}
		_ = os.RemoveAll(dir)
	})
	h.start()
	return h
}

// start starts a server on the store.
func (h *fixture) start() {
	h.t.Helper()
	h.server = exec.Command(os.Args[0], "serve-test", "--dir", h.dir)
	log, err := os.OpenFile(filepath.Join(h.dir, "server.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	h.must(err)
	defer log.Close()
	out, err := h.server.StdoutPipe()
	h.must(err)
	h.server.Stderr = log
	h.must(h.server.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	h.must(err)
	remote, err := backend.OpenRemote(client.Options{URL: strings.TrimSpace(url)})
	h.must(err)
	h.t.Cleanup(func() { _ = remote.Close() })
	h.objects, err = remote.Objects()
	h.must(err)
}

func (h *fixture) must(err error) {
	h.t.Helper()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(h.dir, "server.log"))
		h.t.Fatalf("%v\n%s", err, log[max(0, len(log)-4000):])
	}
}

// processes are those of this fixture, beside the server.
func (h *fixture) processes() map[int]string {
	found := map[int]string{}
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		line, err := os.ReadFile(name)
		var pid int
		if _, bad := fmt.Sscanf(name, "/proc/%d/cmdline", &pid); err == nil && bad == nil && pid != h.server.Process.Pid && strings.Contains(string(line), filepath.Join(h.dir, "shared")) {
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}

// until waits for a status.
func (h *fixture) until(what string, holds func(o control.Object, s v1alpha1.SharedStorageClusterStatus) bool) v1alpha1.SharedStorageClusterStatus {
	h.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // of processes, in real time
		o, err := h.objects.Get(h.t.Context(), orders)
		h.must(err)
		var s v1alpha1.SharedStorageClusterStatus
		if len(o.Status) > 0 {
			h.must(json.Unmarshal(o.Status, &s))
		}
		if holds(o, s) {
			return s
		}
		if time.Now().After(deadline) {
			h.must(fmt.Errorf("%s: not within 3 m: %s", what, o.Status))
		}
	}
}

func (h *fixture) running(readers int) v1alpha1.SharedStorageClusterStatus {
	h.t.Helper()
	return h.until(fmt.Sprintf("running with %d readers", readers), func(o control.Object, s v1alpha1.SharedStorageClusterStatus) bool {
		healthy := 0
		for _, i := range s.Instances {
			if i.Health == "Healthy" {
				healthy++
			}
		}
		return s.State == "Running" && s.ObservedGeneration == o.Generation && int(s.Readers) == readers && healthy == readers+1
	})
}

// sql queries one instance.
func (h *fixture) sql(at v1alpha1.InstanceStatus, query string) string {
	h.t.Helper()
	return h.sqlOf(orders, at, query)
}

func (h *fixture) sqlOf(cluster control.Ref, at v1alpha1.InstanceStatus, query string) string {
	h.t.Helper()
	placement, err := local.Open(local.Options{Dir: filepath.Join(h.dir, "shared")})
	h.must(err)
	password, err := placement.Password(port.Ref{Namespace: cluster.Namespace, Name: cluster.Name})
	h.must(err)
	c, err := pgx.Connect(h.t.Context(), fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable", at.Address, at.Port, password))
	h.must(err)
	defer c.Close(h.t.Context())
	var answer string
	if err := c.QueryRow(h.t.Context(), query).Scan(&answer); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err.Error()
	}
	return answer
}

// example is the cluster that people apply first.
func example(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../../../../examples/sharedstorage/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     map[string]any
	}
	if err := yaml.Unmarshal(data, &doc); err != nil || doc.Kind != orders.Kind || doc.Metadata.Name != orders.Name {
		t.Fatalf("%+v: %v", doc, err)
	}
	return doc.Spec
}

func (h *fixture) apply(spec map[string]any) error {
	h.t.Helper()
	raw, err := json.Marshal(spec)
	h.must(err)
	_, err = h.objects.Apply(h.t.Context(), control.Object{Ref: orders, Spec: raw})
	return err
}

// The whole life of a cluster of real processes: the server is killed in the
// middle of its creation, and another one goes on; it answers SQL, grows, gets
// another writer without losing a row, and leaves nothing.
func TestASharedStorageClusterLivesWithoutKubernetes(t *testing.T) {
	h := newFixture(t)
	spec := example(t)
	h.must(h.apply(spec))
	h.until("an instance", func(_ control.Object, s v1alpha1.SharedStorageClusterStatus) bool { return len(s.Instances) > 0 })
	h.must(h.server.Process.Kill())
	_ = h.server.Wait() // it was killed
	h.start()
	s := h.running(2)

	if got := h.sql(s.Instances[s.Writer], "CREATE TABLE rows (n text)"); got != "" {
		t.Fatal(got)
	}
	if got := h.sql(s.Instances[s.Writer], "INSERT INTO rows VALUES ('one') RETURNING n"); got != "one" {
		t.Fatal(got)
	}
	for id, at := range s.Instances {
		h.eventually("the row on "+id, func() bool { return h.sql(at, "SELECT n FROM rows") == "one" })
		if got := h.sql(at, "INSERT INTO rows SELECT 'two' WHERE false RETURNING n"); id != s.Writer && !strings.Contains(got, "read-only") {
			t.Errorf("reader %s takes writes: %s", id, got)
		}
	}

	spec["storage"] = map[string]any{"size": "1Mi"}
	if err := h.apply(spec); fault.Of(err).Code != port.StorageShrink.Code {
		t.Errorf("a volume that shrinks: %v", err)
	}
	spec["storage"], spec["readers"] = map[string]any{"size": "1Gi", "onDelete": "Delete"}, 3
	h.must(h.apply(spec))
	s = h.running(3)

	before := s.Writer
	_, err := control.Modify(t.Context(), h.objects, orders, func(o *control.Object) error {
		o.Annotations = map[string]string{sharedstorage.Prefix + sharedstorage.SwitchWriter: "2#ticket-1"}
		return nil
	})
	h.must(err)
	s = h.until("another writer", func(_ control.Object, s v1alpha1.SharedStorageClusterStatus) bool {
		return len(s.Requests) == 1 && s.Requests[0].ID == "ticket-1" && s.Requests[0].State == sharedstorage.Done && s.State == "Running" && s.Writer == "2"
	})
	if before != "1" || h.sql(s.Instances["2"], "INSERT INTO rows VALUES ('two') RETURNING n") != "two" || h.sql(s.Instances["2"], "SELECT string_agg(n, ',' ORDER BY n) FROM rows") != "one,two" {
		t.Errorf("the rows of writer %s are not those of writer 2", before)
	}

	_, err = h.objects.Delete(t.Context(), orders, 0)
	h.must(err)
	h.eventually("the cluster is gone", func() bool {
		_, err := h.objects.Get(t.Context(), orders)
		return errors.Is(err, control.NotFound)
	})
	if _, err := os.Stat(filepath.Join(h.dir, "shared", "default", "orders")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
	h.eventually("its processes are gone", func() bool { return len(h.processes()) == 0 })
	h.must(h.server.Process.Signal(syscall.SIGTERM))
	h.must(h.server.Wait())
}

func (h *fixture) eventually(what string, holds func() bool) {
	h.t.Helper()
	h.eventuallyWithin(time.Minute, what, holds)
}

func (h *fixture) eventuallyWithin(limit time.Duration, what string, holds func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.must(fmt.Errorf("%s: not within %s", what, limit))
		}
	}
}
