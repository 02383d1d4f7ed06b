package postgres

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseControl(t *testing.T) {
	text := `pg_control version number:            1300
Database cluster state:               shut down
Latest checkpoint location:           1/6A000028
Latest checkpoint's TimeLineID:       3
Minimum recovery ending location:     0/0
Min recovery ending loc's timeline:   0
max_connections setting:              120
`
	c, err := parseControl(text)
	if err != nil || !c.Clean() || c.Position != 1<<32|0x6A000028+1 || c.Timeline != 3 || c.Floors["max_connections"] != "120" {
		t.Errorf("got %+v, %v", c, err)
	}
	follower := strings.NewReplacer("shut down", "shut down in recovery", "location:     0/0", "location:     1/6B000000", "timeline:   0", "timeline:   4").Replace(text)
	if c, err := parseControl(follower); err != nil || !c.Clean() || c.Position != 1<<32|0x6B000000 || c.Timeline != 4 {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := parseControl(strings.Replace(text, "shut down", "in production", 1)); err != nil || c.Clean() {
		t.Errorf("a crashed engine: %+v, %v", c, err)
	}
	for _, wrong := range []string{"", "Database cluster state: shut down\n", "Latest checkpoint location: x\n"} {
		if _, err := parseControl(wrong); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
}

func TestPositionsAreWrittenAsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Uint64().Draw(t, "position")
		if got, err := parseLSN(LSN(p)); err != nil || got != p {
			t.Fatalf("%s is read as %d, %v", LSN(p), got, err)
		}
	})
}

func TestDiverged(t *testing.T) {
	history := parseHistory("1\t0/5000000\tno recovery target specified\n2\t0/7000000\tno recovery target specified\n")
	for _, c := range []struct {
		name     string
		timeline int64
		end      uint64
		theirs   int64
		want     bool
	}{
		{"same line", 3, 0x9000000, 3, false},
		{"ended before the fork", 1, 0x4000000, 3, false},
		{"ended at the fork", 1, 0x5000000, 3, false},
		{"went further", 1, 0x5000001, 3, true},
		{"ended before the second fork", 2, 0x6000000, 3, false},
		{"went further after the second", 2, 0x7000010, 3, true},
		{"a line nobody knows", 9, 0x1, 3, true},
	} {
		if got := diverged(c.timeline, c.end, c.theirs, history); got != c.want {
			t.Errorf("%s: got %t", c.name, got)
		}
	}
}

func TestConfiguration(t *testing.T) {
	text := configuration(setup{
		Bind: "127.1.2.3", Port: 5432, Name: "c1-1", Params: map[string]string{"Work_Mem": "8MB", "max_connections": "50", "my.note": `it's \ here`},
		Floors: map[string]string{"max_connections": "100", "max_worker_processes": "8"}, Sync: []string{"c1-2", `odd"name`},
		Upstream: &Upstream{Name: "w", Host: "127.0.0.9", Port: 5433}, PassFile: "/with space/pgpass",
	})
	for _, line := range []string{
		"listen_addresses = '127.1.2.3'", "work_mem = '8MB'", "max_connections = '100'", "max_worker_processes = '8'", `my.note = 'it''s \\ here'`,
		`synchronous_standby_names = 'ANY 1 ("c1-2","odd""name")'`, "fsync = 'on'",
		"primary_slot_name = '" + slotName("c1-1") + "'",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if !strings.Contains(text, `passfile=''/with space/pgpass''`) {
		t.Errorf("the file of the password is not quoted in\n%s", text)
	}
	if got := parseStandbyNames(`ANY 1 ("c1-2","odd""name")`); len(got) != 2 || got[0] != "c1-2" || got[1] != `odd"name` {
		t.Errorf("the names are read as %q", got)
	}
}

func TestParametersOfOthersAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"work_mem", "8MB", true}, {"auto_explain.log_min_duration", "1s", true}, {"Shared_Buffers", "1GB", true},
		{"wal_level", "logical", true}, {"WAL_Level", "replica", true}, {"wal_level", "minimal", false}, {"wal_level", "", false},
		{"fsync", "off", false}, {"FSYNC", "off", false}, {"synchronous_standby_names", "", false}, {"include", "/etc/passwd", false}, {"primary_conninfo", "host=x", false},
		{"work_mem", "8MB'\nfsync = off", false}, {"a b", "1", false}, {"", "1", false}, {"x=1\nfsync", "off", false},
	} {
		if err := checkParameters(map[string]string{c.name: c.value}); (err == nil) != c.ok {
			t.Errorf("%q = %q: %v", c.name, c.value, err)
		}
	}
}

// Slot names are valid for PostgreSQL, and no two instances share one.
func TestSlotNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Z0-9.-]{1,63}`), 2, 2, rapid.ID).Draw(t, "names")
		a, b := slotName(names[0]), slotName(names[1])
		if a == b || len(a) > 63 || strings.Trim(a, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Fatalf("%q and %q", a, b)
		}
	})
}
