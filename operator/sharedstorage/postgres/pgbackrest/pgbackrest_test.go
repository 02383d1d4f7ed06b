package pgbackrest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

var server = pgbackrest.Server{Data: "/data", Port: 5432, Socket: "/run/engine", Run: "/run/locks", CAFile: "/conf/ca.pem"}

func TestConf(t *testing.T) {
	text, err := pgbackrest.Conf(port.Repository{Stanza: "default-blue", Folder: "/blue", Passphrase: "p", KeepDays: 14, MaxWaiting: 1 << 30,
		S3: &port.S3{Bucket: "backups", Endpoint: "s3.example.com", Region: "eu", KeyID: "id", Secret: "secret", CA: "PEM", PathStyle: true}}, server)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"repo1-path=/blue", "repo1-cipher-type=aes-256-cbc", "repo1-type=s3", "repo1-s3-uri-style=path", "repo1-storage-ca-file=/conf/ca.pem",
		"repo1-retention-full-type=time", "repo1-retention-full=14", "archive-push-queue-max=1073741824", "[default-blue]", "pg1-path=/data"} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
}

// What would change the configuration beyond its own line is refused.
func TestCheck(t *testing.T) {
	good := port.Repository{Stanza: "a", Folder: "/r"}
	if err := pgbackrest.Check(good); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*port.Repository){
		"passphrase": func(r *port.Repository) { r.Passphrase = "a\nrepo1-path=/etc" },
		"stanza":     func(r *port.Repository) { r.Stanza = "a]" },
		"folder":     func(r *port.Repository) { r.Folder = "relative" },
		"nothing":    func(r *port.Repository) { r.Folder = "" },
		"retention":  func(r *port.Repository) { r.KeepDays, r.KeepBackups = 1, 1 },
		"key":        func(r *port.Repository) { r.S3 = &port.S3{Bucket: "b", Endpoint: "e", Region: "r", Secret: "s"} },
	} {
		r := good
		change(&r)
		if err := pgbackrest.Check(r); err == nil {
			t.Errorf("%s: %+v was taken", what, r)
		}
	}
}

func TestArchiveCommandQuotesItsWords(t *testing.T) {
	got := pgbackrest.ArchiveCommand("/usr/bin/pgbackrest", "/it's 100%/pgbackrest.conf", "blue", "/run/said", "/run/dropped")
	want := `'/usr/bin/pgbackrest' --config='/it'\''s 100%%/pgbackrest.conf' --stanza='blue' archive-push "%p" >'/run/said' 2>&1 && { ! grep -q 'dropped WAL file' '/run/said' || cp '/run/said' '/run/dropped'; }`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A backup that ended after the target holds rows that are to be left out: an older one is chosen.
func TestChoose(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 26, hour, 0, 0, 0, time.UTC) }
	have := []port.Backup{{Label: "one", Ended: at(1), StopLSN: "0/3000100"}, {Label: "two", Ended: at(2), StopLSN: "1/5000100"}, {Label: "three", Ended: at(3), StopLSN: "1/A000100"}}
	for _, c := range []struct {
		from  port.Restore
		have  []port.Backup
		want  string
		point uint64
	}{
		{port.Restore{}, have, "three", 0},
		{port.Restore{Label: "one"}, have, "one", 0},
		{port.Restore{Time: at(3).Add(time.Second)}, have, "three", 0},
		{port.Restore{Time: at(3)}, have, "two", 0},
		{port.Restore{Time: at(1)}, have, "", 0},
		{port.Restore{Time: at(2), Label: "three"}, have, "", 0},
		{port.Restore{Label: "four"}, have, "", 0},
		{port.Restore{}, nil, "", 0},
		{port.Restore{Name: "point"}, have, "three", 0x1_0A000100},
		{port.Restore{Name: "point"}, have, "two", 0x1_0A0000FF},
		{port.Restore{Name: "point"}, have, "one", 0x1_00000000},
		{port.Restore{Name: "point"}, have, "", 0x100},
		{port.Restore{Name: "point", Label: "one"}, have, "one", 0x1_0A000100},
		{port.Restore{Name: "point", Label: "three"}, have, "", 0x1_00000000},
		{port.Restore{Name: "point", Label: "three"}, have, "three", 0}, // it was not looked for
		{port.Restore{Name: "point", Label: "four"}, have, "", 0},
		{port.Restore{Name: "point"}, nil, "", 0},
	} {
		got, err := pgbackrest.Choose(c.from, c.point, c.have)
		if got.Label != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, port.BackupMissing) {
			t.Errorf("%+v: %s and %v, want %q", c.from, got.Label, err, c.want)
		}
	}
}

