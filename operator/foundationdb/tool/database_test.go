package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Whatever the model prints for a call, the tool's process prints too: the verdict is the same, and the
// arguments are those of package fdb.
func TestCallsAreRunAndJudged(t *testing.T) {
	w := newModel()
	backup := fdb.Backup{Tag: "daily", URL: "blobstore://key@store:443/sample?bucket=b"}
	restore := fdb.Restore{Tag: "again", URL: "blobstore://key@store:443/sample?bucket=b", KeyRanges: []fdb.KeyRange{{Start: `\x00`, End: `\xff`}}}
	for _, call := range []fdb.Call{
		fdb.ReadVersion(),
		fdb.ReadConnection(),
		fdb.ReadStatus(),
		fdb.Exclude([]string{"locality_instance_id:stateless-6", "10.1.0.6"}, false),
		fdb.Exclude([]string{"10.1.0.9:4501"}, true),
		fdb.Include([]string{"10.1.0.6"}),
		fdb.MaintenanceOn("storage-1", time.Minute),
		fdb.MaintenanceOff(),
		fdb.Kill([]string{"10.1.0.1:4501"}, false),
		fdb.Kill([]string{"10.9.9.9:4501"}, true),
		fdb.Coordinators([]string{"10.1.0.1:4501", "10.1.0.2:4501", "10.1.0.4:4501"}),
		fdb.Coordinators([]string{"10.9.9.9:4501"}),
		{Command: fdb.CommandConfigure, Configuration: "triple"},
		{Command: fdb.CommandConfigure, Configuration: "logs=3", Knobs: []string{"--knob_a=b"}},
		fdb.StartBackup(backup),
		fdb.StartBackup(backup),
		fdb.ReadBackupStatus("daily"),
		fdb.PauseBackups(),
		fdb.ResumeBackups(),
		fdb.DiscontinueBackup("daily"),
		fdb.DiscontinueBackup("never"),
		fdb.AbortBackup("daily"),
		fdb.StartRestore(restore),
		fdb.ReadRestoreStatus("again"),
		fdb.AbortRestore("again"),
	} {
		name := fmt.Sprint(call.Command, " ", call.Targets, call.Configuration)
		t.Run(name, func(t *testing.T) {
			wanted := w.Call(call, w.version, w.given)
			s := newStage(t, play{Stdout: wanted.Stdout, Stderr: wanted.Stderr, Exit: wanted.Exit}, Options{LogDir: t.TempDir(), TraceFormat: "json"})
			got := s.Run(t.Context(), endpoint(), call)
			call.Version = w.version
			if diff := cmp.Diff(fdb.Judge(call, w.version, wanted.Exit, wanted.Stdout, wanted.Stderr), got.Result); diff != "" {
				t.Errorf("the verdict (- of the texts, + of the tool):\n%s", diff)
			}
			if got.Stdout != wanted.Stdout {
				t.Errorf("printed\n%s\nand not\n%s", got.Stdout, wanted.Stdout)
			}
			r := s.last()
			call.ClusterFile, call.LogDir, call.LogGroup, call.TraceFormat = filepath.Join(r.Dir, "fdb.cluster"), s.options.LogDir, "pawl", "json"
			argv, _ := call.Arguments()
			if diff := cmp.Diff(append([]string{filepath.Join(s.folder, "7.3", string(call.Tool()))}, argv...), r.Argv); diff != "" {
				t.Errorf("the arguments (- wanted, + got):\n%s", diff)
			}
		})
	}
}

// A call that is not well-formed starts no process.
func TestFlaw21AValueOfTheSpecIsNoSecondCommand(t *testing.T) {
	s := newStage(t, play{}, Options{})
	for _, call := range []fdb.Call{
		{Command: fdb.CommandConfigure, Configuration: "double; kill all"},
		{Command: fdb.CommandConfigure, Configuration: "double\x00"},
		{Command: fdb.CommandConfigure, Configuration: `double "`},
		fdb.MaintenanceOn("a; writemode on; clearrange \\x00 \\xff", time.Minute),
		fdb.Exclude([]string{"FORCE"}, false),
		fdb.Exclude([]string{"10.0.0.1 all"}, false),
		fdb.Include([]string{"all"}),
		fdb.Kill([]string{"all"}, false),
		fdb.Coordinators([]string{"auto"}),
		fdb.StartBackup(fdb.Backup{Tag: "-z"}),
		fdb.DeleteBackup("--log"),
		{Command: fdb.CommandStatus, LogDir: "--help"},
		{Command: "shutdown"},
	} {
		a := s.Run(t.Context(), endpoint(), call)
		if a.Outcome != fdb.Refused || a.Reason != fdb.CommandRefused {
			t.Errorf("%s %q is %s", call.Command, call.Configuration, a.Result)
		}
	}
	if n := len(s.records()); n != 0 {
		t.Errorf("%d processes were started", n)
	}
}

