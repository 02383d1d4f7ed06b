package program_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// unified is a pod of the unified image: the launcher with two servers, below a root of its own.
type unified struct {
	*served
	api      *apiServer
	root     string
	launcher *running
}

// unifiedConfig is what the operator writes, with one more argument.
func unifiedConfig(version, knob string) string {
	return `{"version":"` + version + `","arguments":[
		{"value":"--cluster_file=/var/fdb/data/fdb.cluster"},
		{"value":"--seed_cluster_file=/var/dynamic-conf/fdb.cluster"},
		{"type":"Concatenate","values":[{"value":"--public_address=["},{"type":"IPList","source":"FDB_PUBLIC_IP","ipFamily":4},{"value":"]:"},{"type":"ProcessNumber","multiplier":2,"offset":4499}]},
		{"value":"--class=storage"},
		{"value":"--logdir=/var/log/fdb-trace-logs"},
		{"type":"Concatenate","values":[{"value":"--datadir=/var/fdb/data/"},{"type":"ProcessNumber"}]},
		{"type":"Concatenate","values":[{"value":"--locality_process_id="},{"type":"Environment","source":"FDB_INSTANCE_ID"},{"value":"-"},{"type":"ProcessNumber"}]},
		{"type":"Concatenate","values":[{"value":"--locality_instance_id="},{"type":"Environment","source":"FDB_INSTANCE_ID"}]},
		{"type":"Concatenate","values":[{"value":"--locality_zoneid="},{"type":"Environment","source":"FDB_ZONE_ID"}]},
		{"type":"Concatenate","values":[{"value":"--locality_data_hall="},{"type":"Environment","source":"NODE_LABEL_TOPOLOGY_KUBERNETES_IO_ZONE"}]},
		{"value":"--knob_custom=` + knob + `"}]}`
}

