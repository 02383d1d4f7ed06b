package program_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// invocations are what the golden files hold, a line each. FILE is a cluster file that can be read, BROKEN one that cannot, TLS one whose
// coordinators all listen with TLS.
const invocations = `
fdbserver
fdbserver --version
fdbserver --help
fdbserver --no-such
fdbserver word
fdbserver -p
fdbserver -p -C
fdbserver --crash=1
fdbserver -C FILE
fdbserver -C FILE -p host:4500
fdbserver -C FILE -p 127.0.0.1:4500,127.0.0.1:4501
fdbserver -C FILE -p 127.0.0.1:4500,127.0.0.1:4501:tls,127.0.0.1:4502
fdbserver -C FILE -p 127.0.0.1:4500 -l 127.0.0.1:4500,127.0.0.1:4501
fdbserver -C FILE -p 127.0.0.1:4500 -l 127.0.0.1:4500:tls
fdbserver -C FILE -p 127.0.0.1:4500 -l host
fdbserver -C FILE -p 127.0.0.1:4701:tls
fdbserver -C BROKEN -p 127.0.0.1:4500
fdbserver -C NOTHING -p 127.0.0.1:4500
fdbserver -p 127.0.0.1:4500
fdbserver -p 127.0.0.1:4500 --seed-cluster-file FILE
fdbserver -p 127.0.0.1:4500 -C NOTHING --seed-cluster-file NOTHING2
fdbserver -p 127.0.0.1:4500 -C NOTHING --seed_cluster_file=BROKEN
fdbserver -p 127.0.0.1:4500 -C NOTHING --seed-connection-string=a@b
fdbserver -p 127.0.0.1:4500 -C NOTHING --seed-connection-string=a:b@127.0.0.1:4500 --seed-cluster-file FILE
fdbserver --class tester
fdbserver --class consistency_scan
fdbserver --role tester
fdbserver --memory lots
fdbserver --storage_memory lots
fdbserver --cache-memory lots
fdbserver --logsize 10
fdbserver --maxlogssize 10
fdbserver --maxlogs ten
fdbserver --traceclock sun
fdbserver --network tin
fdbserver --trace_format yaml --no-such
fdbserver --metrics-cluster FILE
fdbserver --code-probes x
fdbserver --blob-credential-file x
fdbserver --blob-credentials x
fdbcli --version
fdbcli -v
fdbcli --help
fdbcli --no-such
fdbcli word
fdbcli --exec
fdbcli --l
fdbcli --timeout 5
fdbcli --timeout five --exec status
fdbcli --api-version 600
fdbcli --api-version new
fdbcli --exec status
fdbcli --exec status -C NOTHING
fdbcli --exec status -C BROKEN
fdbcli --exec status -C TLS --timeout 1
fdbcli --trace-format yaml --version
fdbcli --use-future-protocol-version --version
fdbcli --exe nonsense -C FILE
fdbcli --exec get_a"b -C FILE
fdbbackup
fdbbackup --version
fdbbackup --help
fdbbackup start --help
fdbbackup nonsense
fdbbackup status --no-such
fdbbackup status word
fdbbackup status -C NOTHING
fdbbackup status --blob-credentials x
fdbbackup pause -t x
fdbbackup start -s often
fdbbackup start --memory lots
fdbbackup start --encrypt-files 1 -C NOTHING
fdbbackup modify --encryption-key-file x -C NOTHING
fdbbackup start --mutation-log-type x -C NOTHING
fdbbackup delete -C FILE
fdbbackup start -d
fdbbackup start -z=1
fdbrestore
fdbrestore --version
fdbrestore --help
fdbrestore nonsense
fdbrestore status
fdbrestore status --dest-cluster-file NOTHING
fdbrestore status --dest_cluster_file BROKEN
fdbrestore start --user-data
fdbrestore start -v new
fdbrestore start --no-such
backup_agent
backup_agent --version
backup_agent --help
backup_agent --no-such
backup_agent -C NOTHING
fdbmonitor --help
fdbmonitor --conffile NOTHING
fdbsim
`

