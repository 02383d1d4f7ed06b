package fdb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb/internal/cli"
	"github.com/pawl-dev/pawl/fdb/internal/tuple"
)

// printedTimes is what fdbcli prints of these entries.
func printedTimes(entries ...TimedVersion) string {
	var b strings.Builder
	b.WriteString("\nRange limited to 10000 keys\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "`%s' is `%s'\n", cli.Printable(timeKey(e.At.Unix())), cli.Printable(string(tuple.Pack(e.Version))))
	}
	return b.String()
}

// noon is a time at which the database had a version, and a break follows in which nobody wrote any.
var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// TestVersionAt: the version of a time is that of the entry before it, and grows by a million a second, but not beyond
// the next entry.
func TestVersionAt(t *testing.T) {
	known, err := VersionsOf(printedTimes(
		TimedVersion{noon, 5_000_000_000}, TimedVersion{noon.Add(10 * time.Second), 5_010_100_000}, TimedVersion{noon.Add(time.Hour), 5_110_000_000},
	))
	if err != nil || len(known) != 3 || !known[1].At.Equal(noon.Add(10*time.Second)) || known[1].Version != 5_010_100_000 {
		t.Fatalf("%v, %v", known, err)
	}
	for after, want := range map[time.Duration]int64{
		0: 5_000_000_000, 999 * time.Millisecond: 5_000_000_000, 4 * time.Second: 5_004_000_000, 10 * time.Second: 5_010_100_000,
		30 * time.Second: 5_030_100_000, 30 * time.Minute: 5_110_000_000, time.Hour + 3*time.Second: 5_113_000_000,
	} {
		if got, err := VersionAt(noon.Add(after), known); err != nil || got != want {
			t.Errorf("%s after noon: %d, %v, want %d", after, got, err, want)
		}
	}
	if got, err := VersionAt(noon.Add(-time.Second), known); fault.Of(err) != TimeUnknown {
		t.Errorf("before all: %d, %v", got, err)
	}
	if got, err := VersionAt(noon, nil); fault.Of(err) != TimeUnknown {
		t.Errorf("nothing known: %d, %v", got, err)
	}
}

// What is no time and version is refused, and not left out.
func TestVersionsOf(t *testing.T) {
	entry := printedTimes(TimedVersion{noon, 7})
	for _, text := range []string{
		"`a' is `b'\n", entry + entry, strings.Replace(entry, "timeKeeper", "timekeeper", 1), strings.Replace(entry, `\x15`, `\x02`, 1),
		strings.Replace(entry, "' is `", "' is `q", 1),
	} {
		if got, err := VersionsOf(text); fault.Of(err) != AnswerUnreadable {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := VersionsOf("\nRange limited to 10000 keys\n"); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// Only keys of the time keeper can be read by this call, and only a word is a data center.
func TestTimesAndRecoveryAreChecked(t *testing.T) {
	for _, c := range []Call{{Command: CommandTimes}, {Command: CommandTimes, Times: Range{Begin: "a", End: "b"}}, ForceRecovery(""), ForceRecovery("dc1; kill all")} {
		if err := c.Check(); fault.Of(err) != WordInvalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
	argv, _ := ForceRecovery("dc2").Arguments()
	if len(argv) < 2 || argv[1] != "force_recovery_with_data_loss dc2" {
		t.Errorf("%q", argv)
	}
	want := `option on READ_SYSTEM_KEYS; option on LOCK_AWARE; getrange \xff\x02/timeKeeper/map/\x18k\x05|@ \xff\x02/timeKeeper/map/\x18k\x05|J 10000`
	if got := ReadTimes(noon, noon.Add(9*time.Second)).Text(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
