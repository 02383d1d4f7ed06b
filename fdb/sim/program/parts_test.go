package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOptions: both forms of values, hyphens and underscores, beginnings of names, and what is wrong.
func TestOptions(t *testing.T) {
	table := options("-C|--cluster-file= --log --log-dir= --exec= --knob-= -v|--version")
	for _, test := range []struct {
		exact bool
		args  string
		id    string
		value string
		wrong mistake
	}{
		{true, "-C x", "-C", "x", noMistake},
		{true, "--cluster_file=x=y", "-C", "x=y", noMistake},
		{true, "--cluster-file=", "-C", "", noMistake},
		{true, "--knob_a_b=1", "--knob-", "1", noMistake},
		{true, "--knob-a-b 1", "--knob-", "1", noMistake},
		{true, "--log", "--log", "", noMistake},
		{true, "--clu x", "", "", unknownOption},
		{false, "--clu x", "-C", "x", noMistake},
		{false, "--lo", "", "", ambiguousOption},
		{false, "--log", "--log", "", noMistake},
		{false, "--log-d x", "--log-dir", "x", noMistake},
		{false, "--", "", "", unknownOption},
		{true, "--log=1", "--log", "", argumentGiven},
		{true, "-C", "-C", "", argumentMissing},
		{true, "-C -v", "-C", "", argumentOption},
		{true, "word", "", "", unknownOption},
		{true, "--knob", "", "", unknownOption},
	} {
		a := arguments{table: table, exact: test.exact, rest: strings.Fields(test.args)}
		g, wrong, more := a.next()
		if !more || wrong != test.wrong || wrong == noMistake && (g.id != test.id || g.value != test.value) {
			t.Errorf("%s (exact: %t): %+v, %v", test.args, test.exact, g, wrong)
		}
	}
	g := given{id: "--knob-", text: "--knob_some-name"}
	if g.after() != "some_name" {
		t.Error(g.after())
	}
}

// TestMonitorCommand: what becomes of a section.
func TestMonitorCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conf")
	read := func(text string) ini {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := readIni(path)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := read(`# comment
[general]
restart-delay = 60
kill_on_configuration_change = false
cluster_file = /etc/fdb.cluster
logdir = general
[fdbserver]
command = /usr/bin/fdbserver --flag
public-address = auto:$ID
logdir = class
[fdbserver.4500]
logdir = own
Class = storage
flag_on = true
flag-off = false
data = $PID/x
[fdbserver.4501]
command=
flag_on = maybe
[other]
command = x
`)
	if got := file.servers(); !slices.Equal(got, []string{"fdbserver.4500", "fdbserver.4501"}) {
		t.Error(got)
	}
	c, problem := file.command("fdbserver.4500", false)
	want := []string{"/usr/bin/fdbserver", "--flag", "--class=storage", "--cluster_file=/etc/fdb.cluster", "--data=$PID/x", "--on", "--logdir=own", "--public-address=auto:4500"}
	if problem != "" || !slices.Equal(c.argv, want) || c.kill || c.longest != 60 || c.initial != 0 || c.backoff != 60 {
		t.Errorf("%+v %s", c, problem)
	}
	if _, problem := file.command("fdbserver.4501", true); !strings.HasPrefix(problem, "Bad flag value") {
		t.Error(problem)
	}
	for text, want := range map[string]string{
		"[a.1]\ncommand=x":                                                     "Unable to resolve restart delay for a.1",
		"[a.1]\ncommand=x\nrestart_delay=no":                                   "Unable to parse restart delay for a.1",
		"[a.1]\nrestart_delay=1":                                               "Unable to resolve command for a.1",
		"[a.1]\ncommand=x\nrestart_delay=1\nrestart_backoff=0.5":               "Invalid restart backoff value 0.500000 for a.1",
		"[a.1]\ncommand=x\nrestart_delay=1\ninitial_restart_delay=x":           "Unable to parse initial restart delay for a.1",
		"[a.1]\ncommand=x\nrestart_delay=1\nrestart_delay_reset_interval=-1":   "Unable to parse restart delay reset interval for a.1",
		"[fdbmonitor]\nrestart_delay=1\n[a.1]\ncommand=x\nrestart_backoff=two": "Unable to parse restart backoff for a.1",
	} {
		if _, problem := read(text).command("a.1", true); problem != want {
			t.Errorf("%q: %q", text, problem)
		}
	}
}

