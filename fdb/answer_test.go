package fdb

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb/internal/texts"
)

// answer is a block of testdata/answers.txt.
type answer struct {
	at             int // line
	calls          []string
	lines          []string
	exit           int
	stdout, stderr string
	want           Result
}

func readAnswers(t testing.TB) []answer {
	t.Helper()
	file, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []answer
	var a answer
	for i, line := range strings.Split(string(file), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		content := strings.TrimPrefix(line[1:], " ")
		switch line[0] {
		case '=':
			a = answer{at: i + 1, calls: strings.Split(content, " | ")}
		case '@':
			fields := strings.Fields(content)
			a.lines = fields[:len(fields)-1]
			if a.lines[0] == "*" {
				a.lines = []string{"7.1", "7.3", "7.4"}
			}
			if a.exit, err = strconv.Atoi(fields[len(fields)-1]); err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
		case '>':
			a.stdout += content + "\n"
		case '!':
			a.stderr += content + "\n"
		case ':':
			outcome, reason, _ := strings.Cut(content, " ")
			if err := a.want.Outcome.UnmarshalText([]byte(outcome)); err != nil || a.want.Outcome.String() != outcome {
				t.Fatalf("line %d: %q", i+1, outcome)
			}
			a.want.Reason = Reason(reason)
			all = append(all, a)
		default:
			t.Fatalf("line %d: %q", i+1, line)
		}
	}
	return all
}

// callNamed makes the call that a block names.
func callNamed(t testing.TB, name string) Call {
	t.Helper()
	words := strings.Fields(name)
	rest := words[1:]
	flag := func(name string) bool {
		if len(rest) > 0 && rest[0] == name {
			rest = rest[1:]
			return true
		}
		return false
	}
	switch words[0] {
	case "status":
		return ReadStatus()
	case "connection":
		return ReadConnection()
	case "version":
		return ReadVersion()
	case "times":
		return ReadTimes(noon, noon.Add(time.Minute))
	case "force-recovery":
		return ForceRecovery("dc2")
	case "exclude":
		noWait := flag("no_wait")
		return Exclude(rest, noWait)
	case "include":
		return Include(rest)
	case "kill":
		upgrade := flag("upgrade")
		return Kill(rest, upgrade)
	case "maintenance":
		if flag("off") {
			return MaintenanceOff()
		}
		return MaintenanceOn(rest[1], time.Minute)
	case "coordinators":
		return Coordinators(rest)
	case "configure":
		create := flag("new")
		return Call{Command: CommandConfigure, Configuration: strings.Join(rest, " "), Create: create}
	case "start-backup":
		return StartBackup(Backup{URL: blobURL})
	case "modify-backup":
		return ModifyBackup(Backup{URL: blobURL})
	case "discontinue-backup":
		return DiscontinueBackup("")
	case "abort-backup":
		return AbortBackup("")
	case "pause-backups":
		return PauseBackups()
	case "resume-backups":
		return ResumeBackups()
	case "backup-status":
		return ReadBackupStatus("")
	case "delete-backup":
		return DeleteBackup(blobURL)
	case "start-restore":
		return StartRestore(Restore{Tag: "restore-1", URL: blobURL})
	case "abort-restore":
		return AbortRestore("restore-1")
	case "restore-status":
		return ReadRestoreStatus("restore-1")
	}
	t.Fatalf("no call is named %q", name)
	return Call{}
}

// Flaw 4 among others: a backup that "in not running" is stopped.
func TestJudge(t *testing.T) {
	for _, a := range readAnswers(t) {
		for _, name := range a.calls {
			for _, line := range a.lines {
				got := Judge(callNamed(t, name), version(line+".60"), a.exit, a.stdout, a.stderr)
				if got.Outcome != a.want.Outcome || got.Reason != a.want.Reason {
					t.Errorf("answers.txt:%d: %s at %s: %s, wanted %s", a.at, name, line, got, a.want)
				}
			}
		}
	}
}

