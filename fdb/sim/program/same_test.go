package program_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// twins are two databases made from one seed: one is called as a library, the other one through programs.
type twins struct {
	library *sim.Cluster
	world   *world.World
	version string
	first   fdb.Connection
	file    string // the cluster file of the programs
	servers []sim.Server
}

func newTwins(t testing.TB, seed uint64, v string) *twins {
	t.Helper()
	first := fdb.Connection{Description: "sample", ID: "first"}
	tw := &twins{version: v, first: first}
	for i, class := range []fdb.Class{
		fdb.ClassStorage, fdb.ClassStorage, fdb.ClassStorage, fdb.ClassStorage, fdb.ClassLog, fdb.ClassLog, fdb.ClassLog, fdb.ClassStateless, fdb.ClassStateless, fdb.ClassStateless,
	} {
		name := fmt.Sprintf("%s-%d", class, i+1)
		s := sim.Server{
			Name: name, Folder: name, Class: class, Version: version(v), Addresses: []fdb.Address{{Host: fmt.Sprintf("10.1.0.%d", i+1), Port: 4501}},
			Locality: map[string]string{fdb.InstanceLocality: name, fdb.ZoneLocality: "node-" + name},
		}
		if i < 3 {
			tw.first.Coordinators = append(tw.first.Coordinators, s.Addresses[0])
		}
		tw.servers = append(tw.servers, s)
	}
	model := sim.Options{Shards: 8, DiskBytes: 2400 << 20, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	tw.world = world.New(world.Options{Seed: seed, Virtual: true, Model: model})
	t.Cleanup(tw.world.Close)
	model.Seed = world.SeedOf(seed, tw.first)
	model.Exits = func(string) {} // servers of a world end and are started by somebody
	tw.library = sim.New(model)
	tw.file = write(t, filepath.Join(t.TempDir(), "fdb.cluster"), tw.first.String()+"\n")
	tw.both(func(c *sim.Cluster) {
		for _, s := range tw.servers {
			s.Connection = tw.first
			c.Start(s)
		}
		c.Advance(5 * time.Second)
	})
	return tw
}

// both does the same to both.
func (tw *twins) both(do func(*sim.Cluster)) {
	do(tw.library)
	tw.world.Do(tw.first, do)
}

// restart starts the servers that were killed.
func (tw *twins) restart(c *sim.Cluster) {
	for _, s := range tw.servers {
		if _, running := c.Running(s.Name); !running {
			c.Start(s)
		}
	}
}

// compare runs a call both ways. over: the call would have to be killed.
func (tw *twins) compare(t fataler, c fdb.Call, through func(args []string) (int, string, string)) (over bool) {
	c.Version, c.ClusterFile = version(tw.version), tw.file
	argv, kill := c.Arguments()
	if argv == nil {
		t.Fatalf("%v is refused", c)
	}
	from, err := fdb.ParseConnection(tw.content())
	if err != nil {
		t.Fatalf("%v", err)
	}
	want := tw.library.Run(sim.Run{Tool: c.Tool(), Argv: argv, Version: c.Version, Connection: from, Kill: kill})
	if want.Exit < 0 {
		return true
	}
	exit, stdout, stderr := through(append([]string{string(c.Tool())}, argv...))
	if exit != want.Exit || stdout != want.Stdout || stderr != want.Stderr {
		t.Fatalf("%s %v\nthrough the program: exit %d\n%s%s\nthe library: exit %d\n%s%s", c.Command, c.Targets, exit, stdout, stderr, want.Exit, want.Stdout, want.Stderr)
	}
	a, b := fdb.Judge(c, c.Version, exit, stdout, stderr), fdb.Judge(c, c.Version, want.Exit, want.Stdout, want.Stderr)
	if a != b {
		t.Fatalf("%s: the program's answer is judged as %v, the library's as %v", c.Command, a, b)
	}
	now, err := fdb.ParseConnection(tw.content())
	if err != nil || c.Command != fdb.CommandVersion && c.Command != fdb.CommandDeleteBackup && now.String() != want.Connection.String() {
		t.Fatalf("%s leaves the cluster file %s, and the library %s", c.Command, now, want.Connection)
	}
	return false
}

func (tw *twins) content() string { return read(nil, tw.file) }

type fataler interface {
	Fatalf(format string, args ...any)
}

// TestSame: a call gives the same through the library and through the program.
func TestSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.SampledFrom([]string{"7.1.67", "7.3.69", "7.4.6"}).Draw(rt, "version")
		tw := newTwins(t, rapid.Uint64().Draw(rt, "seed"), v)
		defer tw.world.Close()
		through := func(args []string) (int, string, string) {
			return call{version: v, args: args, world: tw.world}.run(t)
		}
		if rapid.Bool().Draw(rt, "made") {
			tw.compare(rt, fdb.Configure(fdb.Configuration{}, true), through)
			tw.both(func(c *sim.Cluster) { c.Advance(time.Minute) })
		}
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			if rapid.IntRange(0, 3).Draw(rt, "accident") == 0 {
				n := rapid.IntRange(0, len(tw.servers)-1).Draw(rt, "crash")
				tw.both(func(c *sim.Cluster) { c.Crash(tw.servers[n].Name) })
			}
			c := drawCall(rt)
			c.Timeout = 20 * time.Second
			agents := rapid.IntRange(0, 1).Draw(rt, "agents")
			tw.both(func(c *sim.Cluster) { c.SetAgents(agents) })
			if tw.compare(rt, c, through) {
				return
			}
			wait := time.Duration(rapid.IntRange(0, 120).Draw(rt, "wait")) * time.Second
			tw.both(func(c *sim.Cluster) {
				tw.restart(c)
				c.Advance(wait)
			})
		}
	})
}