// TestAnswers: the golden files hold what each line of versions prints and how it ends.
func TestAnswers(t *testing.T) {
	for _, v := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		w := world.New(world.Options{Virtual: true})
		defer w.Close()
		folder := t.TempDir()
		files := map[string]string{
			"FILE":   write(t, folder+"/FILE", "sample:first@127.0.0.1:4701\n"),
			"BROKEN": write(t, folder+"/BROKEN", "sample@127.0.0.1:4701\n"),
			"TLS":    write(t, folder+"/TLS", "sample:tls@127.0.0.1:4701:tls\n"),
		}
		var got strings.Builder
		for line := range strings.Lines(strings.TrimPrefix(invocations, "\n")) {
			args := strings.Fields(line)
			for i, word := range args {
				for name, path := range files {
					args[i] = strings.Replace(args[i], name, path, 1)
				}
				if strings.HasPrefix(word, "NOTHING") {
					args[i] = folder + "/" + word
				}
			}
			exit, stdout, stderr := call{version: v, args: args, env: []string{"FDB_CLUSTER_FILE=" + folder + "/DEFAULT"}, world: w}.run(t)
			fmt.Fprintf(&got, "$ %sexit %d\n", line, exit)
			for _, stream := range []struct{ mark, text string }{{"", stdout}, {"! ", stderr}} {
				for text := range strings.Lines(strings.ReplaceAll(stream.text, folder+"/", "")) {
					got.WriteString(strings.TrimRight(stream.mark+timeless(text), " \n") + "\n")
				}
			}
			got.WriteString("\n")
		}
		golden := filepath.Join("testdata", "answers-"+version(v).Short()+".txt")
		if *update {
			write(t, golden, got.String())
		}
		if want := read(t, golden); got.String() != want {
			t.Errorf("%s is not what %s prints (write it anew with -update):\n%s", golden, v, difference(want, got.String()))
		}
	}
}

// timeless is a line of fdbmonitor without its time.
func timeless(line string) string {
	if rest, is := strings.CutPrefix(line, `Time="`); is {
		_, rest, _ = strings.Cut(rest, `"`)
		return `Time="…"` + rest
	}
	return line
}

// difference shows the first line that differs.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%s\nand should be\n%s", i+1, b[i], a[i])
		}
	}
	return "one is longer"
}

