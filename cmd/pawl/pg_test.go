package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
)

// TestPostgresVerbs plays the verbs of pawl pg on clusters of real processes.
func TestPostgresVerbs(t *testing.T) {
	if versions, err := local.Installed(); err != nil || len(versions) == 0 {
		t.Skip("PostgreSQL's server programs are missing: apt-get install postgresql")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/pg", UpdateScripts: *update, WorkdirRoot: t.TempDir(),
		Setup: func(env *testscript.Env) error {
			shm := "/dev/shm" // what is tested is processes that end, not machines
			if _, err := os.Stat(shm); err != nil {
				shm = ""
			}
			dir, err := os.MkdirTemp(shm, "pawl-pg-")
			if err != nil {
				return err
			}
			env.Defer(func() {
				killIn(t, dir)
				_ = os.RemoveAll(dir)
			})
			env.Vars = append(env.Vars, "XDG_STATE_HOME="+filepath.Join(env.WorkDir, "state"), "PAWL_CONTEXTS="+filepath.Join(env.WorkDir, "contexts.yaml"), "USER=ann", "TZ=UTC", "NO_COLOR=1", "SHARED="+dir, "PGOPTIONS=", "PGHOSTADDR=192.0.2.1")
			env.Values[processes{}] = map[string]*process{}
			return os.Chmod(dir, 0o711) // the user of PostgreSQL enters it
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "halt": halt, "waitfor": waitFor, "exits": exits,
			"heard": heard, "settled": settled, "normalpg": normalPG, "ordered": ordered, "nosecret": noSecret, "hide": hide, "unhide": hide,
		},
	})
}

// killIn kills the processes that have a folder in their arguments: those of a script that has failed.
func killIn(t *testing.T, dir string) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		line, err := os.ReadFile(name)
		var pid int
		if _, bad := fmt.Sscanf(name, "/proc/%d/cmdline", &pid); err == nil && bad == nil && strings.Contains(string(line), dir) {
			if !t.Failed() {
				t.Errorf("process %d is left: %s", pid, strings.ReplaceAll(string(line), "\x00", " "))
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // it is the test's own
		}
	}
}

// heard NAME TEXT: waits for a line of the output of a process.
func heard(ts *testscript.TestScript, _ bool, args []string) {
	p := ts.Value(processes{}).(map[string]*process)[args[0]]
	deadline := time.After(waitTimeout)
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				ts.Fatalf("%s ended before it printed %q", args[0], args[1])
			}
			if strings.Contains(line, args[1]) {
				return
			}
		case <-deadline:
			ts.Fatalf("%s did not print %q", args[0], args[1])
		}
	}
}

// settled CLUSTER: until status finds nothing, and both readers stream.
func settled(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := ts.Exec("pawl", "pg", "status", args[0])
		if err == nil && strings.Count(ts.ReadFile("stdout"), "streaming, sync") == 2 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not settle: %v\n%s", args[0], err, ts.ReadFile("stdout"))
		}
		<-time.After(100 * time.Millisecond)
	}
}

var ownOfRun = []struct {
	form *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`\borders-(\d)-[a-z0-9]{5}`), "orders-$1-NAME"},
	{regexp.MustCompile(`\bpawl_orders_(\d)_[a-z0-9]{5}_[0-9a-f]+`), "pawl_orders_${1}_NAME"},
	{regexp.MustCompile(`\b127(\.\d+){3}:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\bvolume-[0-9a-f]+`), "volume-ID"},
	{regexp.MustCompile(`\bnode-\d`), "node-N"},
	{regexp.MustCompile(`\b15\.\d+`), "15.N"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (B|[KMG]iB)\b`), "SIZE"},
	{regexp.MustCompile(`\b\d+\.\d+s\b`), "SPAN"},
	{regexp.MustCompile(`\b\d+[smh]\b`), "AGE"},
	{regexp.MustCompile(`\b\d+ of 100 connections`), "N of 100 connections"},
	{regexp.MustCompile(`(\S)   +`), "$1  "},
}

// normalPG writes the output of the last command to the file out, without what every run has of its own.
func normalPG(ts *testscript.TestScript, _ bool, _ []string) {
	text := ts.ReadFile("stdout")
	for _, r := range ownOfRun {
		text = r.form.ReplaceAllString(text, r.text)
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(text), 0o600))
}

// ordered: the times of the lines of JSON in the last output do not go back.
func ordered(ts *testscript.TestScript, _ bool, _ []string) {
	var last time.Time
	instances := map[string]bool{}
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var l struct {
			Time         time.Time
			ID, Instance string
		}
		ts.Check(json.Unmarshal([]byte(line), &l))
		if l.Time.Before(last) || l.ID == "" || l.Instance == "" {
			ts.Fatalf("after %s came %s", last, line)
		}
		last, instances[l.ID] = l.Time, true
	}
	if len(instances) != 3 {
		ts.Fatalf("the instances are %v", instances)
	}
}

// noSecret FOLDER TEXT…: neither a secret of the clusters nor a text is in a file of the folder.
func noSecret(ts *testscript.TestScript, _ bool, args []string) {
	secrets := args[1:]
	secret := filepath.Join(ts.Getenv("SHARED"), "clusters", "*", "*", "secret")
	passwords, _ := filepath.Glob(filepath.Join(secret, "password"))
	tokens, _ := filepath.Glob(filepath.Join(secret, "token"))
	users, _ := filepath.Glob(filepath.Join(secret, "users", "*"))
	keys, _ := filepath.Glob(filepath.Join(secret, "tls", "*.key"))
	if len(passwords) != 1 || len(tokens) != 1 || len(users) != 1 || len(keys) == 0 {
		ts.Fatalf("the secrets are %v, %v, %v and %v: want a password, a token, a user, and keys", passwords, tokens, users, keys)
	}
	for _, file := range slices.Concat(passwords, tokens, users, keys) {
		secrets = append(secrets, strings.TrimSpace(ts.ReadFile(file)))
	}
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := ts.ReadFile(path)
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				ts.Fatalf("%s holds %q", path, secret)
			}
		}
		return nil
	}))
}

// hide moves the secrets of the clusters away, as on another machine; unhide, with any argument, puts them back.
func hide(ts *testscript.TestScript, _ bool, args []string) {
	secret := filepath.Join(ts.Getenv("SHARED"), "clusters", "default", "orders", "secret", "password")
	from, to := secret, filepath.Join(ts.Getenv("SHARED"), "password")
	if len(args) > 0 {
		from, to = to, from
	}
	ts.Check(os.Rename(from, to))
}