const backupURL = "blobstore://minio@minio:9000/b?bucket=fdb-backups"

func drawCall(rt *rapid.T) fdb.Call {
	targets := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"locality_instance_id:storage-1", "locality_instance_id:log-5", "locality_instance_id:nobody", "10.1.0.2", "10.1.0.6:4501", "10.7.7.7:4501",
	}), 1, 3, rapid.ID[string]).Draw(rt, "targets")
	addresses := rapid.SampledFrom([][]string{{"10.1.0.7:4501"}, {"10.1.0.8:4501", "10.1.0.9:4501"}, {"10.7.7.7:4501"}}).Draw(rt, "addresses")
	return rapid.SampledFrom([]fdb.Call{
		fdb.Exclude(targets, true), fdb.Exclude(targets, false), fdb.Include(targets), fdb.Kill(addresses, false), fdb.Kill(addresses, true),
		fdb.MaintenanceOn("node-storage-1", 10*time.Minute), fdb.MaintenanceOff(),
		fdb.Coordinators([]string{"10.1.0.2:4501", "10.1.0.3:4501", "10.1.0.4:4501"}), fdb.Coordinators([]string{"10.7.7.7:4501"}),
		fdb.Configure(fdb.Configuration{RedundancyMode: fdb.Triple}, false), fdb.Configure(fdb.Configuration{StorageEngine: "ssd-rocksdb-v1"}, false),
		fdb.Configure(fdb.Configuration{}, true), fdb.ReadStatus(), fdb.ReadConnection(), fdb.ReadVersion(),
		fdb.StartBackup(fdb.Backup{Tag: "default", URL: backupURL}), fdb.DiscontinueBackup("default"), fdb.AbortBackup("default"), fdb.PauseBackups(),
		fdb.ResumeBackups(), fdb.ModifyBackup(fdb.Backup{Tag: "default", URL: backupURL, SnapshotPeriodSeconds: 3600}), fdb.DeleteBackup(backupURL),
		fdb.ReadBackupStatus("default"), fdb.StartRestore(fdb.Restore{Tag: "r1", URL: backupURL}), fdb.ReadRestoreStatus("r1"), fdb.AbortRestore("r1"),
	}).Draw(rt, "call")
}

// TestSameProcess: and so it is through processes.
func TestSameProcess(t *testing.T) {
	for _, v := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		tw := newTwins(t, 7, v)
		s := &served{World: tw.world, t: t, first: tw.first}
		s.listen()
		through := func(args []string) (int, string, string) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(image(t, v), args[0]), args[1:]...)
			cmd.Env = s.environ()
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run() // the exit code is compared
			return cmd.ProcessState.ExitCode(), out.String(), errs.String()
		}
		for _, c := range []fdb.Call{
			fdb.ReadVersion(), fdb.ReadStatus(), fdb.Configure(fdb.Configuration{}, true), fdb.Configure(fdb.Configuration{}, true), fdb.ReadConnection(),
			fdb.Exclude([]string{"locality_instance_id:storage-1"}, true), fdb.Include([]string{"locality_instance_id:storage-1"}),
			fdb.Coordinators([]string{"10.1.0.2:4501", "10.1.0.3:4501", "10.1.0.4:4501"}), fdb.Kill([]string{"10.7.7.7:4501"}, false),
			fdb.StartBackup(fdb.Backup{Tag: "default", URL: backupURL}), fdb.ReadBackupStatus("default"), fdb.ReadRestoreStatus("r1"), fdb.ReadStatus(),
		} {
			if tw.compare(t, c, through) {
				t.Fatalf("%s hangs", c.Command)
			}
			tw.both(func(c *sim.Cluster) { c.Advance(time.Minute) })
		}
	}
}