// texts are what the programs print, with the file of FoundationDB in which each stands at 7.1.67, 7.3.69 and 7.4.6, and the lines of versions
// that lack it.
var texts = []struct{ file, text, without string }{
	{"fdbserver/fdbserver.actor.cpp", "ERROR: unknown option: `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: invalid argument to option `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: argument given for option `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: missing argument for option `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "Try `%s --help' for more information.", ""},
	{"fdbserver/fdbserver.actor.cpp", "Usage: %s -p ADDRESS [OPTIONS]", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Unknown machine class `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Unknown role `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Could not parse logsize `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Could not parse maxlogssize `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Could not parse memory limit from `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Could not parse storage memory limit from `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Could not parse cache memory limit from `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Unrecognized maximum number of logs `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Unknown clock source `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Unknown network implementation `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "WARNING: Unrecognized trace format `%s'", ""},
	{"fdbserver/fdbserver.actor.cpp", "--seed-cluster-file and --seed-connection-string may not both be specified at once.", ""},
	{"fdbserver/fdbserver.actor.cpp", "If -seed-cluster-file or --seed-connection-string is specified, -C must be specified as well.", ""},
	{"fdbserver/fdbserver.actor.cpp", "If a metrics cluster file is specified, a metrics prefix is required.", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: The -p or --public-address option is required", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Listen addresses (if provided) should be equal to the number of public addresses in order.", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: maximum 2 public/listen addresses are allowed", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: Could not parse network address `%s' (specify as IP_ADDRESS:PORT)", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: TLS state of listen address: %s is not equal to the TLS state of public address: %s.", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: TLS state of public address %s does not match in coordinator list.", ""},
	{"fdbserver/fdbserver.actor.cpp", "ERROR: only one public address of each TLS state is allowed.", ""},
	{"fdbserver/worker.actor.cpp", "FDBD joined cluster.", ""},
	{"fdbclient/ClusterConnectionFile.actor.cpp", "Unable to read cluster file `%s': %d %s", ""},
	{"fdbclient/ClusterConnectionFile.actor.cpp", "Invalid cluster file `%s': %d %s", ""},
	{"fdbclient/ClusterConnectionFile.actor.cpp", "Unexpected error loading cluster file `%s': %d %s", ""},
	{"fdbclient/ClusterConnectionFile.actor.cpp", "Unable to read cluster file `./fdb.cluster' or `%s' and %s unset: %d %s", ""},
	{"fdbclient/ClusterConnectionFile.actor.cpp", "# This file is auto-generated, it is not to be edited by hand", ""},
	{"fdbclient/MonitorLeader.actor.cpp", "Invalid connection string `%s: %d %s", ""},
	{"fdbcli/fdbcli.actor.cpp", "usage: %s [OPTIONS]", ""},
	{"fdbcli/fdbcli.actor.cpp", "ERROR: --timeout may only be specified with --exec", ""},
	{"fdbcli/fdbcli.actor.cpp", "ERROR: invalid timeout %s", ""},
	{"fdbcli/fdbcli.actor.cpp", "ERROR: invalid client version %s", ""},
	{"fdbcli/fdbcli.actor.cpp", "ERROR: api version %s is not supported. (Min: 700, Max: %d)", ""},
	{"fdbcli/fdbcli.actor.cpp", "fdbcli is not configured with TLS, but all of the coordinators have TLS addresses.", "7.1"},
	{"fdbcli/fdbcli.actor.cpp", "Using cluster file `%s'.", ""},
	{"fdbbackup/backup.actor.cpp", "ERROR: unknown option `%s'", ""},
	{"fdbbackup/backup.actor.cpp", "ERROR: Could not parse snapshot interval `%s'", ""},
	{"fdbbackup/backup.actor.cpp", "ERROR: Could not parse database version `%s'", ""},
	{"fdbbackup/backup.actor.cpp", "ERROR: Could not parse memory limit from `%s'", ""},
	{"fdbbackup/backup.actor.cpp", "Restore destination cluster file must be specified explicitly.", ""},
	{"fdbbackup/backup.actor.cpp", "Restore destination cluster file '%s' does not exist.", ""},
	{"fdbbackup/backup.actor.cpp", "Restore destination cluster file '%s' invalid: %s", ""},
	{"fdbmonitor/fdbmonitor.cpp", "No configuration file at %s", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Unable to lock fdbmonitor lockfile %s (is fdbmonitor already running?)", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Process %d exited %d, restarting in %d seconds", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Process %d terminated by signal %d, restarting in %d seconds", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Launching %s (%d) for %s", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Found new configuration for %s", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Deconfigured %s", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Received signal %d (%s), shutting down", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Unable to resolve restart delay for %s", ""},
	{"fdbmonitor/fdbmonitor.cpp", "Bad flag value, must be true/false.  Flag: '%s'  Value: '%s'", ""},
	{"fdbkubernetesmonitor/monitor.go", "Error could not parse configured version", ""},
	{"fdbkubernetesmonitor/monitor.go", "Error with binary path for latest configuration", ""},
	{"fdbkubernetesmonitor/monitor.go", "Error generating arguments for latest configuration", ""},
	{"fdbkubernetesmonitor/monitor.go", "binary is not executable", ""},
	{"fdbkubernetesmonitor/monitor.go", "could not create Pod client", ""},
	{"fdbkubernetesmonitor/api/config.go", "missing environment variable %s", ""},
	{"fdbkubernetesmonitor/api/config.go", "unsupported argument type %s", ""},
	{"fdbkubernetesmonitor/api/config.go", "could not find IP with family %d", ""},
	{"fdbkubernetesmonitor/copy.go", "file %s is required, but is not in the --copy-file list", ""},
	{"fdbkubernetesmonitor/copy.go", "file %s is empty", ""},
	{"packaging/docker/sidecar.py", "Client certificate was not approved", ""},
	{"packaging/docker/sidecar.py", "Server is not using TLS", ""},
	{"packaging/docker/sidecar.py", "No contents for file {path}", ""},
	{"packaging/docker/sidecar.py", "is outside of the allowed directory", "7.1 7.3"},
}

// TestTextsStand compares the texts with the source itself: FDB_SOURCE names its git folder.
func TestTextsStand(t *testing.T) {
	source := os.Getenv("FDB_SOURCE")
	if source == "" {
		t.Skip("FDB_SOURCE names no git folder of FoundationDB")
	}
	for _, tag := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		files := map[string]string{}
		for _, one := range texts {
			if _, known := files[one.file]; !known {
				files[one.file] = sourceOf(t, source, tag, one.file)
			}
			lacks := strings.Contains(one.without, version(tag).Short())
			if strings.Contains(files[one.file], one.text) == lacks {
				t.Errorf("%s at %s: %q there: %t", one.file, tag, one.text, lacks)
			}
		}
	}
}
