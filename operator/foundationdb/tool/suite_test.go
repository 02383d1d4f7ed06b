package tool

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/program"
	"github.com/pawl-dev/pawl/fdb/sim/world"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/port/porttest"
)

// simulated is a database whose tools are those of fdbsim, each a process of its own.
type simulated struct {
	*Database
	world *world.World
	at    port.Endpoint
}

func newSimulated(t testing.TB, v fdb.Version, o Options) *simulated {
	t.Helper()
	short, err := os.MkdirTemp("", "w") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	socket := filepath.Join(short, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &simulated{world: world.New(world.Options{Seed: 1, Virtual: true}), at: port.Endpoint{Connection: endpoint().Connection, Version: v}}
	var served sync.WaitGroup
	served.Go(func() { _ = s.world.Serve(listener) }) // until it is closed
	t.Cleanup(func() {
		listener.Close()
		served.Wait()
		s.world.Close()
	})
	s.world.Do(s.at.Connection, func(c *sim.Cluster) { populate(c, s.at) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	if err := program.Install(self, v, filepath.Join(tools, v.Short())); err != nil {
		t.Fatal(err)
	}
	o.Folder, o.TempDir = tools, t.TempDir()
	o.Environment = []string{world.AddressVariable + "=" + socket, "GORACE=atexit_sleep_ms=0"}
	if s.Database, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// The suite of the port, by the programs of fdbsim in each line of versions.
func TestDatabase(t *testing.T) {
	for _, v := range []fdb.Version{{Major: 7, Minor: 1, Patch: 67}, {Major: 7, Minor: 3, Patch: 69}, {Major: 7, Minor: 4, Patch: 6}} {
		t.Run(v.Short(), func(t *testing.T) {
			s := newSimulated(t, v, Options{LogDir: t.TempDir(), TraceFormat: "json"})
			porttest.Database(t, porttest.DatabaseHarness{
				Open: func(testing.TB) porttest.DatabaseFixture { return porttest.DatabaseFixture{Database: s, At: s.at} },
				Wait: func(testing.TB) { s.world.Do(s.at.Connection, func(c *sim.Cluster) { c.Advance(time.Second) }) },
			})
		})
	}
}

// Backup and restore by processes: the state is read back by the tag, and no secret is needed in an argument.
func TestBackupAndRestore(t *testing.T) {
	s := newSimulated(t, endpoint().Version, Options{})
	ctx := t.Context()
	url, err := fdb.BackupURL(fdb.BlobStore{AccountName: "key:s3cret@store.example", Bucket: "b"}, "sample")
	if err != nil {
		t.Fatal(err)
	}
	s.world.Do(s.at.Connection, func(c *sim.Cluster) { c.SetAgents(2) })
	ok := func(call fdb.Call) string {
		t.Helper()
		a := s.Run(ctx, s.at, call)
		if a.Outcome != fdb.Ok {
			t.Fatalf("%s is %s", call.Command, a.Result)
		}
		return a.Stdout
	}
	ok(fdb.StartBackup(fdb.Backup{Tag: "daily", URL: url}))
	for range 100 {
		s.world.Do(s.at.Connection, func(c *sim.Cluster) { c.Advance(time.Minute) })
		status, err := fdb.ParseBackupStatus([]byte(ok(fdb.ReadBackupStatus("daily"))))
		if err != nil {
			t.Fatal(err)
		}
		if status.URL != fdb.WithoutSecret(url) {
			t.Errorf("the backup goes to %s", status.URL)
		}
		if status.Restorable {
			break
		}
	}
	ok(fdb.DiscontinueBackup("daily"))
	s.world.Do(s.at.Connection, func(c *sim.Cluster) { c.Advance(time.Hour) })
	if a := s.Run(ctx, s.at, fdb.DiscontinueBackup("daily")); a.Outcome != fdb.Ok { // there is none
		t.Errorf("the second discontinue is %s", a.Result)
	}
	if r := s.Transact(ctx, s.at, nil, func(fdb.Values) ([]fdb.Write, error) {
		return []fdb.Write{fdb.Clear(fdb.Range{Begin: "", End: "\xff"})}, nil
	}); r.Outcome != fdb.Ok {
		t.Fatalf("the wipe is %s", r)
	}
	ok(fdb.StartRestore(fdb.Restore{Tag: "again", URL: url}))
	if state := fdb.RestoreStateOf(ok(fdb.ReadRestoreStatus("again")), "again"); state == fdb.RestoreUnknown {
		t.Errorf("the restore is %s", state)
	}
	if state := fdb.RestoreStateOf(ok(fdb.ReadRestoreStatus("other")), "other"); state != fdb.RestoreUnknown {
		t.Errorf("a restore that was never started is %s", state)
	}
}

// Many count at the same time: nothing is counted twice, and nothing is lost.
func TestTransactionsAtTheSameTime(t *testing.T) {
	s := newSimulated(t, endpoint().Version, Options{Processes: 5})
	counter := fdb.LockPrefix + "/counter"
	results := make(chan fdb.Result, 20)
	var calls sync.WaitGroup
	for range cap(results) {
		calls.Go(func() {
			results <- s.Transact(t.Context(), s.at, []fdb.Range{fdb.SingleKey(counter)}, func(v fdb.Values) ([]fdb.Write, error) {
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
	var got string
	s.world.Do(s.at.Connection, func(c *sim.Cluster) { got = keysOf(c)[counter] })
	if got != strconv.Itoa(counted) || counted < 5 {
		t.Errorf("%d have counted up to %s", counted, got)
	}
}

// With FDB_BIN=<folder>, where <folder>/7.3.69 holds fdbserver, fdbcli, fdbbackup and fdbrestore, the suite
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
	o := Options{Folder: tools, TempDir: t.TempDir(), LogDir: filepath.Join(dir, "log")}
	if address, ok := os.LookupEnv(world.AddressVariable); ok { // the programs may be those of fdbsim
		o.Environment = append(o.Environment, world.AddressVariable+"="+address)
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	at := port.Endpoint{Connection: connection(fdb.Describe("real-"+v.String()) + ":first@" + freeAddress(t)), Version: v}
	startServer(t, filepath.Join(bin, "fdbserver"), dir, at, o.Environment)
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
func startServer(t *testing.T, program, dir string, at port.Endpoint, environment []string) {
	t.Helper()
	file := filepath.Join(dir, "fdb.cluster")
	if err := os.WriteFile(file, []byte(at.Connection.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := at.Connection.Coordinators[0].String()
	cmd := commandIn(dir, program, "-p", address, "-C", file, "-d", filepath.Join(dir, "data"), "-L", dir)
	cmd.Env = append(cmd.Env, environment...)
	p, err := start(t.Context(), cmd, 1<<20)
	if err != nil {
		t.Fatal(errors.Join(fmt.Errorf("%s does not start", program), err))
	}
	t.Cleanup(func() { p.endWithin(0) })
}