func newUnified(t *testing.T) *unified {
	u := &unified{
		served: serve(t, world.Options{Seed: 5, Speed: 10, Model: shape}, "sample:first@127.0.0.1:4501"), root: t.TempDir(),
		api: newAPIServer(t, map[string]string{"topology.kubernetes.io/zone": "hall-a"}),
	}
	write(t, u.root+"/var/dynamic-conf/fdb.cluster", u.first.String()+"\n")
	u.configure(unifiedConfig("7.3.69", "1"))
	for _, folder := range []string{"/var/fdb/data", "/var/fdb/shared-binaries", "/var/log/fdb-trace-logs"} {
		if err := os.MkdirAll(u.root+folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(image(t, "7.3.69"), "fdb-kubernetes-monitor"), "--input-dir", u.root+"/var/dynamic-conf", "--log-path", "/var/log/fdb-trace-logs/monitor.log")
	cmd.Env = u.environ(append(u.api.account(u.root), "CONTAINER_ROOT="+u.root, "PROCESS_COUNT=2", "ENABLE_NODE_WATCH=true",
		"FDB_PUBLIC_IP=fd00::1,127.0.0.1", "FDB_INSTANCE_ID=storage-1", "FDB_ZONE_ID=zone-1")...)
	u.launcher = u.start(cmd)
	return u
}

func (u *unified) configure(text string) {
	file := u.root + "/var/dynamic-conf/config.json"
	write(u.t, file+".new", text)
	if err := os.Rename(file+".new", file); err != nil {
		u.t.Fatal(err)
	}
}

func (u *unified) clusterFile() string { return u.root + "/var/fdb/data/fdb.cluster" }

// commandLine is that of a server that reports; empty: none.
func commandLine(c *sim.Cluster, instance string) string {
	s, err := fdb.ParseStatus(c.Status(c.Connection(), c.Protocol()))
	if err != nil {
		return ""
	}
	for _, p := range s.Cluster.Processes {
		if p.Locality["process_id"] == instance {
			return p.CommandLine
		}
	}
	return ""
}

// TestLauncher: servers under the launcher, from the first configuration to an upgrade.
func TestLauncher(t *testing.T) {
	t.Parallel()
	u := newUnified(t)
	u.reach("two servers report", func(c *sim.Cluster) bool { return reporting(c) == 2 })
	u.Do(u.first, func(c *sim.Cluster) {
		want := "/usr/bin/fdbserver --cluster_file=/var/fdb/data/fdb.cluster --seed_cluster_file=/var/dynamic-conf/fdb.cluster --public_address=[127.0.0.1]:4503 " +
			"--class=storage --logdir=/var/log/fdb-trace-logs --datadir=/var/fdb/data/2 --locality_process_id=storage-1-2 --locality_instance_id=storage-1 " +
			"--locality_zoneid=zone-1 --locality_data_hall=hall-a --knob_custom=1"
		if got := commandLine(c, "storage-1-2"); got != want {
			t.Errorf("the command line is\n%s\nand should be\n%s", got, want)
		}
	})
	eventually(t, "the launcher has told its configuration", func() bool { return u.api.annotation("launcher-current-configuration") == unifiedConfig("7.3.69", "1") })
	want := `{"BINARY_DIR":"/usr/bin","FDB_INSTANCE_ID":"storage-1","FDB_PUBLIC_IP":"127.0.0.1","FDB_ZONE_ID":"zone-1","NODE_LABEL_TOPOLOGY_KUBERNETES_IO_ZONE":"hall-a"}`
	if got := u.api.annotation("launcher-environment"); got != want {
		t.Errorf("the environment is %s", got)
	}
	u.do("7.3.69", u.clusterFile(), "configure new single ssd")
	u.reach("healthy", healthy)

	// Configurations that are refused.
	for _, refused := range []struct{ text, because string }{
		{`{"arguments":[]}`, "could not parse configured version"},
		{strings.Replace(unifiedConfig("7.3.69", "2"), "FDB_ZONE_ID", "FDB_NO_SUCH", 1), "missing environment variable FDB_NO_SUCH"},
		{unifiedConfig("7.4.6", "2"), "/var/fdb/shared-binaries/bin/7.4.6/fdbserver"},
	} {
		u.configure(refused.text)
		eventually(t, "refused: "+refused.because, func() bool { return strings.Contains(u.launcher.log.String(), refused.because) })
		if u.api.annotation("launcher-current-configuration") != unifiedConfig("7.3.69", "1") {
			t.Errorf("the refused configuration is told as the current one: %s", refused.text)
		}
	}

	// A knob: told at once, and used from the next start on.
	u.configure(unifiedConfig("7.3.69", "3"))
	u.api.set(map[string]string{"foundationdb.org/outdated-config-map-seen": "4000000000"})
	eventually(t, "the new configuration is told", func() bool { return u.api.annotation("launcher-current-configuration") == unifiedConfig("7.3.69", "3") })
	u.Do(u.first, func(c *sim.Cluster) {
		if !strings.HasSuffix(commandLine(c, "storage-1-1"), "--knob_custom=1") {
			t.Error("the running server has the new knob")
		}
	})
	u.do("7.3.69", u.clusterFile(), "kill; kill 127.0.0.1:4501 127.0.0.1:4503; sleep 0.1")
	u.reach("both have the new knob", func(c *sim.Cluster) bool {
		return strings.HasSuffix(commandLine(c, "storage-1-1"), "--knob_custom=3") && strings.HasSuffix(commandLine(c, "storage-1-2"), "--knob_custom=3") && healthy(c)
	})

	// New coordinators: the launcher tells that the cluster file has changed.
	if seen := u.api.annotation("cluster-file-change"); seen != "" {
		t.Errorf("the cluster file has changed at %s", seen)
	}
	u.do("7.3.69", u.clusterFile(), "coordinators 127.0.0.1:4503")
	eventually(t, "the change of the cluster file is told", func() bool { return u.api.annotation("cluster-file-change") != "" })
	u.reach("healthy", healthy)

	// An isolated group: its servers are stopped, and come back.
	u.api.set(map[string]string{"foundationdb.org/isolate-process-group": "true"})
	u.reach("both servers are stopped", func(c *sim.Cluster) bool {
		return !strings.Contains(last(c, "storage-1-1/"), "starts") && !strings.Contains(last(c, "storage-1-2/"), "starts")
	})
	u.api.set(map[string]string{"foundationdb.org/isolate-process-group": "false"})
	u.reach("both servers are back", func(c *sim.Cluster) bool { return reporting(c) == 2 && healthy(c) })

	// An upgrade: the sidecar brings the program, kill restarts the servers.
	u.sidecar("7.4.6")
	u.configure(unifiedConfig("7.4.6", "3"))
	eventually(t, "the new version is told", func() bool { return u.api.annotation("launcher-current-configuration") == unifiedConfig("7.4.6", "3") })
	if got := u.api.annotation("launcher-environment"); !strings.HasPrefix(got, `{"BINARY_DIR":"/var/fdb/shared-binaries/bin/7.4.6"`) {
		t.Errorf("the environment is %s", got)
	}
	u.do("7.3.69", u.clusterFile(), "kill; kill 127.0.0.1:4501 127.0.0.1:4503; sleep 0.1")
	u.reach("both run 7.4.6", func(c *sim.Cluster) bool { return c.Protocol() == version("7.4.6") && reporting(c) == 2 && healthy(c) })
	u.do("7.4.6", u.clusterFile(), "get a")
	if exit, _, _ := u.cliFor("7.3.69", "1"); exit != 1 {
		t.Error("the old fdbcli reaches the new database")
	}

	u.api.set(map[string]string{"foundationdb.org/delay-shutdown": "1ms"})
	if err := u.launcher.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-u.launcher.exited
	if code := u.launcher.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the launcher ends with %d", code)
	}
	if log := read(t, u.root+"/var/log/fdb-trace-logs/monitor.log"); !strings.Contains(log, "Received system signal") {
		t.Error("the log file is incomplete")
	}
}

