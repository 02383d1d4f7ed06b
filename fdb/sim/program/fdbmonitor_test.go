package program_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// monitored is a pod of the split image: fdbmonitor with five servers, below a root of its own.
type monitored struct {
	*served
	root    string
	monitor *running
}

const monitorConf = `[general]
kill_on_configuration_change = false
restart_delay = 60

`

func newMonitored(t *testing.T) *monitored {
	m := &monitored{served: serve(t, world.Options{Seed: 3, Speed: 10, Model: shape}, "sample:first@127.0.0.1:4501,127.0.0.1:4502,127.0.0.1:4503"), root: t.TempDir()}
	write(t, m.root+"/var/dynamic-conf/fdb.cluster", m.first.String()+"\n")
	conf := monitorConf
	for n, class := range []string{"storage", "storage", "storage", "log", "log"} {
		conf += fmt.Sprintf(`[fdbserver.%d]
command = /usr/bin/fdbserver
cluster_file = /var/fdb/data/fdb.cluster
seed_cluster_file = /var/dynamic-conf/fdb.cluster
public_address = 127.0.0.1:%d
class = %s
logdir = /var/log/fdb-trace-logs
datadir = /var/fdb/data/$ID
locality_process_id = sample-$ID
locality_instance_id = sample-$ID
locality_zoneid = zone-$ID
locality_machineid = zone-$ID
knob_disable_posix_kernel_aio = 1

`, n+1, 4501+n, class)
	}
	write(t, m.conf(), conf)
	for _, folder := range []string{"/var/fdb/data", "/var/run"} {
		if err := os.MkdirAll(m.root+folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(image(t, "7.3.69"), "fdbmonitor"), "--conffile", "/var/dynamic-conf/fdbmonitor.conf", "--lockfile", "/var/run/fdbmonitor.pid")
	cmd.Env = m.environ("CONTAINER_ROOT=" + m.root)
	m.monitor = m.start(cmd)
	return m
}

func (m *monitored) conf() string        { return m.root + "/var/dynamic-conf/fdbmonitor.conf" }
func (m *monitored) clusterFile() string { return m.root + "/var/fdb/data/fdb.cluster" }

// processID is the name of the data folder of a server.
func (m *monitored) processID(n int) string {
	return strings.TrimSpace(read(m.t, fmt.Sprintf("%s/var/fdb/data/%d/processId", m.root, n)))
}

var launched = regexp.MustCompile(`Launching /usr/bin/fdbserver \(([0-9]+)\) for fdbserver\.([0-9])`)

// pid is that of a server as the log tells it last.
func (m *monitored) pid(n int) int {
	m.t.Helper()
	pid := 0
	for _, found := range launched.FindAllStringSubmatch(m.monitor.log.String(), -1) {
		if found[2] == strconv.Itoa(n) {
			pid, _ = strconv.Atoi(found[1])
		}
	}
	if pid == 0 {
		m.t.Fatalf("server %d was not launched:\n%s", n, m.monitor.log.String())
	}
	return pid
}

// starts counts how often a server has started, as the world knows.
func starts(c *sim.Cluster, name string) (count int) {
	for _, line := range c.Transcript() {
		if strings.Contains(line, name) && strings.Contains(line, " starts: ") {
			count++
		}
	}
	return count
}

// reporting counts the processes in the status.
func reporting(c *sim.Cluster) int {
	s, err := fdb.ParseStatus(c.Status(c.Connection(), c.Protocol()))
	if err != nil {
		return 0
	}
	return len(s.Cluster.Processes)
}

func healthy(c *sim.Cluster) bool { return c.Available() && c.Unhealthy() == "" }

// eventually waits for something that no event tells, such as a file.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// TestMonitor: five servers under fdbmonitor are one database, and keep what a pod keeps.
func TestMonitor(t *testing.T) {
	t.Parallel()
	m := newMonitored(t)
	m.reach("five servers report", func(c *sim.Cluster) bool { return reporting(c) == 5 })
	eventually(t, "the seed has become the cluster file", func() bool { return strings.Contains(read(nil, m.clusterFile()), "@127.0.0.1:4501") })
	m.do("7.3.69", m.clusterFile(), "configure new double ssd")
	m.reach("healthy", healthy)

	// kill: it ends with 0 and is started at once, with its shards.
	id, before := m.processID(1), m.pid(1)
	m.do("7.3.69", m.clusterFile(), "kill; kill 127.0.0.1:4501; sleep 0.1")
	m.reach("server 1 is back", func(c *sim.Cluster) bool { return starts(c, "sample-1/") == 2 && healthy(c) && reporting(c) == 5 })
	if now := m.pid(1); now == before || !strings.Contains(m.monitor.log.String(), "exited 0, restarting in 0 seconds") {
		t.Errorf("process %d, then %d:\n%s", before, now, m.monitor.log.String())
	}
	if m.processID(1) != id {
		t.Error("the server has another data folder")
	}
	m.Do(m.first, func(c *sim.Cluster) {
		if c.Holds(id).Shards == 0 {
			t.Error("the server that came back has no shards")
		}
	})

	// New coordinators: each server rewrites its file.
	m.do("7.3.69", m.clusterFile(), "coordinators 127.0.0.1:4502 127.0.0.1:4503 127.0.0.1:4504")
	eventually(t, "the cluster file has the new coordinators", func() bool {
		text := read(nil, m.clusterFile())
		return strings.HasPrefix(text, "# DO NOT EDIT!\n") && strings.Contains(text, "127.0.0.1:4504")
	})
	m.reach("healthy", healthy)

	// A data folder that is wiped has lost what was in it.
	old := m.processID(3)
	if err := os.RemoveAll(m.root + "/var/fdb/data/3"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(m.pid(3), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.reach("server 3 is back, and has new copies", func(c *sim.Cluster) bool { return starts(c, "sample-3/") == 2 && healthy(c) && reporting(c) == 5 })
	m.Do(m.first, func(c *sim.Cluster) {
		if c.Holds(old).Shards != 0 || !strings.Contains(strings.Join(c.Transcript(), "\n"), "the data folder "+old+" is erased") {
			t.Error("the old data folder still holds something")
		}
	})
	if m.processID(3) == old {
		t.Error("the wiped folder has its old name")
	}

	// A section that goes is deconfigured and its server goes on; then it all ends.
	conf := read(t, m.conf())
	write(t, m.conf(), conf[:strings.Index(conf, "[fdbserver.5]")])
	eventually(t, "fdbmonitor has read its configuration", func() bool { return strings.Contains(m.monitor.log.String(), "Deconfigured fdbserver.5") })
	var pids []int
	for n := 1; n <= 5; n++ {
		pids = append(pids, m.pid(n))
	}
	if err := m.monitor.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-m.monitor.exited
	if code := m.monitor.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("fdbmonitor ends with %d", code)
	}
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("server %d is left behind", pid)
		}
	}
	if _, err := os.Stat(m.root + "/var/run/fdbmonitor.pid"); err == nil {
		t.Error("the lock file is left behind")
	}
}

