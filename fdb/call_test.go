package fdb

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/fault"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden texts in testdata")

// golden compares a text with a file of testdata, or writes it with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it):\n%s", path, diff)
	}
}

func version(text string) Version {
	v, err := ParseVersion(text)
	if err != nil {
		panic(err)
	}
	return v
}

const blobURL = "blobstore://minio@minio-service:9000/sample-cluster?bucket=fdb-backups"

// sampleCalls is one of each kind, and its variants.
func sampleCalls() []Call {
	restoreTo := uint64(26000000)
	backup := Backup{URL: blobURL, SnapshotPeriodSeconds: 3600}
	locality := "locality_instance_id:kc1-storage-1"
	calls := []Call{
		ReadStatus(),
		ReadConnection(),
		Transaction(),
		ReadVersion(),
		Exclude([]string{locality, "10.1.1.1"}, false),
		Exclude([]string{"10.1.1.1:4501", "10.1.1.2:4501:tls", "2001:db8::1", "[2001:db8::1]:4501"}, true),
		Include([]string{locality, "10.1.1.1"}),
		Kill([]string{"10.1.1.1:4501", "[2001:db8::1]:4500:tls"}, false),
		Kill([]Address{{Host: "10.1.1.1", Port: 4500, TLS: true}, {Host: "10.1.1.2", Port: 4501, FromHostname: true}}, true),
		MaintenanceOn("zone-a", 10*time.Minute),
		MaintenanceOff(),
		Coordinators([]string{"10.1.1.1:4501", "sample-1.sample.default.svc.cluster.local:4500:tls(fromHostname)"}),
		Coordinators([]Address{{Host: "2001:db8::1", Port: 4500, TLS: true}}),
		{Command: CommandConfigure, Configuration: "triple ssd-2 usable_regions=1 logs=4", Create: true},
		{Command: CommandConfigure, Configuration: `regions=[{\"datacenters\":[{\"id\":\"dc1\",\"priority\":-1}]}] log_spill:=2`},
		StartBackup(backup),
		StartBackup(Backup{Tag: "daily", URL: blobURL, OneTime: true, PartitionedLog: true, EncryptionKeyPath: "/keys/a"}),
		ModifyBackup(backup),
		DiscontinueBackup(""),
		AbortBackup("daily"),
		PauseBackups(),
		ResumeBackups(),
		ReadBackupStatus("daily"),
		DeleteBackup(blobURL),
		StartRestore(Restore{Tag: "restore-1f0c", URL: blobURL}),
		StartRestore(Restore{Tag: "restore-1f0c", URL: blobURL, BackupVersion: &restoreTo, EncryptionKeyPath: "/keys/a",
			KeyRanges: []KeyRange{{Start: "a", End: "b"}, {Start: `\x00`, End: `c/d-e`}}}),
		AbortRestore("restore-1f0c"),
		ReadRestoreStatus("restore-1f0c"),
	}
	for i := range calls {
		calls[i].ClusterFile = "/tmp/fdb.cluster"
	}
	return calls
}

func TestArguments(t *testing.T) {
	var text strings.Builder
	write := func(c Call) {
		argv, kill := c.Arguments()
		if argv == nil {
			t.Errorf("%s: %v", c.Command, c.Check())
		}
		fmt.Fprintf(&text, "%s, ended after %s\n", c.Tool(), kill)
		for _, arg := range argv {
			fmt.Fprintf(&text, "  %s\n", arg)
		}
	}
	for _, c := range sampleCalls() {
		c.Version = version("7.3.69")
		write(c)
	}
	text.WriteString("\n# newer versions: other flags of backups\n")
	for _, v := range []string{"7.3.73", "7.4.6", "7.4.7"} {
		for _, c := range sampleCalls() {
			if c.Backup.PartitionedLog || c.Restore.BackupVersion != nil {
				c.Version = version(v)
				fmt.Fprintf(&text, "%s ", v)
				write(c)
			}
		}
	}
	text.WriteString("\n# with traces, knobs and credentials\n")
	for _, c := range sampleCalls() {
		switch c.Command {
		case CommandInclude, CommandTransaction, CommandStartBackup, CommandBackupStatus, CommandDeleteBackup, CommandStartRestore:
			c.Timeout, c.LogDir, c.LogGroup, c.TraceFormat = 5*time.Second, "/var/log/fdb", "pawl", "json"
			c.Knobs, c.BlobCredentials = []string{"--knob_http_verbose_level=3"}, "/tmp/blob.json"
			write(c)
		}
	}
	golden(t, "testdata/calls.txt", text.String())
}