// last is the last line about a server.
func last(c *sim.Cluster, name string) (found string) {
	for _, line := range c.Transcript() {
		if strings.Contains(line, name) && (strings.Contains(line, " starts: ") || strings.Contains(line, " is gone")) {
			found = line
		}
	}
	return found
}

// sidecar runs the sidecar of the unified image until it has copied.
func (u *unified) sidecar(v string) {
	u.t.Helper()
	cmd := exec.Command(filepath.Join(image(u.t, v), "fdb-kubernetes-monitor"), "--mode", "sidecar", "--output-dir", u.root+"/var/fdb/shared-binaries",
		"--main-container-version", "7.3.69", "--copy-binary", "fdbserver", "--copy-binary", "fdbcli")
	cmd.Env = u.environ("CONTAINER_ROOT=" + u.root)
	r := u.start(cmd)
	eventually(u.t, "the sidecar has copied", func() bool { return strings.Contains(r.log.String(), "Waiting for process to be terminated") })
	if r.ended() {
		u.t.Error("the sidecar has ended")
	}
}

// cliFor runs get with a time-out.
func (u *unified) cliFor(v, seconds string) (exit int, stdout, stderr string) {
	return call{version: v, args: []string{"fdbcli", "-C", u.clusterFile(), "--exec", "get a", "--timeout", seconds}, world: u.World}.run(u.t)
}

// TestLauncherModes: init copies for tools, and a sidecar of the same version copies nothing.
func TestLauncherModes(t *testing.T) {
	t.Parallel()
	folder := image(t, "7.4.6")
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "fdb-kubernetes-monitor"), args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out := t.TempDir()
	if text, err := run("--mode", "init", "--copy-binary", "fdbcli", "--copy-binary", "fdbbackup", "--copy-library", "7.4", "--copy-primary-library", "7.4", "--output-dir", out); err != nil {
		t.Fatal(err, text)
	}
	for _, name := range []string{"7.4/fdbcli", "7.4/fdbbackup", "libfdb_c_7.4.so", "libfdb_c.so"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || strings.HasPrefix(name, "7.4/") && info.Mode()&0o111 == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := exec.CommandContext(t.Context(), filepath.Join(out, "7.4/fdbcli"), "--version").Output(); err != nil || !strings.Contains(string(text), "(v7.4.6)") {
		t.Errorf("the copy alone says %s (%v)", text, err)
	}
	write(t, out+"/in/empty", "")
	if text, err := run("--mode", "init", "--input-dir", out+"/in", "--copy-file", "empty", "--require-not-empty", "empty", "--output-dir", out); err == nil || !strings.Contains(text, "is empty") {
		t.Error(text)
	}
	if text, err := run("--mode", "init", "--require-not-empty", "empty", "--output-dir", out); err == nil || !strings.Contains(text, "is not in the --copy-file list") {
		t.Error(text)
	}
	if text, err := run("--mode", "other"); err == nil || !strings.Contains(text, "Unknown execution mode") {
		t.Error(text)
	}
	if text, err := run(); err == nil || !strings.Contains(text, "could not create Pod client") {
		t.Error("without a service account", text)
	}
	if text, err := run("--no-such"); fmt.Sprint(err) != "exit status 2" {
		t.Error(text, err)
	}
}