// TestServerProtocol: servers of another protocol do not take part until all coordinators speak it.
func TestServerProtocol(t *testing.T) {
	t.Parallel()
	s := serve(t, world.Options{Seed: 4, Model: shape}, "sample:first@127.0.0.1:4601")
	server := func(v string, port int) *running {
		folder := t.TempDir()
		file := write(t, folder+"/fdb.cluster", s.first.String()+"\n")
		cmd := exec.Command(filepath.Join(image(t, v), "fdbserver"), "-p", fmt.Sprintf("127.0.0.1:%d", port), "-C", file, "-d", folder+"/data", "-c", "storage",
			fmt.Sprintf("--locality_instance_id=storage-%d", port))
		cmd.Env = s.environ()
		return s.start(cmd)
	}
	server("7.3.69", 4601)
	s.reach("one reports", func(c *sim.Cluster) bool { return reporting(c) == 1 })
	other := server("7.4.6", 4602)
	s.reach("the other one runs", func(c *sim.Cluster) bool { return starts(c, "storage-4602/") == 1 })
	s.Do(s.first, func(c *sim.Cluster) { c.Advance(time.Minute) })
	s.Do(s.first, func(c *sim.Cluster) {
		if reporting(c) != 1 {
			t.Error("a server of another protocol takes part")
		}
	})
	if other.ended() {
		t.Error("it has ended")
	}
}

// TestServerLocked: two servers cannot share a data folder.
func TestServerLocked(t *testing.T) {
	t.Parallel()
	s := serve(t, world.Options{Model: shape}, "sample:first@127.0.0.1:4711")
	folder := t.TempDir()
	file := write(t, folder+"/fdb.cluster", s.first.String()+"\n")
	args := []string{"fdbserver", "-p", "127.0.0.1:4711", "-C", file, "-d", folder + "/data"}
	cmd := exec.Command(filepath.Join(image(t, "7.3.69"), "fdbserver"), args[1:]...)
	cmd.Env = s.environ()
	s.start(cmd)
	s.reach("it runs", func(c *sim.Cluster) bool { return reporting(c) == 1 })
	if exit, _, stderr := (call{version: "7.3.69", args: args}).run(t); exit != 10 || stderr != "Error: Unable to lock the file\n" {
		t.Errorf("exit %d: %s", exit, stderr)
	}
	write(t, folder+"/file", "")
	args[len(args)-1] = folder + "/file/data"
	if exit, _, stderr := (call{version: "7.3.69", args: args}).run(t); exit != 10 || stderr != "Error: Disk i/o operation failed\n" {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}

// TestServerAlone: without a world a server runs and joins nothing.
func TestServerAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, world.Options{Model: shape}, "sample:first@127.0.0.1:4701")
	folder := t.TempDir()
	seed := write(t, folder+"/seed", s.first.String()+"\n")
	cmd := exec.Command(filepath.Join(image(t, "7.3.69"), "fdbserver"), "-p", "127.0.0.1:4701", "-C", folder+"/fdb.cluster", "--seed_cluster_file", seed, "-d", folder+"/data")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	r := s.start(cmd)
	eventually(t, "it has opened its data folder", func() bool { return len(read(nil, folder+"/data/processId")) > 32 })
	exit, _, stderr := call{version: "7.3.69", args: []string{"fdbcli", "-C", seed, "--exec", "get a", "--timeout", "1"}}.run(t)
	if exit != 1 || stderr != "Specified timeout reached -- exiting...\n" {
		t.Errorf("exit %d: %s", exit, stderr)
	}
	if r.ended() {
		t.Error("it has ended")
	}
	if _, err := os.Stat(folder + "/fdb.cluster"); err == nil {
		t.Error("the seed has become the cluster file without a connection")
	}
}