func TestMessage(t *testing.T) {
	const said = `2026-11-26 22:00:00.000 P00   WARN: an aside
2026-11-26 22:00:00.000 P00  ERROR: [055]: unable to load info file '/r/archive/blue/archive.info'
                                    HINT: is it there?`
	if got := pgbackrest.Message(said); got != "unable to load info file '/r/archive/blue/archive.info'" {
		t.Error(got)
	}
	const more = `/usr/bin/pgbackrest: exit status 103: 2026-11-26 22:00:00.000 P00  ERROR: [103]: unable to find a valid repository:
            repo1: [FileOpenError] unable to open '/r'`
	if got := pgbackrest.Message(more); got != "unable to find a valid repository: repo1: [FileOpenError] unable to open '/r'" {
		t.Error(got)
	}
	if err := pgbackrest.ArchiveFault("P00  ERROR: [045]: WAL file '00000002.history' already exists in the repo1 archive with a different checksum"); !errors.Is(err, port.ArchiveConflict) {
		t.Error(err)
	}
	if err := pgbackrest.ArchiveFault("P00  ERROR: [082]: unable to push"); !errors.Is(err, port.ArchiveFailed) {
		t.Error(err)
	}
	if err := pgbackrest.Fault(port.BackupFailed, 28, "P00  ERROR: [028]: backup and archive info files exist but do not match the database"); !errors.Is(err, port.RepositoryTaken) {
		t.Error(err)
	}
}

// The files of an archive in the order of the log, whatever their timelines.
func TestParseLog(t *testing.T) {
	segments, timeline := pgbackrest.ParseLog(`0000000100000000
0000000100000000/000000010000000000000003-aa.lz4
0000000100000000/000000010000000000000003.00000028.backup
0000000100000000/000000010000000000000004-bb.lz4
0000000200000000/000000020000000000000004-cc.lz4
0000000200000001/000000020000000100000000-dd
00000002.history
`)
	got := make([]string, 0, len(segments))
	for _, s := range segments {
		got = append(got, s.Name())
	}
	if want := "000000010000000000000003 000000010000000000000004 000000020000000000000004 000000020000000100000000"; strings.Join(got, " ") != want || timeline != 2 {
		t.Errorf("timeline %d: %s", timeline, got)
	}
	if got := pgbackrest.Newest("15-1\n9.6-2\n16-10\narchive.info\n"); got != "16-10" {
		t.Errorf("the newest archive is %s", got)
	}
}

// What lz4 has compressed, with literals, repetitions that overlap and blocks that cannot be compressed.
func TestDecompress(t *testing.T) {
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, "%d %s %d\n", n, strings.Repeat("ab", n*10), n*n)
	}
	noise := make([]byte, 300<<10)
	for n := range noise {
		noise[n] = byte(n * n * 2654435761 >> 13)
	}
	program, err := exec.LookPath("lz4")
	if err != nil {
		t.Skip("lz4 is missing: apt-get install lz4")
	}
	for name, content := range map[string][]byte{"empty": {}, "text": []byte(text.String()), "noise": noise, "zeros": make([]byte, 5<<20)} {
		for _, args := range [][]string{{"-c"}, {"-c", "-BD", "-B4"}, {"-c", "-9", "--content-size", "-BX"}} {
			cmd := exec.CommandContext(t.Context(), program, args...)
			cmd.Stdin = bytes.NewReader(content)
			packed, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgbackrest.Decompress("a.lz4", packed)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s %s: %d of %d bytes: %v", name, args, len(got), len(content), err)
			}
			for _, cut := range []int{1, len(packed) / 2, len(packed) - 8} {
				if got, err := pgbackrest.Decompress("a.lz4", packed[:cut]); err == nil {
					t.Errorf("%s %s: %d of %d bytes gave %d", name, args, cut, len(packed), len(got))
				}
			}
		}
	}
	if _, err := pgbackrest.Decompress("a.xz", nil); err == nil {
		t.Error("an unknown compression was taken")
	}
}
