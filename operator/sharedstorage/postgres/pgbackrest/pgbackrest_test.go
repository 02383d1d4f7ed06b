package pgbackrest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

var server = pgbackrest.Server{Data: "/data", Port: 5432, Socket: "/run/engine", Run: "/run/locks", CAFile: "/conf/ca.pem"}

func TestConf(t *testing.T) {
	text, err := pgbackrest.Conf(port.Repository{Stanza: "default-blue", Folder: "/blue", Passphrase: "p", KeepDays: 14,
		S3: &port.S3{Bucket: "backups", Endpoint: "s3.example.com", Region: "eu", KeyID: "id", Secret: "secret", CA: "PEM", PathStyle: true}}, server)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"repo1-path=/blue", "repo1-cipher-type=aes-256-cbc", "repo1-type=s3", "repo1-s3-uri-style=path", "repo1-storage-ca-file=/conf/ca.pem",
		"repo1-retention-full-type=time", "repo1-retention-full=14", "[default-blue]", "pg1-path=/data"} {
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
	got := pgbackrest.ArchiveCommand("/usr/bin/pgbackrest", "/it's 100%/pgbackrest.conf", "blue", "/run/said")
	want := `'/usr/bin/pgbackrest' --config='/it'\''s 100%%/pgbackrest.conf' --stanza='blue' archive-push "%p" >'/run/said' 2>&1`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A backup that ended after the target holds rows that are to be left out: an older one is chosen.
func TestChoose(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 26, hour, 0, 0, 0, time.UTC) }
	have := []port.Backup{{Label: "one", Ended: at(1)}, {Label: "two", Ended: at(2)}, {Label: "three", Ended: at(3)}}
	for _, c := range []struct {
		from port.Restore
		have []port.Backup
		want string
	}{
		{port.Restore{}, have, "three"},
		{port.Restore{Label: "one"}, have, "one"},
		{port.Restore{Time: at(3).Add(time.Second)}, have, "three"},
		{port.Restore{Time: at(3)}, have, "two"},
		{port.Restore{Time: at(1)}, have, ""},
		{port.Restore{Time: at(2), Label: "three"}, have, ""},
		{port.Restore{Label: "four"}, have, ""},
		{port.Restore{}, nil, ""},
	} {
		got, err := pgbackrest.Choose(c.from, c.have)
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
	if err := pgbackrest.Fault(port.BackupFailed, 28, "P00  ERROR: [028]: backup and archive info files exist but do not match the database"); !errors.Is(err, port.RepositoryTaken) {
		t.Error(err)
	}
}
