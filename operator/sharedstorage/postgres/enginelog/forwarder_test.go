package enginelog

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What an engine says goes out as one line of JSON a message, also a message of several lines, one that
// was half written, and one without the prefix.
func TestTheLogOfAnEngineIsJSON(t *testing.T) {
	var out bytes.Buffer
	f := &forwarder{path: filepath.Join(t.TempDir(), FileName), instance: "blue-1", out: &out}
	write := func(text string) {
		t.Helper()
		file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	pass := func() {
		t.Helper()
		if err := f.pass(); err != nil {
			t.Fatal(err)
		}
	}
	pass() // there is no file yet
	const at = "2026-11-26 18:00:00.123 UTC\t41\t"
	write(at + "00000\tLOG:  starting PostgreSQL\n" + at + "42P01\tpostgres\torders\tpsql\tERROR:  relation \"x\" does not exist at character 15\n")
	write(at + "42P01\tpostgres\torders\tpsql\tSTATEMENT:  SELECT *\n\tFROM")
	pass()
	write(" x;\nld.so: a library says something\n")
	pass()
	pass()
	want := []message{
		{Time: "2026-11-26T18:00:00.123Z", Level: "LOG", Msg: "starting PostgreSQL", PID: "41"},
		{Time: "2026-11-26T18:00:00.123Z", Level: "ERROR", Msg: "relation \"x\" does not exist at character 15", PID: "41", SQLState: "42P01", User: "postgres", Database: "orders", Application: "psql"},
		{Time: "2026-11-26T18:00:00.123Z", Level: "STATEMENT", Msg: "SELECT *\nFROM x;", PID: "41", SQLState: "42P01", User: "postgres", Database: "orders", Application: "psql"},
		{Level: "LOG", Msg: "ld.so: a library says something"},
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, line := range lines {
		var got message
		w := want[i]
		w.Logger, w.Instance = "postgres", "blue-1"
		if err := json.Unmarshal([]byte(line), &got); err != nil || got != w {
			t.Errorf("line %d is %+v, %v\nwant %+v", i, got, err, w)
		}
	}
}

// The file is cut when it is large, and nothing is forwarded twice or left out.
func TestTheLogOfAnEngineStaysSmall(t *testing.T) {
	var out bytes.Buffer
	f := &forwarder{path: filepath.Join(t.TempDir(), FileName), out: &out}
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const line = "2026-11-26 18:00:00.123 UTC\t41\t00000\tLOG:  a message\n"
	const each = 20000
	written := 0
	for range 20 {
		if _, err := file.WriteString(strings.Repeat(line, each)); err != nil {
			t.Fatal(err)
		}
		written += each
		if err := f.pass(); err != nil {
			t.Fatal(err)
		}
		if info, err := file.Stat(); err != nil || info.Size() > Limit+int64(len(line))*each {
			t.Fatalf("the file has %d bytes, %v", info.Size(), err)
		}
	}
	if err := f.pass(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != written {
		t.Errorf("%d of %d messages are forwarded", got, written)
	}
	if _, err := os.Stat(f.path + ".1"); err != nil {
		t.Error(err)
	}
}