// No shell sees an argument: what one would expand or run stays as it is.
func TestNoShellTakesPart(t *testing.T) {
	s := newStage(t, play{}, Options{})
	knob := "--knob_x=$(touch pwned) `id` $HOME * ;|&>x"
	s.Run(t.Context(), endpoint(), fdb.Call{Command: fdb.CommandPauseBackups, Knobs: []string{knob}})
	if r := s.last(); !slices.Contains(r.Argv, knob) {
		t.Errorf("the arguments are %q", r.Argv)
	}
}

func TestSecretsStayOutOfArgumentsResultsAndLogs(t *testing.T) {
	const secret, token = "s3cr3t/value+", "t0ken:more"
	store := fdb.BlobStore{AccountName: "key:" + secret + ":" + token + "@store.example:9000", Bucket: "b"}
	url, err := fdb.BackupURL(store, "sample")
	if err != nil {
		t.Fatal(err)
	}
	apart := fdb.StartRestore(fdb.Restore{Tag: "apart", URL: fdb.WithoutSecret(url)})
	credentials, _ := store.Credentials()
	apart.Secrets = fdb.Secret(credentials)
	var log bytes.Buffer
	for _, call := range []fdb.Call{
		fdb.StartBackup(fdb.Backup{Tag: "daily", URL: url}),
		fdb.ModifyBackup(fdb.Backup{Tag: "daily", URL: url}),
		fdb.DeleteBackup(url),
		fdb.StartRestore(fdb.Restore{Tag: "again", URL: url}),
		apart,
	} {
		said := fmt.Sprintf("ERROR: %s cannot be reached (%s, %s)\n", url, secret, token)
		s := newStage(t, play{Stdout: said, Stderr: said, Exit: 1}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		a := s.Run(t.Context(), port.Endpoint{Connection: endpoint().Connection, Version: fdb.Version{Major: 7, Minor: 3, Patch: 69}}, call)
		r := s.last()
		for where, text := range map[string]string{
			"the arguments": strings.Join(r.Argv, " "), "the environment": strings.Join(slices.DeleteFunc(r.Env, isPlay), " "),
			"the result": a.String(), "what it printed": a.Stdout, "the log": log.String(),
		} {
			for _, hidden := range []string{secret, "s3cr3t", token, "t0ken"} {
				if strings.Contains(text, hidden) {
					t.Errorf("%s: %s of %s: %s", call.Command, hidden, where, text)
				}
			}
		}
		file, content, _ := strings.Cut(r.Files["blob-credentials.json"], " ")
		if file != "-rw-------" {
			t.Errorf("%s: the credentials have the mode %q", call.Command, file)
		}
		want := `{"accounts":{"key@store.example":{"secret":"s3cr3t/value+","token":"t0ken:more"}}}`
		if content != want {
			t.Errorf("%s: the credentials are %s", call.Command, content)
		}
		if at := slices.Index(r.Argv, "--blob-credentials"); at < 0 || r.Argv[at+1] != filepath.Join(r.Dir, "blob-credentials.json") {
			t.Errorf("%s: the arguments do not name the credentials: %q", call.Command, r.Argv)
		}
		if _, err := os.Stat(r.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its folder is left: %v", call.Command, err)
		}
	}
	// One that FoundationDB itself shows, since somebody else has started the backup with it.
	s := newStage(t, play{Stdout: `{"SchemaVersion":"1.0.0","Tag":"daily","BackupAgentsPaused":false,"DestinationURL":"blobstore://key:hidden@store/x"}`}, Options{})
	a := s.Run(t.Context(), endpoint(), fdb.ReadBackupStatus("daily"))
	if status, err := fdb.ParseBackupStatus([]byte(a.Stdout)); err != nil || strings.Contains(a.Stdout, "hidden") || status.URL != "blobstore://key@store/x" {
		t.Errorf("%s: %v", a.Stdout, err)
	}
	// One that cannot be taken out of its URL.
	b := s.Run(t.Context(), endpoint(), fdb.DeleteBackup("blobstore://key:s3cr3t/x@store/name"))
	if b.Outcome != fdb.Refused || strings.Contains(b.String(), "s3cr3t") {
		t.Errorf("it is %s", b.Result)
	}
}

// isPlay recognises the variables of the fake tools.
func isPlay(variable string) bool {
	return strings.HasPrefix(variable, "PAWL_PLAY=") || strings.HasPrefix(variable, "GORACE=")
}

func TestEnvironmentIsMinimal(t *testing.T) {
	t.Setenv("FDB_TLS_CERTIFICATE_FILE", "/tls/crt")
	t.Setenv("FDB_TLS_VERIFY_PEERS", "Check.Valid=1")
	t.Setenv("FDB_CLUSTER_FILE", "/etc/foundationdb/fdb.cluster")
	t.Setenv("FDB_NETWORK_OPTION_TRACE_ENABLE", "/tmp")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
	for _, name := range passed[2:] {
		if name != "FDB_TLS_VERIFY_PEERS" {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	s := newStage(t, play{}, Options{Environment: []string{"FDB_TLS_CA_FILE=/tls/ca", "TERM=xterm"}})
	s.Run(t.Context(), endpoint(), fdb.MaintenanceOff())
	r := s.last()
	want := []string{
		"FDB_TLS_CERTIFICATE_FILE=/tls/crt", "FDB_TLS_VERIFY_PEERS=Check.Valid=1", "FDB_TLS_CA_FILE=/tls/ca",
		"HOME=" + r.Dir, "TERM=dumb",
	}
	got := slices.DeleteFunc(slices.Clone(r.Env), func(v string) bool {
		return isPlay(v) || strings.HasPrefix(v, "PWD=") // os/exec sets it beside Dir
	})
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the environment (- wanted, + got):\n%s", diff)
	}
}

func TestToolsAreChosenByVersion(t *testing.T) {
	s := newStage(t, play{}, Options{})
	s.install("7.1", fdb.ToolCLI)
	s.install("7.10", fdb.ToolCLI)
	s.install("7.4", fdb.ToolBackup) // without fdbcli
	s.install("latest", fdb.ToolCLI)
	if err := os.WriteFile(filepath.Join(s.folder, "7.4", "fdbcli"), nil, 0o644); err != nil { // not executable
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"7.1", "7.3", "7.10"}, s.Versions()); diff != "" {
		t.Errorf("the versions (- wanted, + got):\n%s", diff)
	}
	at := endpoint()
	at.Version = fdb.Version{Major: 7, Minor: 1, Patch: 67}
	s.Run(t.Context(), at, fdb.MaintenanceOff())
	if program := s.last().Argv[0]; program != filepath.Join(s.folder, "7.1", "fdbcli") {
		t.Errorf("7.1.67 is asked by %s", program)
	}
	for _, v := range []fdb.Version{{Major: 7, Minor: 4, Patch: 6}, {Major: 8}} {
		at.Version = v
		a := s.Run(t.Context(), at, fdb.MaintenanceOff())
		_, err := s.Status(t.Context(), at, port.Long)
		tr := s.Transact(t.Context(), at, nil, nil)
		folder := filepath.Join(s.folder, v.Short())
		if !errors.Is(err, port.ToolsMissing) {
			t.Errorf("%s: the status fails with %v", v, err)
		}
		for _, text := range []string{err.Error(), a.String(), tr.String()} {
			if !strings.Contains(text, folder) || !strings.Contains(text, "add "+v.String()+" to foundationdb.versions") {
				t.Errorf("%s: %q names neither folder nor value", v, text)
			}
		}
		if a.Outcome != fdb.Refused || a.Reason != "FdbToolsMissing" || tr.Outcome != fdb.Refused {
			t.Errorf("%s: it is %s and %s", v, a.Result, tr)
		}
	}
	none, err := New(Options{Folder: filepath.Join(t.TempDir(), "none"), TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if v := none.Versions(); v != nil {
		t.Errorf("there are the versions %v in a folder that is not there", v)
	}
}

// An executable that the kernel refuses is a tool that is missing.
func TestAToolThatIsNoProgramIsMissing(t *testing.T) {
	s := newStage(t, play{}, Options{})
	for line, content := range map[string]string{"7.1": "#!/no/such/interpreter\n", "7.4": "garbage"} {
		if err := os.MkdirAll(filepath.Join(s.folder, line), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.folder, line, "fdbcli"), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		at := endpoint()
		at.Version, _ = fdb.ParseVersion(line + ".0")
		if a := s.Run(t.Context(), at, fdb.MaintenanceOff()); a.Outcome != fdb.Refused || a.Reason != "FdbToolsMissing" {
			t.Errorf("%q: it is %s", content, a.Result)
		}
		if _, err := s.Status(t.Context(), at, port.Long); !errors.Is(err, port.ToolsMissing) {
			t.Errorf("%q: the status fails with %v", content, err)
		}
		if r := s.Transact(t.Context(), at, nil, nil); r.Outcome != fdb.Refused {
			t.Errorf("%q: it is %s", content, r)
		}
	}
}

func TestStatus(t *testing.T) {
	w := newModel()
	document := string(w.Status(w.given, w.version))
	for name, c := range map[string]struct {
		play  play
		fault error
		text  string
	}{
		"a document":                   {play: play{Stdout: document}},
		"a warning before it":          {play: play{Stdout: "\nWARNING: something\n" + document + "\n"}},
		"an unknown text on stderr":    {play: play{Stdout: document, Stderr: "WARNING: nobody has read this before\n"}},
		"half of it":                   {play: play{Stdout: document[:len(document)/2]}, fault: fdb.StatusUnreadable},
		"twice":                        {play: play{Stdout: document + document}, fault: fdb.StatusUnreadable},
		"nothing":                      {fault: port.DatabaseSilent},
		"nothing, and it fails":        {play: play{Exit: 1}, fault: port.DatabaseSilent},
		"another text":                 {play: play{Stdout: "hello\n"}, fault: port.DatabaseSilent, text: "hello"},
		"the tool gives up":            {play: play{Stderr: "Specified timeout reached -- exiting...\n", Exit: 1}, fault: port.DatabaseSilent, text: "TimedOut"},
		"a document, and it gives up":  {play: play{Stdout: document, Stderr: "Specified timeout reached -- exiting...\n", Exit: 1}, fault: port.DatabaseSilent},
		"it hangs":                     {play: play{Hang: true}, fault: port.DatabaseSilent, text: "ended after 100ms"},
		"a document, and then it hang": {play: play{Stdout: document, Hang: true}, fault: port.DatabaseSilent},
		"a signal ends it":             {play: play{Stdout: document, Signal: 6}, fault: port.DatabaseSilent},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			if c.play.Hang {
				o = short
			}
			status, err := newStage(t, c.play, o).Status(t.Context(), endpoint(), port.Long)
			switch {
			case c.fault == nil && (err != nil || len(status.Cluster.Processes) != 7):
				t.Errorf("it fails with %v", err)
			case c.fault != nil && (!errors.Is(err, c.fault) || !strings.Contains(err.Error(), c.text)):
				t.Errorf("it fails with %v", err)
			case c.play.Hang && !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("the cause is not kept: %v", err)
			}
		})
	}
}

// A status of a database with some 1,500 processes, 5 MB, fits.
func TestALargeStatusFits(t *testing.T) {
	processes := map[string]any{}
	for n := range 1500 {
		processes[fmt.Sprintf("%032x", n)] = map[string]any{
			"address": fmt.Sprintf("10.0.%d.%d:4501", n/250, n%250+1), "version": "7.3.69", "command_line": strings.Repeat("--knob_x=1 ", 300),
		}
	}
	document, err := json.Marshal(map[string]any{"client": map[string]any{}, "cluster": map[string]any{"processes": processes}})
	if err != nil {
		t.Fatal(err)
	}
	if len(document) < 5_000_000 {
		t.Fatalf("the document has %d bytes only", len(document))
	}
	file := filepath.Join(t.TempDir(), "status.json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		t.Fatal(err)
	}
	status, err := newStage(t, play{StdoutFile: file}, Options{}).Status(t.Context(), endpoint(), port.Long)
	if err != nil || len(status.Cluster.Processes) != 1500 {
		t.Errorf("it fails with %v", err)
	}
	if _, err := newStage(t, play{StdoutFile: file}, Options{MaxStatus: len(document) - 1}).Status(t.Context(), endpoint(), port.Long); !errors.Is(err, fdb.StatusUnreadable) {
		t.Errorf("one byte less: it fails with %v", err)
	}
}

func TestTimeouts(t *testing.T) {
	s := newStage(t, play{}, Options{Timeout: 3 * time.Second, MaxTimeout: 7 * time.Second})
	timeout := func() string {
		argv := s.last().Argv
		if at := slices.Index(argv, "--timeout"); at >= 0 {
			return argv[at+1]
		}
		return ""
	}
	for _, c := range []struct {
		want string
		run  func()
	}{
		{"3", func() { _, _ = s.Status(t.Context(), endpoint(), port.Short) }},
		{"7", func() { _, _ = s.Status(t.Context(), endpoint(), port.Long) }},
		{"3", func() { s.Run(t.Context(), endpoint(), fdb.MaintenanceOff()) }},
		{"7", func() { s.Run(t.Context(), endpoint(), fdb.Exclude([]string{"10.0.0.1"}, false)) }},
		{"5", func() {
			s.Run(t.Context(), endpoint(), fdb.Call{Command: fdb.CommandMaintenanceOff, Timeout: 5 * time.Second})
		}},
		{"", func() { s.Run(t.Context(), endpoint(), fdb.AbortBackup("daily")) }}, // fdbbackup takes none
	} {
		if c.run(); timeout() != c.want {
			t.Errorf("%q: the time-out is %q and not %q", s.last().Argv, timeout(), c.want)
		}
	}
}

// A tool that finds other coordinators writes them into its cluster file: the next call begins with them,
// until they do not help. What is no cluster file is not learned.
func TestClusterFilesAreReadAgain(t *testing.T) {
	const second = "sample:second@10.1.0.4:4501,10.1.0.5:4501"
	s := newStage(t, play{Rewrite: second}, Options{})
	contents := func() (list []string) {
		for _, r := range s.records() {
			list = append(list, strings.TrimSpace(r.ClusterFile))
		}
		return list
	}
	first, other := endpoint(), endpoint()
	other.Connection = connection("other:first@10.2.0.1:4501")
	s.Run(t.Context(), first, fdb.MaintenanceOff())
	s.Run(t.Context(), first, fdb.MaintenanceOff())
	s.Run(t.Context(), other, fdb.MaintenanceOff())
	if diff := cmp.Diff([]string{first.Connection.String(), second, other.Connection.String()}, contents()); diff != "" {
		t.Errorf("the cluster files (- wanted, + got):\n%s", diff)
	}
	for name, p := range map[string]play{
		"a tool that fails":     {Rewrite: second, Exit: 1},
		"what is no connection": {Rewrite: "sample:second@"},
		"a tool that is ended":  {Rewrite: second, Hang: true},
		"an empty file":         {Rewrite: " "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, p, Options{})
			for n := range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				var call sync.WaitGroup
				call.Go(func() { s.Run(ctx, first, fdb.MaintenanceOff()) })
				eventually(t, "the tool runs", func() bool { return len(s.records()) > n })
				if p.Hang {
					cancel()
				}
				call.Wait()
				cancel()
			}
			if got := strings.TrimSpace(s.last().ClusterFile); got != first.Connection.String() {
				t.Errorf("the second call begins with %q", got)
			}
		})
	}
	d := s.Database
	d.learned[first.Connection.String()] = connection(second)
	(&job{d: d, at: first}).forget()
	if got := d.known(first.Connection).String(); got != first.Connection.String() {
		t.Errorf("after a failure it is still %s", got)
	}
}