// Every text of the tables has an answer with it, for each of its versions.
func TestEveryTextHasAnAnswer(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range readAnswers(t) {
		for _, name := range a.calls {
			for _, line := range a.lines {
				c := callNamed(t, name)
				for stderr, output := range map[bool]string{false: a.stdout, true: a.stderr} {
					for printed := range strings.SplitSeq(output, "\n") {
						if found, match := texts.Find(string(c.Command), string(c.Tool()), line, strings.TrimSpace(printed)); match != nil && found.Stderr == stderr {
							seen[line+keyOf(found)] = true
						}
					}
				}
			}
		}
	}
	for _, known := range texts.All() {
		for _, l := range texts.Lines {
			if (len(known.Lines) == 0 || slices.Contains(known.Lines, l.Line)) && !seen[l.Line+keyOf(known)] {
				t.Errorf("%s has no answer with %q %q", l.Line, known.Format, known.Args)
			}
		}
	}
}

func keyOf(t texts.Text) string {
	return " " + t.Tool + " " + t.Format + " " + strings.Join(t.Args, " ") + " " + t.Source + " " + t.Reason
}

// A text is Ok only for the command that prints it, and never for no text at all.
func TestOkNeedsItsText(t *testing.T) {
	for _, c := range sampleCalls() {
		for _, exit := range []int{-1, 0, 1, 2, 10} {
			if got := Judge(c, version("7.3.69"), exit, "", ""); got.Outcome != Unknown && (exit != 0 || !c.Command.silent() && c.Command != CommandRestoreStatus) {
				t.Errorf("%s, exit code %d: %s", c.Command, exit, got)
			}
			for _, noise := range []string{"done", "OK", "Success", "Excluded.", "\x00", strings.Repeat("x", 5000)} {
				if got := Judge(c, version("7.3.69"), exit, noise, ""); got.Outcome != Unknown {
					t.Errorf("%s says %.9q: %s", c.Command, noise, got)
				}
				if got := Judge(c, version("7.3.69"), exit, "", noise); got.Outcome != Unknown || len(got.Text) > maxResultText+3 {
					t.Errorf("%s says %.9q on stderr: %s", c.Command, noise, got)
				}
			}
		}
	}
}

// Whatever is added to an answer or taken from it: it does not become Ok unless it was, and an unknown
// text anywhere leaves nothing known.
func TestJudgeIsNeverMoreSureThanItsText(t *testing.T) {
	answers := readAnswers(t)
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(answers).Draw(t, "answer")
		c := callNamed(noFatal{}, rapid.SampledFrom(a.calls).Draw(t, "call"))
		v := version(rapid.SampledFrom(a.lines).Draw(t, "line") + ".60")
		if c.Command != CommandVersion {
			if got := Judge(c, v, a.exit, a.stdout+"what nobody has read\n", a.stderr); got.Outcome != Unknown {
				t.Fatalf("with an unknown text: %s", got)
			}
		}
		if got := Judge(c, v, a.exit, a.stdout, "what nobody has read\n"+a.stderr); got.Outcome != Unknown {
			t.Fatalf("with an unknown text on stderr: %s", got)
		}
		if got := Judge(c, v, -1, a.stdout, a.stderr); got.Outcome == Ok {
			t.Fatalf("ended by a signal: %s", got)
		}
		exit := rapid.IntRange(-1, 11).Draw(t, "exit")
		onlyExit := slices.Contains([]Reason{UnknownExit, ToolEnded, NoAnswer}, a.want.Reason) // the text would do
		if got := Judge(c, v, exit, a.stdout, a.stderr); got.Outcome == Ok && exit != a.exit && !onlyExit {
			t.Fatalf("with exit code %d: %s", exit, got)
		}
		cut := a.stdout[:rapid.IntRange(0, len(a.stdout)).Draw(t, "cut")]
		got := Judge(c, v, a.exit, cut, a.stderr)
		whole := c.Command.silent() || c.Command == CommandRestoreStatus // what they do not print cannot be missed
		if got.Outcome == Ok && a.want.Outcome != Ok && !whole {
			t.Fatalf("cut after %q: %s", cut, got)
		}
	})
}