// TestRestartDelay: the first restart is at once, the next waits; a long run forgets.
func TestRestartDelay(t *testing.T) {
	c := monitorCommand{longest: 60, backoff: 60, resetAfter: 60}
	if d := c.delay(time.Second); d != 0 {
		t.Error(d)
	}
	for range 50 {
		if d := c.delay(time.Second); d < 54*time.Second || d > 66*time.Second {
			t.Error(d)
		}
	}
	if d := c.delay(time.Minute); d != 0 {
		t.Error(d)
	}
	slow := monitorCommand{longest: 60, initial: 1, current: 1, backoff: 2, resetAfter: 60}
	var seen []float64
	for range 8 {
		seen = append(seen, slow.current)
		slow.delay(0)
	}
	if !slices.Equal(seen, []float64{1, 2, 4, 8, 16, 32, 60, 60}) {
		t.Error(seen)
	}
}

// TestLauncherArguments: each type, and what cannot be generated.
func TestLauncherArguments(t *testing.T) {
	variables := map[string]string{"A": "a", "IPS": "x,fd00::1,10.0.0.1,10.0.0.2"}
	lookup := func(name string) (string, bool) {
		value, there := variables[name]
		return value, there
	}
	for _, test := range []struct {
		argument launcherArgument
		want     string // of the second process; empty: refused
	}{
		{launcherArgument{Value: "a b"}, "a b"},
		{launcherArgument{Type: "Literal", Value: "$A"}, "$A"},
		{launcherArgument{Type: "Environment", Source: "A"}, "a"},
		{launcherArgument{Type: "Environment", Source: "B"}, ""},
		{launcherArgument{Type: "ProcessNumber"}, "2"},
		{launcherArgument{Type: "ProcessNumber", Multiplier: 2, Offset: 4499}, "4503"},
		{launcherArgument{Type: "IPList", Source: "IPS", IPFamily: 4}, "10.0.0.1"},
		{launcherArgument{Type: "IPList", Source: "IPS", IPFamily: 6}, "fd00::1"},
		{launcherArgument{Type: "IPList", Source: "IPS", IPFamily: 5}, ""},
		{launcherArgument{Type: "IPList", Source: "A", IPFamily: 4}, ""},
		{launcherArgument{Type: "IPList", Source: "B", IPFamily: 4}, ""},
		{launcherArgument{Type: "Concatenate", Values: []launcherArgument{{Value: "x="}, {Type: "ProcessNumber"}}}, "x=2"},
		{launcherArgument{Type: "Concatenate", Values: []launcherArgument{{Value: "x="}, {Type: "Environment", Source: "B"}}}, ""},
		{launcherArgument{Type: "Other"}, ""},
	} {
		got, err := test.argument.text(2, lookup)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: %q, %v", test.argument, got, err)
		}
	}
}

// TestPath: where the files of an image and of a container are.
func TestPath(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"fdbserver", "version", "libfdb_c_7.3.so"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &Process{Folder: folder, Environ: []string{"CONTAINER_ROOT=/root1"}}
	for name, want := range map[string]string{
		"/usr/bin/fdbserver": folder + "/fdbserver", "/usr/bin/env": "/root1/usr/bin/env", "/var/fdb/version": folder + "/version", "/var/fdb/data/version": "/root1/var/fdb/data/version",
		"/usr/lib/fdb/multiversion/libfdb_c_7.3.so": folder + "/libfdb_c_7.3.so", "/var/fdb/lib/libfdb_c_7.3.so": folder + "/libfdb_c_7.3.so",
		"/root1/var/fdb/data": "/root1/var/fdb/data", "relative": "relative", "/root12/a": "/root1/root12/a",
	} {
		if got := p.path(name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}