func TestKillDeadlines(t *testing.T) {
	for _, c := range []struct {
		call Call
		want time.Duration
	}{
		{Include([]string{"10.1.1.1"}), 20 * time.Second},
		{Exclude([]string{"10.1.1.1"}, false), 80 * time.Second},
		{ReadStatus(), 80 * time.Second},
		{Kill([]string{"10.1.1.1:4501"}, true), 80 * time.Second},
		{Transaction(), 20 * time.Second},
		{PauseBackups(), 10 * time.Second},
		{StartBackup(Backup{URL: blobURL}), 40 * time.Second},
		{StartRestore(Restore{Tag: "r", URL: blobURL}), 40 * time.Second},
		{ReadRestoreStatus("r"), 10 * time.Second},
		{DeleteBackup(blobURL), 10 * time.Minute},
	} {
		c.call.ClusterFile = "fdb.cluster"
		if _, kill := c.call.Arguments(); kill != c.want {
			t.Errorf("%s: %s instead of %s", c.call.Command, kill, c.want)
		}
		c.call.Timeout = 3 * time.Second
		want := 3 * time.Second
		if c.call.Tool() == ToolCLI {
			want = 6 * time.Second
		}
		if _, kill := c.call.Arguments(); kill != want {
			t.Errorf("%s with 3 s: %s instead of %s", c.call.Command, kill, want)
		}
	}
	c := Include([]string{"10.1.1.1"})
	c.ClusterFile, c.Timeout = "fdb.cluster", time.Millisecond
	if argv, _ := c.Arguments(); argv[len(argv)-1] != "1" {
		t.Errorf("a timeout of 1 ms: %q: 0 would mean none", argv)
	}
}

func TestRefusedCalls(t *testing.T) {
	for _, c := range []struct {
		field string
		call  Call
	}{
		{"targets", Exclude(nil, false)},
		{"targets[0]", Exclude([]string{"all"}, false)},
		{"targets[0]", Exclude([]string{"failed", "10.1.1.1"}, false)},
		{"targets[1]", Exclude([]string{"10.1.1.1", "FORCE"}, false)},
		{"targets[0]", Exclude([]string{"no_wait"}, false)},
		{"targets[0]", Exclude([]string{"10.1.1.1; include all"}, false)},
		{"targets[0]", Exclude([]string{"locality_instance_id:a;b"}, false)},
		{"targets[0]", Exclude([]string{"locality_instance_id:a b"}, false)},
		{"targets[0]", Exclude([]string{"locality_instance_id"}, false)},
		{"targets[0]", Exclude([]string{"host.example:4501"}, false)},
		{"targets[0]", Exclude([]string{"10.1.1.1:0"}, false)},
		{"targets[0]", Exclude([]string{"fe80::1%eth0"}, false)},
		{"targets[0]", Include([]string{"all"})},
		{"targets[0]", Include([]string{""})},
		{"targets[0]", Kill([]string{"all"}, false)},
		{"targets[0]", Kill([]string{"list"}, false)},
		{"targets[0]", Kill([]string{"10.1.1.1"}, false)},
		{"targets", Kill([]string{}, true)},
		{"targets[0]", Coordinators([]string{"auto"})},
		{"targets[0]", Coordinators([]string{"description=x"})},
		{"targets[0]", Coordinators([]string{"10.1.1.1"})},
		{"targets[0]", Coordinators([]string{"a b:4500"})},
		{"zone", MaintenanceOn("", time.Minute)},
		{"zone", MaintenanceOn("a;kill", time.Minute)},
		{"zone", MaintenanceOn("a\nb", time.Minute)},
		{"configuration", Call{Command: CommandConfigure}},
		{"configuration", Call{Command: CommandConfigure, Configuration: "double; exclude 10.1.1.1"}},
		{"configuration", Call{Command: CommandConfigure, Configuration: `double "a`}},
		{"configuration", Call{Command: CommandConfigure, Configuration: `double a\;b`}},
		{"configuration", Call{Command: CommandConfigure, Configuration: `regions=[{\"id\":\"a\ b\"}]`}},
		{"configuration", Call{Command: CommandConfigure, Configuration: `logs=\"3\"`}},
		{"tag", StartBackup(Backup{Tag: "-z", URL: blobURL})},
		{"tag", ReadBackupStatus("a b")},
		{"url", StartBackup(Backup{})},
		{"url", StartBackup(Backup{URL: "blobstore://key:secret@host:443/a?bucket=b"})},
		{"url", DeleteBackup("--force")},
		{"url", DeleteBackup("blobstore://key@host/a b")},
		{"snapshotPeriodSeconds", StartBackup(Backup{URL: blobURL, SnapshotPeriodSeconds: -1})},
		{"encryptionKeyPath", StartBackup(Backup{URL: blobURL, EncryptionKeyPath: "-x"})},
		{"tag", StartRestore(Restore{URL: blobURL})},
		{"tag", ReadRestoreStatus("")},
		{"keyRanges[0].start", StartRestore(Restore{Tag: "r", URL: blobURL, KeyRanges: []KeyRange{{Start: "a;b", End: "c"}}})},
		{"keyRanges[1].end", StartRestore(Restore{Tag: "r", URL: blobURL, KeyRanges: []KeyRange{{Start: "a", End: "b"}, {Start: "a", End: `\x0`}}})},
		{"clusterFile", Call{Command: CommandStatus, ClusterFile: "-x"}},
		{"logDir", Call{Command: CommandStatus, LogDir: "-x"}},
		{"logGroup", Call{Command: CommandStatus, LogGroup: "a b"}},
		{"traceFormat", Call{Command: CommandStatus, TraceFormat: "yaml"}},
		{"knobs[0]", Call{Command: CommandPauseBackups, Knobs: []string{"-x"}}},
		{"blobCredentials", Call{Command: CommandDeleteBackup, BlobCredentials: "-x"}},
	} {
		if c.call.ClusterFile == "" {
			c.call.ClusterFile = "fdb.cluster"
		}
		err := c.call.Check()
		if fault.Of(err) != WordInvalid || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s %v %+v: %v", c.call.Command, c.call.Targets, c.call.Backup, err)
		}
		if argv, _ := c.call.Arguments(); argv != nil {
			t.Errorf("%s: %q", c.call.Command, argv)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("the secret is told: %v", err)
		}
	}
	if argv, _ := PauseBackups().Arguments(); !cmp.Equal(argv, []string{"pause"}) {
		t.Errorf("without a cluster file: %q", argv)
	}
	if argv, _ := (Call{Command: "drop all", ClusterFile: "fdb.cluster"}).Arguments(); argv != nil {
		t.Errorf("an unknown command: %q", argv)
	}
}