// noFatal is a testing.TB that is never asked to fail.
type noFatal struct{ testing.TB }

func (noFatal) Helper() {}

func TestTextLine(t *testing.T) {
	for _, c := range []struct {
		v, line string
		known   bool
	}{
		{"7.1.0", "7.1", true}, {"7.1.67", "7.1", true}, {"7.2.9", "7.1", false}, {"7.3.0", "7.3", true}, {"7.3.79", "7.3", true},
		{"7.4.6", "7.4", true}, {"7.4.0-rc1", "7.4", true}, {"7.5.0", "7.4", false}, {"8.0.0", "7.4", false}, {"6.3.25", "7.1", false},
	} {
		if line, known := TextLine(version(c.v)); line != c.line || known != c.known {
			t.Errorf("%s: %s, %t", c.v, line, known)
		}
	}
}

func TestProtocol(t *testing.T) {
	const output = "FoundationDB CLI 7.3 (v7.3.69)\nsource version 5140696d\nprotocol fdb00b073000000\n"
	for _, text := range []string{output, strings.ReplaceAll(output, "\n", "\r\n"), "protocol fdb00b073000000"} {
		if got, err := Protocol(text); err != nil || got != "fdb00b073000000" {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "protocol", "protocol ", "protocol FDB", " protocol fdb", output + output, "protocol fdb00b073000000 x"} {
		if got, err := Protocol(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestConnectionOf(t *testing.T) {
	got, err := ConnectionOf(">>> get \\xff/coordinators\n`\\xff/coordinators' is `sample:abc@10.1.1.1:4500:tls,10.1.1.2:4500:tls'\n")
	if err != nil || got.String() != "sample:abc@10.1.1.1:4500:tls,10.1.1.2:4500:tls" {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "`\\xff/coordinators': not found\n", "`\\xff/coordinators' is `a:b@c@d:4500'\n", "`\\xff/coordinators' is `\\q'\n"} {
		if got, err := ConnectionOf(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestResultsHoldNoSecret(t *testing.T) {
	for _, text := range []string{
		"ERROR: 'x' on URL 'blobstore://key:topsecret@host:443/a'",
		"ERROR: 'x' on URL 'blobstore://key:topsecret:token@host:443/a': bad",
		"blobstore://key:topsecret@host and blobstore://other:topsecret@host",
	} {
		if got := Judge(StartBackup(Backup{}), version("7.3.69"), 10, "", text); strings.Contains(got.String(), "topsecret") {
			t.Errorf("%s", got)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, a := range readAnswers(f) {
		f.Add(a.exit, a.stdout, a.stderr)
	}
	calls := sampleCalls()
	f.Fuzz(func(t *testing.T, exit int, stdout, stderr string) {
		for _, c := range calls {
			got := Judge(c, version("7.3.69"), exit, stdout, stderr)
			if got.Outcome == Ok && exit != 0 && exit != 1 {
				t.Fatalf("%s: %s with exit code %d", c.Command, got, exit)
			}
			if c.Command == CommandKill && got.Outcome == Ok {
				t.Fatalf("a kill is %s", got)
			}
			if c.Command == CommandExclude && got.Outcome == Ok && !c.NoWait && strings.Contains(stderr, "Exclusion in progress") {
				t.Fatalf("an exclusion in progress is %s", got)
			}
			if len(got.Text) > maxResultText+3 {
				t.Fatalf("the text has %d bytes", len(got.Text))
			}
		}
		_ = RestoreStateOf(stdout, "restore-1")
		_, _ = ParseBackupStatus([]byte(stdout))
		_, _ = Protocol(stdout)
		_, _ = ConnectionOf(stdout)
	})
}