// Calls at the same time have files of their own, also those of one database.
func TestCallsAtTheSameTimeDoNotMeet(t *testing.T) {
	s := newStage(t, play{Rewrite: "sample:second@10.1.0.4:4501"}, Options{Processes: 4})
	var calls sync.WaitGroup
	for n := range 16 {
		calls.Go(func() {
			at := endpoint()
			at.Connection = connection(fmt.Sprintf("db%d:first@10.2.0.1:4501", n%2))
			if a := s.Run(t.Context(), at, fdb.MaintenanceOff()); a.Outcome != fdb.Ok {
				t.Errorf("it is %s", a.Result)
			}
		})
	}
	calls.Wait()
	folders := map[string]bool{}
	for _, r := range s.records() {
		folders[r.Dir] = true
		if mode, _, _ := strings.Cut(r.Files["fdb.cluster"], " "); mode != "-rw-------" {
			t.Errorf("a cluster file has the mode %s", mode)
		}
	}
	if len(folders) != 16 {
		t.Errorf("16 calls had %d folders", len(folders))
	}
}

func TestUnknownTextsAreUnknown(t *testing.T) {
	var log bytes.Buffer
	s := newStage(t, play{Stdout: "Everything is fine, trust me\n"}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	s.install("7.9", fdb.ToolCLI)
	at := endpoint()
	for _, v := range []fdb.Version{at.Version, {Major: 7, Minor: 9}, {Major: 7, Minor: 9, Patch: 1}} {
		at.Version = v
		if a := s.Run(t.Context(), at, fdb.MaintenanceOff()); a.Outcome != fdb.Unknown || a.Reason != fdb.UnknownText {
			t.Errorf("%s: it is %s", v, a.Result)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "version=7.9 texts=7.4") {
		t.Errorf("the log has %d lines, and one was expected, of 7.9:\n%s", n, &log)
	}
}