// Flaw 21: whatever stands in a field, the text holds the commands of the call and no other, and no
// argument becomes an option.
func TestNoValueBecomesACommand(t *testing.T) {
	value := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"10.1.1.1", "10.1.1.1:4501", "locality_instance_id:a", "a.b:4500:tls", "all", "auto", "-d", "x;y", "triple", `a\x00`}),
		rapid.StringMatching(`[a-z0-9.:;"\\ \n=_-]{1,12}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		targets := rapid.SliceOfN(value, 1, 3).Draw(t, "targets")
		one := value.Draw(t, "value")
		for _, c := range []Call{
			Exclude(targets, true), Include(targets), Kill(targets, true), Coordinators(targets), MaintenanceOn(one, time.Minute),
			{Command: CommandConfigure, Configuration: one}, ReadBackupStatus(one), ReadRestoreStatus(one),
			StartRestore(Restore{Tag: "r", URL: one, KeyRanges: []KeyRange{{Start: one, End: targets[0]}}}),
		} {
			c.ClusterFile = "fdb.cluster"
			argv, _ := c.Arguments()
			if argv == nil {
				continue
			}
			commands, err := ParseCommands(c.Text())
			want := map[Command]int{CommandKill: 5}[c.Command]
			if want == 0 {
				want = 1
			}
			if err != nil || len(commands) != want {
				t.Fatalf("%s is %q: %v", c.Command, c.Text(), err)
			}
			for _, command := range commands {
				for _, word := range []string{"all", "failed", "FORCE", "auto", "list"} {
					if slices.Contains(command, word) && c.Command != CommandConfigure && c.Command != CommandMaintenanceOn {
						t.Fatalf("%s is %q", c.Command, c.Text())
					}
				}
			}
			for i, arg := range argv {
				if arg == one && i > 0 && strings.HasPrefix(arg, "-") {
					t.Fatalf("%q is an option in %q", arg, argv)
				}
			}
		}
	})
}

func TestToolFolder(t *testing.T) {
	for _, c := range []struct{ spec, running, want string }{
		{"7.3.69", "7.1.67", "7.1"}, {"7.3.69", "", "7.3"}, {"7.4.0-rc1", "", "7.4"}, {"", "7.1.4", "7.1"},
	} {
		if got, err := ToolFolder(c.spec, c.running); err != nil || got != c.want {
			t.Errorf("%q, %q: %q, %v", c.spec, c.running, got, err)
		}
	}
	for _, spec := range []string{"", "new", "7.3"} {
		if got, err := ToolFolder(spec, ""); err == nil {
			t.Errorf("%q: %q", spec, got)
		}
	}
}

// Every configuration that has a text can be sent as one command, and comes back as it was.
func TestConfigureSendsEveryText(t *testing.T) {
	file, err := os.ReadFile("testdata/configure.txt")
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for line := range strings.SplitSeq(string(file), "\n") {
		var c Configuration
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		for _, create := range []bool{false, true} {
			call := Configure(c, create)
			argv, _ := call.Arguments()
			if argv == nil || argv[1] != call.Text() {
				t.Fatalf("%s: %v", line, call.Check())
			}
			commands, err := ParseCommands(argv[1])
			if err != nil || len(commands) != 1 || slices.Contains(commands[0], "new") != create || !strings.HasSuffix(argv[1], c.Text()) {
				t.Errorf("%s is sent as %q: %v", line, argv[1], err)
			}
			sent++
		}
	}
	if sent < 10 {
		t.Errorf("%d texts were sent", sent)
	}
}
