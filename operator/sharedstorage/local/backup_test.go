package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

// withBackups returns a fixture and a repository. It skips the test if pgBackRest is missing.
func withBackups(t *testing.T) (*fixture, port.Repository) {
	t.Helper()
	if _, err := exec.LookPath(pgbackrest.Program); err != nil {
		t.Skip("pgBackRest is missing: apt-get install pgbackrest")
	}
	b := newFixture(t, Options{})
	return b, port.Repository{Stanza: "default-c1", Folder: filepath.Join(b.o.Dir, "nodes", "..", "repository"), Passphrase: "correct horse"}
}

func (b *fixture) archiver() port.Archiver { return b.Engine() }

// archive makes the log of an instance go to the repository, and waits until it does.
func (b *fixture) archive(to port.Repository, names ...string) {
	b.t.Helper()
	for _, name := range names {
		b.must(b.archiver().Archive(b.ctx(), c1.Of(name), &to))
	}
	b.until(b.writer, "archives", func(s port.Status) bool {
		return s.Archive.Repository == to.Hash() && !s.Archive.Unreadable && !s.Archive.Failing
	})
}

// backup takes a backup and returns it.
func (b *fixture) backup(key string, kind port.BackupType) port.Backup {
	b.t.Helper()
	var got port.Backup
	eventually(b.t, 2*time.Minute, "backup "+key, func() (err error) {
		if got, err = b.archiver().Backup(b.ctx(), c1.Of(b.writer), port.BackupOrder{Key: key, Type: kind}); err != nil {
			return err
		}
		if got.State == port.JobFailed {
			b.t.Fatalf("%+v", got)
		}
		if got.State != port.JobDone {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	return got
}

// flush archives everything that was committed so far.
func (b *fixture) flush() {
	b.t.Helper()
	segment, err := b.query(b.writer, "SELECT pg_walfile_name(pg_switch_wal())")
	b.must(err)
	b.until(b.writer, "has archived "+segment, func(s port.Status) bool { return s.Archive.Last >= segment && s.Archive.Waiting == 0 })
}

var c2 = port.Ref{Namespace: "default", Name: "c2", UID: "uid-2"}

// restored makes another cluster from the repository, and returns the rows of a table there.
func (b *fixture) restored(name string, from port.Restore) (rows string, err error) {
	b.t.Helper()
	c := port.Ref{Namespace: c1.Namespace, Name: name, UID: "uid-" + name}
	_, err = b.ports.Storage.Ensure(b.ctx(), c, port.Volume{Size: 1 << 30}, "volume")
	b.must(err)
	b.up(c, "w2", port.Writer)
	b.must(b.ports.Engine.Install(b.ctx(), c.Of("w2"), port.Source{Restore: &from}, "install"))
	var failed error
	eventually(b.t, 2*time.Minute, "the restore", func() error {
		s, err := b.ports.Engine.Status(b.ctx(), c.Of("w2"))
		if err == nil && s.Code != "" && !s.Installed {
			failed = fmt.Errorf("%s: %s", s.Code, s.Message)
			return nil
		}
		if err == nil && !s.Installed {
			err = errors.New("it is not there")
		}
		return err
	})
	if failed != nil {
		return "", failed
	}
	b.must(b.ports.Storage.Grant(b.ctx(), c, "w2", 1))
	b.must(b.ports.Engine.Start(b.ctx(), c.Of("w2")))
	eventually(b.t, time.Minute, "the restored writer", func() error {
		s, err := b.ports.Engine.Status(b.ctx(), c.Of("w2"))
		if err == nil && (!s.Ready || s.Role != port.Primary) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	b.up(c, "r2", port.Reader)
	b.must(b.ports.Engine.Install(b.ctx(), c.Of("r2"), port.Source{From: "w2"}, "install"))
	eventually(b.t, time.Minute, "the reader of the restored writer", func() error {
		s, err := b.ports.Engine.Status(b.ctx(), c.Of("r2"))
		if err == nil && s.Installed {
			err = b.ports.Engine.Start(b.ctx(), c.Of("r2"))
		}
		if err == nil && (!s.Ready || !s.Streaming) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	return b.queryOf(c, "r2", "SELECT n FROM rows ORDER BY n")
}

// Rows that were committed before a time are in a cluster that is restored to that time, and later
// ones are not; one that is restored to the end has all that was archived.
func TestRestoreToATimeANameAndTheEnd(t *testing.T) {
	b, to := withBackups(t)
	b.create("w", "r1")
	b.archive(to, "w", "r1")
	b.exec("w", "CREATE TABLE rows (n text); INSERT INTO rows VALUES ('1 before the backup')")
	first := b.backup("first", port.FullBackup)
	if first.Label == "" || first.Size < 1<<20 || first.Stored < 1<<20 || first.StopLSN == "" || first.Ended.IsZero() {
		t.Errorf("backup: %+v", first)
	}
	if again := b.backup("first", port.FullBackup); again.Label != first.Label {
		t.Errorf("one key took two backups: %s and %s", first.Label, again.Label)
	}
	eventually(t, 30*time.Second, "the second after the backup", func() error { // pgBackRest knows its end to the second
		if time.Since(first.Ended) <= time.Second {
			return errors.New("it is the same second")
		}
		return nil
	})
	b.exec("w", "INSERT INTO rows VALUES ('2 before the time')")
	text, err := b.query("w", "SELECT clock_timestamp()::timestamptz(6)::text")
	b.must(err)
	at, err := time.Parse("2006-01-02 15:04:05.999999-07", text)
	b.must(err)
	b.exec("w", "INSERT INTO rows VALUES ('3 after the time')")
	b.exec("w", "SELECT pg_create_restore_point('upgrade')")
	b.exec("w", "INSERT INTO rows VALUES ('4 the last')")
	second := b.backup("second", port.IncrementalBackup)
	b.exec("w", "INSERT INTO rows VALUES ('5 after the second backup')")
	b.flush()
	all, err := b.archiver().Backups(b.ctx(), c1.Of("r1"))
	b.must(err)
	if len(all) != 2 || all[0].Label != first.Label || all[1].Label != second.Label || all[1].Type != port.IncrementalBackup || all[1].Stored > all[0].Stored/2 {
		t.Errorf("backups: %+v", all)
	}

	for _, c := range []struct {
		name string
		from port.Restore
		want string
	}{
		{"time", port.Restore{Time: at}, "1 before the backup,2 before the time"},
		{"name", port.Restore{Name: "upgrade"}, "1 before the backup,2 before the time,3 after the time"},
		{"end", port.Restore{}, "1 before the backup,2 before the time,3 after the time,4 the last,5 after the second backup"},
		{"immediate", port.Restore{Label: first.Label, Consistent: true}, "1 before the backup"},
	} {
		c.from.Repository = to
		if got, err := b.restored("at-"+c.name, c.from); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q: %v", c.name, got, c.want, err)
		}
	}
	for _, c := range []struct {
		name string
		from port.Restore
		code string
	}{
		{"early", port.Restore{Time: first.Started.Add(-time.Hour)}, "BACKUP_MISSING"},
		{"late", port.Restore{Time: time.Now().Add(time.Hour)}, "RESTORE_TARGET_MISSING"},
		{"unknown", port.Restore{Label: "20200101-000000F"}, "BACKUP_MISSING"},
		{"unnamed", port.Restore{Name: "downgrade"}, "RESTORE_TARGET_MISSING"},
		{"younger", port.Restore{Name: "upgrade", Label: second.Label}, "RESTORE_TARGET_MISSING"}, // it is not looked for
	} {
		c.from.Repository = to
		if got, err := b.restored("not-"+c.name, c.from); err == nil || !strings.HasPrefix(err.Error(), c.code) {
			t.Errorf("%s: %q and %v, want %s", c.name, got, err, c.code)
		}
		folder := b.folder(port.Ref{Namespace: c1.Namespace, Name: "not-" + c.name}, "instances", "w2")
		if record, err := os.ReadFile(filepath.Join(folder, "record.json")); err != nil || strings.Contains(string(record), to.Passphrase) {
			t.Errorf("%s: it would be restored again and again: %s %v", c.name, record, err)
		}
		if _, err := os.Stat(filepath.Join(folder, "data.new")); !os.IsNotExist(err) {
			t.Errorf("%s: half of the data are left: %v", c.name, err)
		}
	}
	from := to
	from.Passphrase = "another"
	if got, err := b.restored("not-decrypted", port.Restore{Repository: from}); err == nil {
		t.Errorf("another passphrase gave %q", got)
	} else if strings.Contains(err.Error(), from.Passphrase) {
		t.Error(err)
	}
}

// A writer that dies while the archive cannot be reached leaves no gap: the one that takes its place
// archives what the former one had not.
func TestFailoverLeavesNoGapInTheArchive(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b, to := withBackups(t)
	b.create("w", "r1")
	b.archive(to, "w", "r1")
	b.exec("w", "CREATE TABLE rows (n text); INSERT INTO rows VALUES ('1')")
	b.backup("first", port.FullBackup)
	away := to.Folder + ".away"
	b.must(os.Rename(to.Folder, away))
	b.must(os.WriteFile(to.Folder, nil, 0o600)) // nobody creates the folder anew
	for n := 2; n <= 4; n++ {
		b.exec("w", fmt.Sprintf("INSERT INTO rows VALUES ('%d'); SELECT pg_switch_wal()", n))
	}
	s := b.until("w", "fails to archive", func(s port.Status) bool { return s.Archive.Failing && s.Archive.Waiting >= 3 })
	if s.Archive.Code != "ARCHIVE_FAILED" || s.Archive.Message == "" || s.Archive.Since.IsZero() {
		t.Errorf("%+v", s.Archive)
	}
	b.until("r1", "has received all", func(r port.Status) bool { return r.Position >= s.Position })
	b.crash(b.folder(c1, "instances", "w"))
	b.epoch++
	b.writer = "r1"
	b.must(b.ports.Storage.Grant(b.ctx(), c1, "r1", b.epoch))
	b.must(b.ports.Engine.Promote(b.ctx(), c1.Of("r1"), b.epoch))
	b.until("r1", "writes", func(s port.Status) bool { return s.Ready && s.Role == port.Primary })
	b.must(os.Remove(to.Folder))
	b.must(os.Rename(away, to.Folder))
	b.exec("r1", "INSERT INTO rows VALUES ('5')")
	b.flush()
	if got, err := b.restored("after-failover", port.Restore{Repository: to}); err != nil || got != "1,2,3,4,5" {
		t.Errorf("%q: %v", got, err)
	}
}

// A writer that dies after it has archived log of its timeline, and before another instance has received
// from it, leaves names that the next writer uses too. That is told, with the remedy, and not as an
// archive that cannot be reached.
func TestArchiveOfTwoPromotionsToOneTimeline(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b, to := withBackups(t)
	b.create("w", "r1", "r2")
	b.archive(to, "w", "r1", "r2")
	b.exec("w", "CREATE TABLE rows (n text); INSERT INTO rows VALUES ('1')")
	b.backup("first", port.FullBackup)
	b.flush()
	promote := func(name string) {
		b.crash(b.folder(c1, "instances", b.writer))
		b.epoch++
		b.writer = name
		b.must(b.ports.Storage.Grant(b.ctx(), c1, name, b.epoch))
		b.must(b.ports.Engine.Promote(b.ctx(), c1.Of(name), b.epoch))
		b.until(name, "writes", func(s port.Status) bool { return s.Ready && s.Role == port.Primary })
	}
	promote("r1") // r2 does not follow it
	b.exec("r1", "INSERT INTO rows VALUES ('of r1')")
	b.flush()
	promote("r2")
	b.exec("r2", "INSERT INTO rows VALUES ('of r2'); SELECT pg_switch_wal()")
	b.until("r2", "tells the conflict", func(s port.Status) bool { return s.Archive.Failing && s.Archive.Code == "ARCHIVE_CONFLICT" })
	to.Stanza = "another"
	b.must(b.archiver().Archive(b.ctx(), c1.Of("r2"), &to))
	b.until("r2", "has a new stanza", func(s port.Status) bool { return s.Archive.Repository == to.Hash() && !s.Archive.Unreadable })
	b.exec("r2", "INSERT INTO rows VALUES ('2'); SELECT pg_switch_wal()") // an archiver that failed tries again with the next segment, or after a minute
	b.archive(to, "r2")
	b.backup("second", port.FullBackup)
	b.flush()
	if got, err := b.restored("after-the-conflict", port.Restore{Repository: to}); err != nil || got != "1,2,of r2" {
		t.Errorf("%q: %v", got, err)
	}
}

// Log beyond maxWaiting is given up while the archive is away, so that it does not fill the volume. A
// backup after that closes the gap, and no restore pretends that it has what was in it.
func TestLogBeyondTheBoundIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	b, to := withBackups(t)
	to.MaxWaiting = 64 << 20
	b.create("w")
	b.archive(to, "w")
	b.exec("w", "CREATE TABLE rows (n text); INSERT INTO rows VALUES ('1')")
	first := b.backup("first", port.FullBackup)
	if s := b.status("w"); s.Archive.Dropped != "" || s.Archive.Free == 0 {
		t.Errorf("%+v", s.Archive)
	}
	away := to.Folder + ".away"
	b.must(os.Rename(to.Folder, away))
	b.must(os.WriteFile(to.Folder, nil, 0o600)) // nobody creates the folder anew
	for n := 2; n <= 9; n++ {
		b.exec("w", fmt.Sprintf("INSERT INTO rows VALUES ('%d'); SELECT pg_switch_wal()", n))
	}
	s := b.until("w", "gives up", func(s port.Status) bool {
		return s.Archive.Dropped != "" && s.Archive.Failing && s.Archive.Bytes <= to.MaxWaiting
	})
	if s.Archive.Waiting != 4 || s.Archive.Bytes != to.MaxWaiting || s.Archive.DroppedAt.Before(first.Ended) || len(s.Archive.Dropped) != 24 {
		t.Errorf("%+v", s.Archive)
	}
	text, err := b.query("w", "SELECT clock_timestamp()::timestamptz(6)::text")
	b.must(err)
	at, err := time.Parse("2006-01-02 15:04:05.999999-07", text)
	b.must(err)
	b.exec("w", "INSERT INTO rows VALUES ('a')")
	b.must(os.Remove(to.Folder))
	b.must(os.Rename(away, to.Folder))
	b.flush()
	second := b.backup("second", port.FullBackup)
	if got := b.status("w").Archive; got.Dropped < s.Archive.Dropped || !second.Started.After(got.DroppedAt) {
		t.Errorf("%+v, and the backup began %s", got, second.Started)
	}
	if got, err := b.restored("after-the-gap", port.Restore{Repository: to}); err != nil || got != "1,2,3,4,5,6,7,8,9,a" {
		t.Errorf("after the gap: %q: %v", got, err)
	}
	if got, err := b.restored("in-the-gap", port.Restore{Repository: to, Time: at}); err == nil || !strings.HasPrefix(err.Error(), "RESTORE_TARGET_MISSING") {
		t.Errorf("in the gap: %q: %v", got, err)
	}
	to.Stanza = "another" // what one archive lacks is no gap of the next
	b.archive(to, "w")
	if got := b.status("w").Archive; got.Dropped != "" {
		t.Errorf("%+v", got)
	}
}

// What an engine gave up is told also by a reader: after a failover the new writer does not know. What one
// archive lacks is not told of the next.
func TestAReaderTellsWhatWasGivenUp(t *testing.T) {
	b, to := withBackups(t)
	b.create("w", "r1")
	b.archive(to, "w", "r1")
	said := "WARN: dropped WAL file '000000010000000000000007' because archive queue exceeded 64MB"
	b.must(os.WriteFile(filepath.Join(b.folder(c1, "instances", "r1"), "run", "archive.dropped"), []byte(said), 0o600))
	if s := b.status("r1").Archive; s.Dropped != "000000010000000000000007" || time.Since(s.DroppedAt) > time.Minute || s.Repository != to.Hash() {
		t.Errorf("%+v", s)
	}
	if s := b.status("w").Archive; s.Dropped != "" {
		t.Errorf("%+v", s)
	}
	to.Stanza = "another"
	b.archive(to, "w", "r1")
	if s := b.status("r1").Archive; s.Dropped != "" {
		t.Errorf("%+v", s)
	}
}

// A check finds a damaged backup, and leaves nothing behind.
func TestVerifyFindsADamagedBackup(t *testing.T) {
	b, to := withBackups(t)
	to.Passphrase = ""
	b.create("w", "r1")
	b.archive(to, "w", "r1")
	b.exec("w", "CREATE TABLE rows (n text); INSERT INTO rows SELECT repeat(g::text, 20) FROM generate_series(1, 20000) g; CHECKPOINT")
	taken := b.backup("first", port.FullBackup)
	check := func(key string) (got port.Backup) {
		eventually(t, 2*time.Minute, "check "+key, func() (err error) {
			got, err = b.archiver().Verify(b.ctx(), c1.Of("r1"), port.VerifyOrder{Key: key, Repository: to, Label: taken.Label, Follow: got.State != port.JobNone})
			if err == nil && got.State == port.JobRunning {
				err = errors.New("it goes on")
			}
			return err
		})
		return got
	}
	if got := check("sound"); got.State != port.JobDone || got.Label != taken.Label {
		t.Errorf("%+v", got)
	}
	b.must(os.RemoveAll(filepath.Join(to.Folder, "archive", to.Stanza, "15-1"))) // the log of the backup itself; a missing file is asked for again for 45 s
	if got := check("damaged"); got.State != port.JobFailed || got.Code != "BACKUP_DAMAGED" {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(b.folder(c1, "instances", "r1", "verify")); !os.IsNotExist(err) {
		t.Errorf("the scratch folder is left: %v", err)
	}
	if s := b.status("r1"); !s.Streaming {
		t.Errorf("the reader does not stream: %+v", s)
	}
}

// A repository that has another database under the same name is refused, and not changed.
func TestARepositoryOfAnotherDatabase(t *testing.T) {
	b, to := withBackups(t)
	b.create("w")
	b.archive(to, "w")
	b.backup("first", port.FullBackup)
	_, err := b.ports.Storage.Ensure(b.ctx(), c2, port.Volume{Size: 1 << 30}, "volume")
	b.must(err)
	b.up(c2, "w2", port.Writer)
	b.must(b.ports.Engine.Install(b.ctx(), c2.Of("w2"), port.Source{}, "install"))
	b.must(b.ports.Storage.Grant(b.ctx(), c2, "w2", 1))
	b.must(b.ports.Engine.Start(b.ctx(), c2.Of("w2")))
	b.must(b.archiver().Archive(b.ctx(), c2.Of("w2"), &to))
	eventually(t, time.Minute, "the refusal", func() error {
		s, err := b.ports.Engine.Status(b.ctx(), c2.Of("w2"))
		if err == nil && s.Archive.Code != "BACKUP_REPOSITORY_TAKEN" {
			err = fmt.Errorf("%+v", s.Archive)
		}
		return err
	})
}
